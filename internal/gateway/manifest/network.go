package manifest

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

var networkPolicyKind = networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")

// networkPolicyFor names a direction in policyTypes exactly when the profile gives it: an empty list refuses all, an
// omitted one leaves the direction alone.
func networkPolicyFor(gateway string, policy *v1alpha1.NetworkPolicy) *networkingv1.NetworkPolicy {
	out := &networkingv1.NetworkPolicy{
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: Selector(gateway)}},
	}
	copied := policy.DeepCopy()
	if copied.Ingress != nil {
		out.Spec.PolicyTypes = append(out.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		out.Spec.Ingress = *copied.Ingress
	}
	if copied.Egress != nil {
		out.Spec.PolicyTypes = append(out.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		out.Spec.Egress = *copied.Egress
	}
	return out
}
