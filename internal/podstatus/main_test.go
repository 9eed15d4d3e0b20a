package podstatus

import (
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// within is how long anything may take that should happen at once.
const within = 30 * time.Second

var (
	shared    *cluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	cluster.Main(m, cluster.Options{Audit: true, APIServerOnly: true}, &shared)
}

// install makes the kinds known, once.
func install(t *testing.T) {
	t.Helper()
	installed.Do(func() {
		if err := shared.Apply(t.Context(), "config/crd"); err != nil {
			t.Fatal(err)
		}
	})
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}
