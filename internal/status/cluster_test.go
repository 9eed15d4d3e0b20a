package status

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.Options{APIServerOnly: true}, &shared, "config/crd")
}

const patience = time.Minute

func as(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := clientOf(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = c.Delete(ctx, o, client.GracePeriodSeconds(0))
	})
}

// say creates an object and writes the status that it has at this moment.
func say(t *testing.T, c client.Client, o client.Object, status func()) {
	t.Helper()
	create(t, c, o)
	status()
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func spec() v1alpha1.VerificationSpec {
	return v1alpha1.VerificationSpec{
		Scopes: []v1alpha1.Scope{"registry.example.com/*"},
		Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
			Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: "keys", Key: "cosign.pub"}}}}},
			TransparencyLog: v1alpha1.Ignored,
		}}},
	}
}

// installation is a namespace with pods of Gatehouse.
type installation struct {
	client client.WithWatch
	home   string
}

func install(t *testing.T) installation {
	t.Helper()
	i := installation{client: as(t, shared.Config), home: shared.Namespace(t, "gatehouse")}
	create(t, shared.Client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: "default"}})
	return i
}

func (i installation) pod(t *testing.T, name string, set ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	like := pod(name, set...)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: name, Labels: map[string]string{
			v1alpha1.LabelApplication: v1alpha1.Application, v1alpha1.LabelComponent: v1alpha1.ComponentManager,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "gatehouse"}}},
	}
	say(t, i.client, p, func() { p.Status = like.Status })
	return p
}

// executor makes one with a status, and pods for those that the status tells of, where there are none.
func (i installation) executor(t *testing.T, name string, status v1alpha1.ExecutorStatus) *v1alpha1.Executor {
	t.Helper()
	for n := range status.ByPod {
		p := &corev1.Pod{}
		err := i.client.Get(t.Context(), client.ObjectKey{Namespace: i.home, Name: status.ByPod[n].ID}, p)
		if apierrors.IsNotFound(err) {
			p = i.pod(t, status.ByPod[n].ID)
		} else if err != nil {
			t.Fatal(err)
		}
		status.ByPod[n].PodUID = p.UID
	}
	e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: spec()}}
	say(t, i.client, e, func() { e.Status = status })
	return e
}

func (i installation) report(t *testing.T, e *v1alpha1.Executor, p *corev1.Pod, status v1alpha1.ExecutorPodStatusStatus) {
	t.Helper()
	identity := v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: e.Name, UID: e.UID}
	r := &v1alpha1.ExecutorPodStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: podstatus.PackName(p.Name, identity), Labels: map[string]string{
			v1alpha1.LabelExecutorUID: string(e.UID), v1alpha1.LabelPodUID: string(p.UID),
		}},
		Spec: v1alpha1.ExecutorPodStatusSpec{
			Executor: identity,
			Pod:      v1alpha1.PodIdentity{Name: p.Name, UID: p.UID},
		},
	}
	say(t, i.client, r, func() { r.Status = status })
}

// production is the example of the page.
func (i installation) production(t *testing.T, name string) {
	t.Helper()
	a, b, c := i.pod(t, "gatehouse-7d9f-2xkqp"), i.pod(t, "gatehouse-7d9f-8m4tz"), i.pod(t, "gatehouse-7d9f-c5wjn")
	i.pod(t, "gatehouse-7d9f-zr6vd", unscheduled)
	brief := "verifier builders: key k1: Secret gatehouse-system/keys not found; create it, or correct spec.verifiers"
	failed, odd, well := entry(a.Name, 2, 1, "41d2c0b9a7e3", 4*time.Minute, brief), entry(b.Name, 2, 2, "9f31c2aa04d7", 3*time.Hour, "trusts other keys or certificates: inputs 9f31c2aa04d7, not c07be1f5528a"), entry(c.Name, 2, 2, "c07be1f5528a", 4*time.Minute, "")
	failed.PodUID, odd.PodUID, well.PodUID = a.UID, b.UID, c.UID
	e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: spec()}}
	create(t, i.client, e)
	e.Spec.Scopes = append(e.Spec.Scopes, "*.example.com")
	if err := i.client.Update(t.Context(), e); err != nil { // generation 2
		t.Fatal(err)
	}
	counted := counts(1, 3, 1)
	counted.Failed = 1 // the other one could build it
	e.Status = v1alpha1.ExecutorStatus{
		ObservedGeneration: 2, BriefError: "2/3 replicas unhealthy", Replicas: counted,
		Conditions: ready(metav1.ConditionFalse, 2, 4*time.Minute), ByPod: []v1alpha1.ReplicaStatus{failed, odd, well},
	}
	if err := i.client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	i.report(t, e, a, v1alpha1.ExecutorPodStatusStatus{ObservedGeneration: 2, ServingGeneration: 1, Inputs: "41d2c0b9a7e3", Reason: v1alpha1.ReasonMaterialMissing, BriefError: brief, Error: brief + "\ngeneration 1 goes on serving"})
}

