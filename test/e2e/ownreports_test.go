package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// writer is a ServiceAccount of these tests, which RBAC lets write every report: what it may not is the policy's.
const writer = "writer-of-reports"

// Fails when a replica may say what another one serves.
func TestAReplicaWritesReportsOfItsOwnPodAlone(t *testing.T) {
	letWrite(t)
	one, other := replicaPod(t, writer, "one"), replicaPod(t, writer, "other")
	own := clientWith(t, func() (string, error) { return product.TokenOf(t.Context(), one) })
	unbound := clientWith(t, func() (string, error) { return product.TokenFor(t.Context(), fleet.Namespace, writer) })
	controller := product.User("system:serviceaccount:kube-system:generic-garbage-collector", "system:masters")
	collector, err := fleet.NewClient(controller)
	if err != nil {
		t.Fatal(err)
	}
	person := product.Client

	// Policies and roles take effect a moment after they are there.
	eventually.Succeeds(t, fleet.Patience, func() error {
		if err := refusal(own.Create(t.Context(), reportOf(other, "probe"), client.DryRunAll), one, other); err != nil {
			return err
		}
		return own.Create(t.Context(), reportOf(one, "probe"), client.DryRunAll)
	})

	ours, theirs := reportOf(one, "ours"), reportOf(other, "theirs")
	for _, create := range []struct {
		by     client.Client
		report *v1alpha1.ExecutorPodStatus
	}{{own, ours}, {person, theirs}} {
		if err := create.by.Create(t.Context(), create.report); err != nil {
			t.Fatalf("create %s: %v", create.report.Name, err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(person.Delete(context.WithoutCancel(t.Context()), create.report)); err != nil {
				t.Error(err)
			}
		})
	}

	// What somebody may do to a report, of whomever it is.
	writes := map[string]func(client.Client, *v1alpha1.ExecutorPodStatus) error{
		"update": func(c client.Client, r *v1alpha1.ExecutorPodStatus) error {
			r.Labels = map[string]string{"edited": "true"}
			return c.Update(t.Context(), r)
		},
		"patch": func(c client.Client, r *v1alpha1.ExecutorPodStatus) error {
			return c.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"patched":"true"}}}`)))
		},
		"apply": func(c client.Client, r *v1alpha1.ExecutorPodStatus) error {
			return c.Patch(t.Context(), r, client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil,
				`{"apiVersion":"gatehouse.dev/v1alpha1","kind":"ExecutorPodStatus","metadata":{"name":%q,"labels":{"applied":"true"}}}`, r.Name)), client.FieldOwner("test"))
		},
		"update of status": func(c client.Client, r *v1alpha1.ExecutorPodStatus) error {
			r.Status.Inputs = "updated"
			return c.Status().Update(t.Context(), r)
		},
		"patch of status": func(c client.Client, r *v1alpha1.ExecutorPodStatus) error {
			return c.Status().Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"status":{"inputs":"patched","succeeded":true}}`)))
		},
		"update of status that says it is its own": func(c client.Client, r *v1alpha1.ExecutorPodStatus) error {
			r.Spec.Pod = v1alpha1.PodIdentity{Name: one.Name, UID: one.UID}
			r.Status.Inputs = "taken"
			return c.Status().Update(t.Context(), r)
		},
	}
	for what, write := range writes {
		for who, try := range map[string]struct {
			by     client.Client
			report *v1alpha1.ExecutorPodStatus
			check  func(error) error
		}{
			"a replica to its own":             {own, ours, allowed},
			"a replica to another's":           {own, theirs, func(err error) error { return refusal(err, one, other) }},
			"a token without a pod":            {unbound, ours, func(err error) error { return refusal(err, nil, one) }},
			"a person":                         {person, ours, allowed},
			"the garbage collector":            {collector, ours, allowed},
			"a replica to its own, once again": {own, ours, allowed},
		} {
			t.Run(what+" by "+who, func(t *testing.T) {
				if err := person.Get(t.Context(), client.ObjectKeyFromObject(try.report), try.report); err != nil {
					t.Fatal(err)
				}
				if err := try.check(write(try.by, try.report.DeepCopy())); err != nil {
					t.Error(err)
				}
			})
		}
	}

	// Nor can it make another's its own and go on from there.
	taken := theirs.DeepCopy()
	if err := person.Get(t.Context(), client.ObjectKeyFromObject(theirs), taken); err != nil {
		t.Fatal(err)
	}
	taken.Spec.Pod = ours.Spec.Pod
	if err := own.Update(t.Context(), taken); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Errorf("a report that another replica made was taken over: %v", err)
	}
	if err := refusal(unbound.Create(t.Context(), reportOf(one, "unbound")), nil, one); err != nil {
		t.Errorf("create with a token without a pod: %v", err)
	}
	again := one.DeepCopy()
	again.UID = "11111111-2222-3333-4444-555555555555"
	if err := refusal(own.Create(t.Context(), reportOf(again, "again")), one, again); err != nil {
		t.Errorf("create a report of a pod that had the same name: %v", err)
	}
	// The leader takes away what replicas that are gone have left.
	for _, report := range []*v1alpha1.ExecutorPodStatus{theirs, ours} {
		if err := own.Delete(t.Context(), report); err != nil {
			t.Errorf("delete %s: %v", report.Name, err)
		}
	}
}

func allowed(err error) error { return err }

// refusal checks that a write was refused by the policy, for it names who writes and of whom, and the remedy.
func refusal(err error, writer, subject *corev1.Pod) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("got %v, want a refusal", err)
	}
	says := []string{"own-reports.gatehouse.dev", "spec.pod", subject.Name, string(subject.UID), "POD_UID"}
	if writer != nil {
		says = append(says, "token of pod "+writer.Name, string(writer.UID))
	} else {
		says = append(says, "bound to no pod")
	}
	var missing []error
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			missing = append(missing, fmt.Errorf("%q does not say %q", err.Error(), part))
		}
	}
	return errors.Join(missing...)
}

// letWrite gives the writer every right to reports that RBAC can give.
func letWrite(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: fleet.Namespace, Name: writer}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group},
			Resources: []string{"executorpodstatuses", "executorpodstatuses/status"},
			Verbs:     []string{"*"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: writer},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: fleet.Namespace, Name: writer}},
		},
	} {
		if err := product.Client.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

// replicaPod is a pod that no node runs, for a token to be bound to.
func replicaPod(t *testing.T, account, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, GenerateName: name + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			SchedulerName:      "nobody",
			SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "manager", Image: "registry.example.com/gatehouse:none",
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
	if err := product.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(product.Client.Delete(context.WithoutCancel(t.Context()), pod, client.GracePeriodSeconds(0))); err != nil {
			t.Error(err)
		}
	})
	return pod
}

func reportOf(pod *corev1.Pod, name string) *v1alpha1.ExecutorPodStatus {
	return &v1alpha1.ExecutorPodStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: "test-" + name},
		Spec: v1alpha1.ExecutorPodStatusSpec{
			Executor: v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: "any", UID: "66666666-7777-8888-9999-000000000000"},
			Pod:      v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID},
		},
	}
}

func clientWith(t *testing.T, kubeconfig func() (string, error)) client.Client {
	t.Helper()
	path, err := kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := fleet.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
