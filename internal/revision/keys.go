package revision

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// checkKeys refuses entries that share the key by which server-side apply tells the entries of their list apart. The
// API server takes them when an object is created and refuses every apply of it, so no gateway could ever run them.
func checkKeys(found *problems, profile *v1alpha1.GatewayProfileSpec, pod *corev1.PodSpec) {
	const path = "spec.template.spec"
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i, container := range list.containers {
			field := fmt.Sprintf("%s.%s[%d]", path, list.name, i)
			unique(found, field+".env", container.Env, func(e corev1.EnvVar) string { return "name " + e.Name })
			unique(found, field+".ports", container.Ports, func(p corev1.ContainerPort) string {
				return portKey(p.ContainerPort, p.Protocol)
			})
		}
	}
	unique(found, path+".imagePullSecrets", pod.ImagePullSecrets, func(s corev1.LocalObjectReference) string { return "name " + s.Name })
	unique(found, path+".hostAliases", pod.HostAliases, func(a corev1.HostAlias) string { return "ip " + a.IP })
	unique(found, path+".topologySpreadConstraints", pod.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) string {
		return fmt.Sprintf("topologyKey %s with whenUnsatisfiable %s", c.TopologyKey, c.WhenUnsatisfiable)
	})
	unique(found, "spec.ports", profile.Ports, func(p v1alpha1.ServicePort) string { return portKey(p.Port, p.Protocol) })
}

func portKey(port int32, protocol corev1.Protocol) string {
	return fmt.Sprintf("port %d/%s", port, cmp.Or(protocol, corev1.ProtocolTCP))
}

func unique[T any](found *problems, field string, entries []T, key func(T) string) {
	first := map[string]int{}
	for i, entry := range entries {
		k := key(entry)
		if earlier, taken := first[k]; taken {
			found.add(fmt.Sprintf("%s[%d]", field, i), "has the %s of entry %d; keep one", k, earlier)
			continue
		}
		first[k] = i
	}
}