// served is a status of one Executor that all is well with.
func served(pods ...string) v1alpha1.ExecutorStatus {
	status := v1alpha1.ExecutorStatus{
		ObservedGeneration: 1, Succeeded: true, Replicas: counts(int32(len(pods)), int32(len(pods)), 0), Conditions: ready(metav1.ConditionTrue, 1, 72*time.Hour),
	}
	for _, p := range pods {
		status.ByPod = append(status.ByPod, entry(p, 1, 1, "5be0437719d8", 72*time.Hour, ""))
	}
	return status
}

// told is what a question came to.
type told struct {
	out, err string
	answer   Answer
}

func ask(t *testing.T, c client.WithWatch, o Options) told {
	t.Helper()
	var out, errs bytes.Buffer
	o.Out, o.Err, o.Clock, o.RequestTimeout = &out, &errs, clocktesting.NewFakePassiveClock(now), patience
	answer, err := run(t.Context(), o, c)
	if err != nil {
		t.Fatal(err)
	}
	return told{out.String(), errs.String(), answer}
}

// The page shows what the command prints.
func TestTheExampleOfTheStatusPage(t *testing.T) {
	i := install(t)
	i.production(t, "production")
	i.executor(t, "staging", served("gatehouse-7d9f-2xkqp", "gatehouse-7d9f-8m4tz", "gatehouse-7d9f-c5wjn"))
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	for command, o := range map[string]Options{
		"gatehouse status production staging": {Question: Question{Names: []string{"production", "staging"}}},
		"gatehouse status production -o yaml": {Question: Question{Names: []string{"production"}}, Output: YAML},
	} {
		o.Home = i.home
		got := ask(t, i.client, o)
		_, rest, found := strings.Cut(string(page), "$ "+command+"\n")
		want, _, _ := strings.Cut(rest, "```\n")
		// What the API server has drawn is named on the page.
		lines := strings.Split(got.out, "\n")
		for n, l := range lines {
			for _, key := range []string{"podUID: ", "uid: "} {
				if before, _, ok := strings.Cut(l, key); ok {
					lines[n] = before + key + "…"
				}
			}
		}
		if text := strings.Join(lines, "\n"); !found || text != want || got.err != "" || got.answer != NotReady {
			t.Errorf("%s: answer %d, %s, printed\n%s\nthe page says\n%s", command, got.answer, got.err, text, want)
		}
	}
	wide := ask(t, i.client, Options{Question: Question{Names: []string{"production"}, Home: i.home}, Output: Wide})
	if !strings.Contains(wide.out, "\n"+strings.Repeat(" ", 40)) || !strings.Contains(wide.out, "generation 1 goes on serving") {
		t.Errorf("the wide table tells no error in full:\n%s", wide.out)
	}
}

// allow lets a user do some things in a namespace, or everywhere.
func allow(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) client.WithWatch {
	t.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	name := strings.ReplaceAll(user, ":", "-")
	if namespace == "" {
		create(t, shared.Client, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
		create(t, shared.Client, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}})
	} else {
		create(t, shared.Client, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules})
		create(t, shared.Client, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})
	}
	return as(t, shared.User(user))
}

func mayRead(resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"get", "list", "watch"}}
}

func TestWhoMayReadExecutorsAloneIsToldTheirStatus(t *testing.T) {
	i := install(t)
	i.production(t, "read-alone")
	auditor := allow(t, "auditor", "", mayRead("executors"))
	want := "note: pods and executorpodstatuses.gatehouse.dev of namespace " + i.home + " may not be read by you: told is what the status of each Executor says\n"
	got := asked(t, auditor, Options{Question: Question{Names: []string{"read-alone"}, Home: i.home}, Output: Wide}, NotReady, want)
	for _, part := range []string{"1/3", "1 (tried 2)", "key k1: Secret gatehouse-system/keys not found", "(1 not serving)"} {
		if !strings.Contains(got.out, part) {
			t.Errorf("%q is not told:\n%s", part, got.out)
		}
	}
}

