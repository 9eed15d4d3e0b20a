package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const leaseName = "gatehouse-manager"

// rest says which API server, as whom, and how hard.
func (c *Config) rest() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("find the API server: no kubeconfig names one; name one that does with --kubeconfig or KUBECONFIG, or run in a pod with a service account")
	case err != nil:
		return nil, fmt.Errorf("find the API server: %w; name a kubeconfig with --kubeconfig or KUBECONFIG, or run in a pod with a service account", err)
	}
	config.UserAgent = UserAgent
	config.QPS, config.Burst = c.QPS, c.Burst
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return deadline{next, requestDeadline} })
	return config, nil
}

// lock is the lease, held under the name of this process, by a client of its own whose requests give up well before
// the lease does.
func (c *Config) lock(base *rest.Config) (resourcelock.Interface, error) {
	identity := cmp.Or(c.Identity, c.Pod)
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name this process (or set --identity): %w", err)
		}
		identity = host + "_" + string(uuid.NewUUID())
	}
	config := rest.CopyConfig(base)
	config.UserAgent = UserAgent + "-lease"
	config.Timeout = c.RenewDeadline / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up the lease: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, c.Namespace, leaseName, client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return nil, fmt.Errorf("set up the lease: %w", err)
	}
	return lock, nil
}

// leads asks the API server who holds the lease; nil without an election. A process that was paused leads on for as long
// as it tries to renew, beside the one that took over.
func (c *Config) leads(reader client.Reader, lock resourcelock.Interface) func(context.Context) (bool, error) {
	if lock == nil {
		return nil
	}
	return func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: leaseName}, lease); err != nil {
			return false, fmt.Errorf("see who holds Lease %s/%s: %w", c.Namespace, leaseName, err)
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "") == lock.Identity(), nil
	}
}
