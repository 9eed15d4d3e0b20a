package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// maxName is the length of the longest object name, in bytes.
const maxName = 253

// serviceAccount gives every gateway an identity of its own. Its token is mounted only where the profile says so.
func (r *renderer) serviceAccount() error {
	automount := r.automountToken()
	account := &corev1.ServiceAccount{AutomountServiceAccountToken: &automount}
	if shape := r.revision.Profile.ServiceAccount; shape != nil {
		account.Annotations = maps.Clone(shape.Annotations)
	}
	return r.add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), account, r.revision.Profile.ServiceAccount)
}

func (r *renderer) automountToken() bool {
	return r.revision.Profile.ServiceAccount != nil && r.revision.Profile.ServiceAccount.AutomountToken
}

// roleBindings bind the profile's ClusterRoles in the gateway's namespace, and only there.
func (r *renderer) roleBindings() error {
	for _, role := range r.revision.Profile.ClusterRoles {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: bindingName(r.gateway.Name, role)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Name: r.gateway.Name, Namespace: r.gateway.Namespace,
			}},
		}
		if err := r.add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), binding, role); err != nil {
			return err
		}
	}
	return nil
}

// bindingName is <gateway>.<role>; a role whose name is too long for that is hashed. A gateway's name holds no dot, so
// the bindings of two gateways never meet.
func bindingName(gateway, role string) string {
	name := gateway + "." + role
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(role))
	return gateway + "." + hex.EncodeToString(sum[:])[:hashLength]
}

// networkPolicy holds traffic to what the profile allows. Neither direction given means no policy at all, because
// Kubernetes reads an empty policy as one that refuses ingress.
func (r *renderer) networkPolicy() error {
	policy := r.revision.Profile.NetworkPolicy
	if policy == nil || policy.Ingress == nil && policy.Egress == nil {
		return nil
	}
	return r.add(networkPolicyKind, networkPolicyFor(r.gateway.Name, policy), policy)
}

// service offers the profile's ports under the gateway's name.
func (r *renderer) service() error {
	if len(r.revision.Profile.Ports) == 0 {
		return nil
	}
	ports := make([]corev1.ServicePort, 0, len(r.revision.Profile.Ports))
	for _, port := range r.revision.Profile.Ports {
		ports = append(ports, servicePort(port))
	}
	return r.add(corev1.SchemeGroupVersion.WithKind("Service"), &corev1.Service{
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: Selector(r.gateway.Name), Ports: ports},
	}, r.revision.Profile.Ports)
}

func servicePort(port v1alpha1.ServicePort) corev1.ServicePort {
	out := corev1.ServicePort{Name: port.Name, Port: port.Port, Protocol: port.Protocol, AppProtocol: port.AppProtocol}
	if out.Protocol == "" {
		out.Protocol = corev1.ProtocolTCP
	}
	if port.TargetPort != nil {
		out.TargetPort = *port.TargetPort
	} else {
		out.TargetPort.IntVal = port.Port
	}
	return out
}