// asked asks until roles, which take effect a moment after they were made, have done so.
func asked(t *testing.T, c client.WithWatch, o Options, answer Answer, err string) (got told) {
	t.Helper()
	eventually.Succeeds(t, patience, func() error {
		if got = ask(t, c, o); got.answer != answer || got.err != err {
			return fmt.Errorf("answer %d, want %d; said %q, want %q; told\n%s", got.answer, answer, got.err, err, got.out)
		}
		return nil
	})
	return got
}

func TestWhoMayReadOneExecutorMayAskForIt(t *testing.T) {
	i := install(t)
	i.executor(t, "one-of-many", served("a"))
	guest := allow(t, "guest", "", mayRead("executors", "one-of-many"))
	asked(t, guest, Options{Question: Question{Names: []string{"one-of-many"}, Home: i.home}}, AllReady,
		"note: pods of namespace "+i.home+" may not be read by you: told is what the status of each Executor says\n")
	if got := ask(t, guest, Options{Question: Question{Home: i.home}}); got.answer != CannotTell || !strings.Contains(got.err, "error: executors.gatehouse.dev cannot be read: ") || !strings.Contains(got.err, "forbidden") {
		t.Errorf("all of them: answer %d, %s", got.answer, got.err)
	}
}

func TestATenantAsksForItsOwn(t *testing.T) {
	i := install(t)
	ns, other := shared.Namespace(t, "tenant"), shared.Namespace(t, "tenant")
	for _, in := range []string{ns, other} {
		e := &v1alpha1.NamespacedExecutor{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "own"}, Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: spec()}}
		say(t, i.client, e, func() { e.Status = served("a") })
	}
	tenant := allow(t, "tenant", ns, mayRead("namespacedexecutors"))
	got := asked(t, tenant, Options{Question: Question{Namespace: ns, Home: i.home}}, AllReady,
		"note: pods of namespace "+i.home+" may not be read by you: told is what the status of each Executor says\n")
	if !strings.Contains(got.out, ns+"/own") || strings.Contains(got.out, other) {
		t.Errorf("told\n%s", got.out)
	}
	if got := ask(t, tenant, Options{Question: Question{AllNamespaces: true, Home: i.home}}); got.answer != CannotTell || strings.Count(got.err, "error: ") != 2 {
		t.Errorf("of everybody: answer %d, %s", got.answer, got.err)
	}
	if got := ask(t, i.client, Options{Question: Question{AllNamespaces: true, Names: []string{"own"}, Home: i.home}}); got.answer != AllReady || !strings.Contains(got.out, ns+"/own") || !strings.Contains(got.out, other+"/own") {
		t.Errorf("an administrator is told %d\n%s%s", got.answer, got.out, got.err)
	}
}

// Without a single pod of Gatehouse, what is told is of before, or of another namespace.
func TestThatNoReplicaServesIsSaid(t *testing.T) {
	i := install(t)
	i.executor(t, "running", served("gatehouse-a"))
	broken := install(t)
	broken.pod(t, "gatehouse-b", crashing)
	for home, row := range map[string]string{
		shared.Namespace(t, "elsewhere"): "not serving: there is no such pod",
		broken.home:                      "not serving: it is not Ready (CrashLoopBackOff)",
	} {
		got := ask(t, i.client, Options{Question: Question{Names: []string{"running"}, Home: home}})
		want := "note: no pod of Gatehouse in namespace " + home + " serves: told is what it has written last; see why none does, or name the namespace that it is installed in with --gatehouse-namespace\n"
		if got.err != want || !strings.Contains(got.out, row) || got.answer != AllReady {
			t.Errorf("answer %d\n%s%s", got.answer, got.out, got.err)
		}
	}
	if got := ask(t, i.client, Options{Question: Question{Names: []string{"running"}, Home: i.home}}); got.err != "" || !strings.Contains(got.out, "gatehouse-a   yes") {
		t.Errorf("%s%s", got.out, got.err)
	}
}

func TestWhatIsNotThereCannotBeTold(t *testing.T) {
	i := install(t)
	i.executor(t, "there", served())
	got := ask(t, i.client, Options{Question: Question{Names: []string{"there", "elsewhere"}, Home: i.home}})
	if got.answer != CannotTell || got.err != "error: Executor \"elsewhere\" not found\n" || !strings.Contains(got.out, "\nthere ") {
		t.Errorf("answer %d, %s\n%s", got.answer, got.err, got.out)
	}
	if got := ask(t, i.client, Options{Question: Question{Namespace: i.home, Home: i.home}}); got.answer != AllReady || got.out != "" || got.err != "note: there is no NamespacedExecutor in namespace "+i.home+"\n" {
		t.Errorf("an empty namespace: answer %d, %q, %q", got.answer, got.out, got.err)
	}
}

