package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	tenantCount       = 4
	gatewaysPerTenant = 10
	fleetSize         = tenantCount * gatewaysPerTenant

	// stranger may edit in the tenants' namespaces like the tenants, but may not use the release.
	stranger = "stranger@example.com"
)

// tenant is a namespace and the person who works in it.
type tenant struct {
	namespace string
	user      string
}

func tenants(prefix string) []tenant {
	var all []tenant
	for n := range tenantCount {
		namespace := prefix + "tenant-" + string(rune('a'+n))
		all = append(all, tenant{namespace: namespace, user: "someone@" + namespace})
	}
	return all
}

// admit creates the tenants' namespaces, lets each tenant edit what is in it, and all of them use the release.
func admit(ctx context.Context, p *property, all []tenant, release string) error {
	use := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "gatehouse-demo-use-" + release},
		Rules: []rbacv1.PolicyRule{{
			APIGroups:     []string{v1alpha1.GroupVersion.Group},
			Resources:     []string{"gatewayreleases"},
			ResourceNames: []string{release},
			Verbs:         []string{"use"},
		}},
	}
	if err := p.create(ctx, use); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: use.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: use.Name},
	}
	for _, t := range all {
		user := person(t.user)
		binding.Subjects = append(binding.Subjects, user)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   t.namespace,
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}}
		edit := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "edit"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{user, person(stranger)},
		}
		for _, object := range []client.Object{namespace, edit} {
			if err := p.create(ctx, object); err != nil {
				return err
			}
		}
	}
	return p.create(ctx, binding)
}

func person(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// as is a client with another user's name and rights.
func as(config *rest.Config, c client.Client, user string) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = user
	return client.New(config, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
}

func gateway(namespace, name, release string) *v1alpha1.GatewayInstance {
	return &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.GatewayInstanceSpec{ReleaseRef: v1alpha1.ReleaseReference{Name: release}},
	}
}

// createGateways creates the fleet, each gateway under its tenant's name, once the API server enforces who may.
func createGateways(ctx context.Context, p *property, config *rest.Config, all []tenant, release string) (refusal string, err error) {
	refusal, err = awaitRefusal(ctx, p.client, config, all[0].namespace, release)
	if err != nil {
		return "", err
	}
	for _, t := range all {
		c, err := as(config, p.client, t.user)
		if err != nil {
			return "", err
		}
		if err := awaitAllowed(ctx, c, t, release); err != nil {
			return "", err
		}
		for n := 1; n <= gatewaysPerTenant; n++ {
			if err := p.createAs(ctx, c, gateway(t.namespace, "edge-"+strconv.Itoa(n), release)); err != nil {
				return "", fmt.Errorf("as %s: %w", t.user, err)
			}
		}
	}
	return refusal, nil
}

// awaitRefusal waits until one who may create gateways but not use the release is refused. Admission policies and
// aggregated roles take effect a moment after they are created; dry runs leave nothing behind.
func awaitRefusal(ctx context.Context, c client.Client, config *rest.Config, namespace, release string) (string, error) {
	unallowed, err := as(config, c, stranger)
	if err != nil {
		return "", err
	}
	var seen error
	err = wait.PollUntilContextTimeout(ctx, probeEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
		seen = unallowed.Create(ctx, gateway(namespace, "stranger", release), client.DryRunAll)
		return isPolicyRefusal(seen), nil
	})
	if err != nil {
		return "", fmt.Errorf("awaited that %s, who lacks the verb use on release %s, is refused a gateway in %s; last answer: %v", stranger, release, namespace, seen)
	}
	return seen.Error(), nil
}

// isPolicyRefusal tells the refusal by an admission policy from that by RBAC, which comes before a role is in effect.
func isPolicyRefusal(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "denied request")
}

func awaitAllowed(ctx context.Context, c client.Client, t tenant, release string) error {
	var seen error
	err := wait.PollUntilContextTimeout(ctx, probeEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
		seen = c.Create(ctx, gateway(t.namespace, "edge-1", release), client.DryRunAll)
		return seen == nil, nil
	})
	if err != nil {
		return fmt.Errorf("awaited that %s may create gateways in %s; last answer: %v", t.user, t.namespace, seen)
	}
	return nil
}
