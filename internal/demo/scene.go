package demo

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/auditlog"
)

// scene is what the steps act on.
type scene struct {
	kubernetes *kubernetes
	client     client.WithWatch // the platform engineer's
	property   *property
	tenants    []tenant
	release    string
	profile    string
	versions   map[string]version
	repository string // of the images
	plainHTTP  bool
	signers    *signers
	pace       pace
	manager    *manager
	managerIs  string        // its user name
	audit      *auditlog.Log // nil if the cluster's cannot be read
	fleet      *fleet
}

// pace is how the fleet moves, and how long the demo has patience with it.
type pace struct {
	budget           int
	maxFailures      int
	minReady         int32
	progressDeadline time.Duration
	patience         time.Duration // for one step
}

// Where nodes only pretend to run pods a gateway is down for an instant; real ones pull and start containers.
var (
	pretended = pace{budget: 8, maxFailures: 2, minReady: 1, progressDeadline: 15 * time.Second, patience: 4 * time.Minute}
	real      = pace{budget: 8, maxFailures: 2, minReady: 1, progressDeadline: 45 * time.Second, patience: 15 * time.Minute}
)

const logLevelVariable = "LOG_LEVEL"

// edgeProfile is how the demo's gateways are run: small, unprivileged, and without probes, so that every image that
// runs at all is Ready.
func edgeProfile(name, logLevel string) *v1alpha1.GatewayProfile {
	template := fmt.Sprintf(`{
  "spec": {
    "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{
      "name": %q,
      "env": [{"name": %q, "value": %q}],
      "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
      "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
      "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}
    }],
    "terminationGracePeriodSeconds": 5
  }
}`, v1alpha1.GatewayContainer, logLevelVariable, logLevel)
	target := intstr.FromString("http")
	return &v1alpha1.GatewayProfile{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.GatewayProfileSpec{
			Template: runtime.RawExtension{Raw: []byte(template)},
			Ports:    []v1alpha1.ServicePort{{Name: "http", Port: 80, TargetPort: &target, Protocol: corev1.ProtocolTCP}},
		},
	}
}

func (s *scene) newRelease(image string) *v1alpha1.GatewayRelease {
	budget, failures := intstr.FromInt32(int32(s.pace.budget)), intstr.FromInt32(int32(s.pace.maxFailures))
	return &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{Name: s.release},
		Spec: v1alpha1.GatewayReleaseSpec{
			Image:        image,
			ProfileRef:   v1alpha1.ProfileReference{Name: s.profile},
			Verification: v1alpha1.VerificationRequired,
			Registry:     &v1alpha1.RegistryAccess{PlainHTTP: s.plainHTTP},
			Rollout: v1alpha1.RolloutSpec{
				MaxUnavailable:   &budget,
				MinReadySeconds:  &s.pace.minReady,
				ProgressDeadline: &metav1.Duration{Duration: s.pace.progressDeadline},
				MaxFailures:      &failures,
			},
		},
	}
}

// editImage is the edit of one line that releases are about. It returns the generation that the edit made.
func (s *scene) editImage(ctx context.Context, image string) (int64, error) {
	release := &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: s.release}}
	patch := fmt.Appendf(nil, `{"spec":{"image":%q}}`, image)
	if err := s.client.Patch(ctx, release, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return 0, fmt.Errorf("edit the image of release %s: %w", s.release, err)
	}
	return release.Generation, nil
}

func imageEdit(release, image string) string {
	return fmt.Sprintf(`kubectl patch gatewayrelease %s --type=merge -p '{"spec":{"image":%q}}'`, release, image)
}
