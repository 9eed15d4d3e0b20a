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
		for _, rule := range *copied.Ingress {
			out.Spec.Ingress = append(out.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: policyPorts(rule.Ports), From: rule.From})
		}
	}
	if copied.Egress != nil {
		out.Spec.PolicyTypes = append(out.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		for _, rule := range *copied.Egress {
			out.Spec.Egress = append(out.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: policyPorts(rule.Ports), To: rule.To})
		}
	}
	return out
}

func policyPorts(ports []v1alpha1.PolicyPort) []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	for _, port := range ports {
		out = append(out, networkingv1.NetworkPolicyPort(port))
	}
	return out
}