// Lists come in pages, and one whose pages the server has forgotten is begun again.
func TestListsAreReadInPages(t *testing.T) {
	i := install(t)
	many := pageSize + 20
	var makers sync.WaitGroup
	for part := range 4 {
		makers.Go(func() {
			for n := part; n < many; n += 4 {
				e := &v1alpha1.NamespacedExecutor{ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: fmt.Sprintf("e-%03d", n)}, Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: spec()}}
				if err := i.client.Create(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	pages, forgotten := 0, false
	c := interceptor.NewClient(i.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ours := list.(*v1alpha1.NamespacedExecutorList); ours {
			var o client.ListOptions
			o.ApplyOptions(options)
			if pages++; o.Continue != "" && !forgotten {
				forgotten = true
				return apierrors.NewResourceExpired("the pages are gone")
			}
		}
		return c.List(ctx, list, options...)
	}})
	got := ask(t, c, Options{Question: Question{Namespace: i.home, Home: i.home}})
	if lines := strings.Count(got.out, "nothing is said of it yet"); lines != many || pages != 4 {
		t.Errorf("%d Executors in %d requests, want %d in 4; %s", lines, pages, many, got.err)
	}
}

func TestAClusterThatDoesNotAnswerCannotBeTold(t *testing.T) {
	hanging := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hanging)
	for _, watching := range []bool{false, true} {
		var out, errs bytes.Buffer
		answer, err := run(t.Context(), Options{RequestTimeout: 50 * time.Millisecond, Watch: watching, Out: &out, Err: &errs, Clock: clocktesting.NewFakePassiveClock(now)}, as(t, &rest.Config{Host: server.URL}))
		if err != nil || answer != CannotTell || out.Len() > 0 || !strings.Contains(errs.String(), "error: executors.gatehouse.dev cannot be read: no answer within 50ms (--request-timeout)") {
			t.Errorf("watching %t: answer %d, %v, %q, %q", watching, answer, err, out.String(), errs.String())
		}
	}
}

func TestAClusterWithoutGatehouseIsTold(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if got := ask(t, as(t, &rest.Config{Host: server.URL}), Options{}); got.answer != CannotTell || !strings.Contains(got.err, "is Gatehouse installed here?") {
		t.Errorf("answer %d, %s", got.answer, got.err)
	}
}

func TestTheClusterIsChosenAsKubectlDoes(t *testing.T) {
	install(t)
	config, err := clientcmd.LoadFromFile(shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts["nowhere"] = &clientcmdapi.Context{Cluster: "nowhere"}
	right := config.CurrentContext
	config.CurrentContext = "nowhere"
	path := t.TempDir() + "/config"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	o := Options{Question: Question{Namespace: "none-such", Home: "none-such"}, RequestTimeout: patience, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Clock: clocktesting.NewFakePassiveClock(now)}
	if answer, err := Run(t.Context(), o); err == nil || answer != CannotTell || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("without a kubeconfig: %d, %v", answer, err)
	}
	o.Kubeconfig, o.Context = path, right
	if answer, err := Run(t.Context(), o); err != nil || answer != AllReady {
		t.Errorf("by flags: %d, %v", answer, err)
	}
	t.Setenv("KUBECONFIG", path)
	o.Kubeconfig = ""
	if answer, err := Run(t.Context(), o); err != nil || answer != AllReady {
		t.Errorf("by the environment: %d, %v", answer, err)
	}
	o.Context = "missing"
	if answer, err := Run(t.Context(), o); err == nil || answer != CannotTell {
		t.Errorf("a context that is not there: %d, %v", answer, err)
	}
}

// expiring is a client whose first watch of Executors ends as one that has fallen too far behind. The next one has to
// begin at a list that was read since.
func expiring(t *testing.T, c client.WithWatch) client.WithWatch {
	var mu sync.Mutex
	watches, listed := 0, false
	ours := func(list client.ObjectList) bool {
		_, is := list.(*v1alpha1.ExecutorList)
		return is
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			mu.Lock()
			listed = listed || ours(list)
			mu.Unlock()
			return c.List(ctx, list, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if !ours(list) {
				return c.Watch(ctx, list, options...)
			}
			mu.Lock()
			defer mu.Unlock()
			watches++
			if !listed {
				t.Error("a watch begins where an earlier one had expired: what happened between is missed")
			}
			if listed = watches > 1; listed {
				return c.Watch(ctx, list, options...)
			}
			events := watch.NewFakeWithChanSize(1, false)
			status := apierrors.NewResourceExpired("too old").Status()
			events.Error(&status)
			return events, nil
		},
	})
}
