package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Where config/ installs Gatehouse, and as whom it runs.
const (
	Namespace      = "gatehouse-system"
	ServiceAccount = "gatehouse"
)

// Installation is Gatehouse on a cluster, without a manager.
type Installation struct {
	*cluster.Cluster
	// Client is an administrator's, and reads from the API server; it knows Gatehouse's kinds.
	Client client.Client
	// Kubeconfig is the manager's: its service account's token.
	Kubeconfig string
	// Binary is the product.
	Binary string
}

// Install applies config/, without the manager's Deployment.
func Install(ctx context.Context, c *cluster.Cluster) (*Installation, error) {
	binary, err := manager.Binary(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, "config/crd", "config/manager/namespace.yaml", "config/rbac", "config/policy"); err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	kubeconfig, err := c.TokenFor(ctx, Namespace, ServiceAccount)
	if err != nil {
		return nil, err
	}
	kubernetes, err := NewClient(c.Config)
	if err != nil {
		return nil, err
	}
	return &Installation{Cluster: c, Client: kubernetes, Kubeconfig: kubeconfig, Binary: binary}, nil
}

// Main runs the tests of a package against an installation on a cluster of their own, which it puts into shared, with
// manifests beside it, and returns the exit status. After the tests it calls end, for what they share. It is the body of
// a TestMain.
func Main(m *testing.M, o cluster.Options, shared **Installation, end func(), manifests ...string) (code int) {
	log.SetLogger(logr.Discard())
	ctx := context.Background()
	c, err := cluster.Start(ctx, o)
	if err == nil {
		defer func() {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "cluster:", err)
				code = max(code, 1)
			}
		}()
		*shared, err = Install(ctx, c)
		err = errors.Join(err, c.Apply(ctx, manifests...))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	end()
	return code
}

// NewClient is a client that knows Gatehouse's kinds.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Manager is how the installation's manager is started.
func (i *Installation) Manager(identity string, arguments ...string) manager.Options {
	return manager.Options{Binary: i.Binary, Kubeconfig: i.Kubeconfig, Namespace: Namespace, Identity: identity, Arguments: arguments}
}

// Holder is the identity of the manager that holds the lease; empty once it has given it up.
func (i *Installation) Holder(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	err := i.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: "gatehouse-manager"}, lease)
	return ptr.Deref(lease.Spec.HolderIdentity, ""), err
}

// Sent returns what the manager has sent since a mark to change anything, but for its lease.
func (i *Installation) Sent(ctx context.Context, since cluster.Mark, matches ...cluster.Match) ([]cluster.AuditEvent, error) {
	matches = append([]cluster.Match{
		cluster.ByServiceAccount(Namespace, ServiceAccount),
		cluster.Not(cluster.OfResource("coordination.k8s.io", "leases")),
	}, matches...)
	return i.Writes(ctx, since, matches...)
}
