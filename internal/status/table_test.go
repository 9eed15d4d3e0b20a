package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

func entry(pod string, observed, serving int64, inputs string, since time.Duration, brief string) v1alpha1.ReplicaStatus {
	return v1alpha1.ReplicaStatus{
		ID: pod, PodUID: types.UID(pod + "-uid"), ObservedGeneration: observed, ServingGeneration: serving, Inputs: inputs,
		Succeeded: brief == "", BriefError: brief, LastTransitionTime: ago(since),
	}
}

func counts(ready, expected, notServing int32) v1alpha1.ReplicaCounts {
	return v1alpha1.ReplicaCounts{
		Expected: expected, Reported: expected, Ready: ready, Failed: expected - ready, NotServing: notServing,
		Summary: fmt.Sprintf("%d/%d", ready, expected),
	}
}

func ready(status metav1.ConditionStatus, generation int64, since time.Duration) []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: status, ObservedGeneration: generation, Reason: "Because",
		Message: "the condition says so", LastTransitionTime: *ago(since),
	}}
}

func executor(name string, generation int64, status v1alpha1.ExecutorStatus) v1alpha1.Executor {
	return v1alpha1.Executor{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: generation},
		Spec:       v1alpha1.ExecutorSpec{VerificationSpec: v1alpha1.VerificationSpec{Mode: v1alpha1.ModeEnforce}},
		Status:     status,
	}
}

func report(of, pod string, observed, serving int64, inputs, brief, full string) v1alpha1.ExecutorPodStatus {
	identity := v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: of, UID: types.UID(of + "-uid")}
	return v1alpha1.ExecutorPodStatus{
		ObjectMeta: metav1.ObjectMeta{Name: podstatus.PackName(pod, identity)},
		Spec: v1alpha1.ExecutorPodStatusSpec{
			Executor: identity,
			Pod:      v1alpha1.PodIdentity{Name: pod, UID: types.UID(pod + "-uid")},
		},
		Status: v1alpha1.ExecutorPodStatusStatus{
			ObservedGeneration: observed, ServingGeneration: serving, Inputs: inputs, Succeeded: brief == "",
			BriefError: brief, Error: full, LastTransitionTime: ago(time.Minute),
		},
	}
}

func pod(name string, set ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: *ago(time.Hour)}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: *ago(time.Hour)}}
	for _, s := range set {
		s(&p)
	}
	return p
}

func unscheduled(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: *ago(2 * time.Minute)}}
}

func ending(p *corev1.Pod) { p.DeletionTimestamp = ago(5 * time.Second) }

func crashing(p *corev1.Pod) {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
}

// mixed is an installation with one of each trouble.
func mixed() Facts {
	production := executor("production", 7, v1alpha1.ExecutorStatus{
		ObservedGeneration: 7, BriefError: "2/3 replicas unhealthy", Replicas: counts(1, 3, 2), Conditions: ready(metav1.ConditionFalse, 7, 4*time.Minute),
		ByPod: []v1alpha1.ReplicaStatus{
			entry("gatehouse-c", 7, 7, "0f0f0f0f0f0f", 3*time.Hour, ""),
			entry("gatehouse-b", 7, 6, "9f31c29f31c2", 4*time.Minute, "verifier builders: key k1: Secret gatehouse-system/keys not found"),
			{ID: "gatehouse-a", PodUID: "gatehouse-a-uid", ObservedGeneration: 7, ServingGeneration: 7, Inputs: "aaaaaaaaaaaa", LastTransitionTime: ago(3 * time.Hour)},
		},
	})
	canary := executor("canary", 3, v1alpha1.ExecutorStatus{ObservedGeneration: 2, Replicas: counts(3, 3, 0), Conditions: ready(metav1.ConditionTrue, 2, time.Hour)})
	canary.Spec.Mode = v1alpha1.ModeAudit
	fresh := executor("fresh", 1, v1alpha1.ExecutorStatus{})
	own := v1alpha1.NamespacedExecutor{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "own", UID: "own-uid", Generation: 1},
		Status: v1alpha1.ExecutorStatus{
			ObservedGeneration: 1, Succeeded: true, Replicas: counts(1, 1, 0), Conditions: ready(metav1.ConditionTrue, 1, 26*time.Hour),
			ByPod: []v1alpha1.ReplicaStatus{entry("gatehouse-a", 1, 1, "bbbbbbbbbbbb", 26*time.Hour, "")},
		},
	}
	return Facts{
		Executors: []v1alpha1.Executor{production, canary, fresh}, Namespaced: []v1alpha1.NamespacedExecutor{own}, PodsRead: true,
		Pods: []corev1.Pod{pod("gatehouse-a"), pod("gatehouse-b"), pod("gatehouse-c"), pod("gatehouse-e", unscheduled), pod("gatehouse-d", ending)},
		Reports: []v1alpha1.ExecutorPodStatus{
			report("production", "gatehouse-b", 7, 6, "9f31c29f31c2", "brief", "verifier builders: key k1: Secret gatehouse-system/keys not found; create it\ngeneration 6 goes on serving"),
			report("production", "gatehouse-d", 7, 7, "0f0f0f0f0f0f", "", ""),
		},
	}
}

// A report counts as that of the pod and of the Executor whose names and UIDs it has, and of nobody else's.
func TestAReportOfAnothersUIDHidesNothing(t *testing.T) {
	f := mixed()
	want := Build(f)
	for n := range 20 {
		forged := report("production", "gatehouse-b", 7, 6, "9f31c29f31c2", "forged", "forged")
		forged.Spec.Pod.Name = fmt.Sprintf("pretender-%d", n)
		if n%2 == 0 {
			forged.Spec.Pod.Name, forged.Spec.Executor.Name = "gatehouse-b", fmt.Sprintf("pretender-%d", n)
		}
		forged.Name = podstatus.PackName(forged.Spec.Pod.Name, forged.Spec.Executor)
		f.Reports = append(f.Reports, forged)
	}
	if got := Build(f); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// A status that nobody has written since tells of pods as they were; what serves now is told.
func TestAPodThatIsGoneServesNothing(t *testing.T) {
	e := executor("production", 1, v1alpha1.ExecutorStatus{ObservedGeneration: 1, Succeeded: true, Replicas: counts(3, 3, 0), Conditions: ready(metav1.ConditionTrue, 1, time.Hour),
		ByPod: []v1alpha1.ReplicaStatus{entry("a", 1, 1, "x", time.Hour, ""), entry("b", 1, 1, "x", time.Hour, ""), entry("c", 1, 1, "x", time.Hour, "")}})
	again := pod("a")
	again.UID = "another"
	f := Facts{Executors: []v1alpha1.Executor{e}, PodsRead: true, Pods: []corev1.Pod{again, pod("b", ending), pod("c")}}
	var told []string
	for _, r := range Build(f).Items[0].Replicas {
		told = append(told, fmt.Sprintf("%s %t %t %s", r.Pod, r.Serving, r.Succeeded, r.BriefError))
	}
	if want := "c true true \na false false not serving: there is no such pod\nb false false not serving: it is ending"; strings.Join(told, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(told, "\n"), want)
	}
	if text := newTable(Build(f), false, now).String(); strings.Contains(text, "more that serve") {
		t.Error(text)
	}
	f.PodsRead, f.Pods = false, nil // then all that is known is what was written
	if r := Build(f).Items[0].Replicas; !r[0].Succeeded || !r[1].Succeeded || !r[2].Succeeded {
		t.Errorf("%+v", r)
	}
}

// A replica that the status of the generation before calls well is not known to serve the present one.
func TestWhoServedTheGenerationBeforeIsNotCalledWell(t *testing.T) {
	e := executor("production", 2, v1alpha1.ExecutorStatus{ObservedGeneration: 1, Succeeded: true, Replicas: counts(1, 1, 0), Conditions: ready(metav1.ConditionTrue, 1, time.Hour),
		ByPod: []v1alpha1.ReplicaStatus{entry("a", 1, 1, "x", time.Hour, "")}})
	r := Build(Facts{Executors: []v1alpha1.Executor{e}}).Items[0].Replicas[0]
	if r.Succeeded || r.ServingGeneration != 1 || r.BriefError != "of generation 2 nothing is said yet" {
		t.Errorf("%+v", r)
	}
}

// What cannot be told is not Ready.
func TestWhatCannotBeToldIsNotReady(t *testing.T) {
	if list := Build(Facts{Errors: []string{"executors.gatehouse.dev cannot be read"}}); list.Ready || list.Answer() != CannotTell {
		t.Errorf("%+v", list)
	}
	if list := Build(Facts{}); !list.Ready || list.Answer() != AllReady {
		t.Errorf("%+v", list)
	}
}

// One that is on its way is not waited for.
func TestAnExecutorThatIsBeingDeletedSaysSo(t *testing.T) {
	e := executor("production", 8, v1alpha1.ExecutorStatus{ObservedGeneration: 7, BriefError: "2/3 replicas unhealthy", Conditions: ready(metav1.ConditionFalse, 7, time.Minute)})
	e.DeletionTimestamp, e.Finalizers = ago(time.Second), []string{"example.com/a", "example.com/b"}
	item := Build(Facts{Executors: []v1alpha1.Executor{e}}).Items[0]
	if want := "it is being deleted; it is kept by finalizers: example.com/a, example.com/b"; item.BriefError != want || item.Ready {
		t.Errorf("%+v, want %q", item, want)
	}
}

func TestTheTable(t *testing.T) {
	for name, wide := range map[string]bool{"table.txt": false, "wide.txt": true} {
		golden(t, name, newTable(Build(mixed()), wide, now).String())
	}
}

func TestTheDocumentedForm(t *testing.T) {
	for name, output := range map[string]Output{"list.json": JSON, "list.yaml": YAML} {
		var out bytes.Buffer
		o := Options{Output: output, Out: &out}
		if err := o.print(Build(mixed())); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.String())
	}
}

// golden compares with a file. UPDATE_GOLDEN=1 writes it anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// The order in which an API server and a map give things is no part of what is told.
func TestTheSameFactsMakeTheSameList(t *testing.T) {
	want := Build(mixed())
	for range 20 {
		f := mixed()
		rand.Shuffle(len(f.Executors), func(i, j int) { f.Executors[i], f.Executors[j] = f.Executors[j], f.Executors[i] })
		rand.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
		rand.Shuffle(len(f.Reports), func(i, j int) { f.Reports[i], f.Reports[j] = f.Reports[j], f.Reports[i] })
		for i := range f.Executors {
			p := f.Executors[i].Status.ByPod
			rand.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
		}
		if got := Build(f); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

func TestWhatCountsAsReady(t *testing.T) {
	status := func(observed, ofCondition int64, ready metav1.ConditionStatus) v1alpha1.ExecutorStatus {
		return v1alpha1.ExecutorStatus{ObservedGeneration: observed, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, ObservedGeneration: ofCondition, Message: "said"}}}
	}
	tests := []struct {
		name   string
		status v1alpha1.ExecutorStatus
		ready  bool
		brief  string
	}{
		{"the condition is True, of this generation", status(2, 2, metav1.ConditionTrue), true, ""},
		{"the condition is False", status(2, 2, metav1.ConditionFalse), false, "said"},
		{"the condition is Unknown", status(2, 2, metav1.ConditionUnknown), false, "said"},
		{"the status is of the generation before", status(1, 1, metav1.ConditionTrue), false, "generation 2 is not attempted yet"},
		{"the condition is of the generation before", status(2, 1, metav1.ConditionTrue), false, "said"},
		{"nothing is said", v1alpha1.ExecutorStatus{}, false, "nothing is said of it yet; does a manager of Gatehouse run?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list := Build(Facts{Executors: []v1alpha1.Executor{executor("e", 2, tt.status)}})
			if got := list.Items[0]; got.Ready != tt.ready || list.Ready != tt.ready || got.BriefError != tt.brief {
				t.Errorf("ready %t (list %t), %q; want %t, %q", got.Ready, list.Ready, got.BriefError, tt.ready, tt.brief)
			}
		})
	}
}

// A status lists a hundred replicas; whoever may read the reports sees the others too.
func TestReplicasPastTheHundredthComeFromTheirReports(t *testing.T) {
	const replicas = 130
	status := v1alpha1.ExecutorStatus{ObservedGeneration: 1, Replicas: counts(127, replicas, 0), Conditions: ready(metav1.ConditionFalse, 1, time.Minute)}
	f := Facts{PodsRead: true}
	for i := range replicas {
		name := fmt.Sprintf("gatehouse-%03d", i)
		f.Pods = append(f.Pods, pod(name))
		if i < 100 {
			status.ByPod = append(status.ByPod, entry(name, 1, 1, "same", time.Hour, ""))
		}
		switch i {
		case 127: // has not reported
		case 128:
			f.Reports = append(f.Reports, report("many", name, 1, 1, "other", "", ""))
		case 129:
			f.Reports = append(f.Reports, report("many", name, 1, 0, "", "broken", "broken in full"))
		default:
			f.Reports = append(f.Reports, report("many", name, 1, 1, "same", "", ""))
		}
	}
	f.Reports = append(f.Reports, report("many", "of-a-pod-that-is-gone", 1, 1, "same", "", ""), report("another", "gatehouse-110", 9, 9, "same", "", ""))
	f.Executors = []v1alpha1.Executor{executor("many", 1, status)}

	got := Build(f).Items[0].Replicas
	if len(got) != replicas {
		t.Fatalf("%d replicas are told, want %d", len(got), replicas)
	}
	for i, want := range []string{"has not reported", "trusts other keys or certificates than the leader: its inputs differ", "broken"} {
		if got[i].Pod != fmt.Sprintf("gatehouse-%03d", 127+i) || got[i].Succeeded || got[i].BriefError != want {
			t.Errorf("replica %d is %+v, want trouble %q first", i, got[i], want)
		}
	}
	if got[2].Error != "broken in full" {
		t.Errorf("the error in full is %q", got[2].Error)
	}
	for _, r := range got[3:] {
		if !r.Succeeded || r.ServingGeneration != 1 {
			t.Errorf("%+v should be well", r)
		}
	}

	// Without the pods the reports alone tell; one of a pod that is gone cannot be told from the others.
	f.Pods, f.PodsRead = nil, false
	if got := Build(f).Items[0].Replicas; len(got) != replicas {
		t.Errorf("without pods %d replicas are told, want %d: those that reported", len(got), replicas)
	}
	// Without the reports either, it is said that there are more.
	f.Reports = nil
	if text := newTable(Build(f), false, now).String(); !strings.Contains(text, "└─ (30 more that serve) ") || strings.Count(text, "\n") != 103 {
		t.Errorf("thirty replicas are missing:\n%s", text)
	}
}

// A report explains an entry of the status if it is that replica's, and of what the status was made of.
func TestAReportOfSomethingElseExplainsNothing(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.ExecutorPodStatus){
		"another generation":      func(r *v1alpha1.ExecutorPodStatus) { r.Status.ObservedGeneration = 8 },
		"other inputs":            func(r *v1alpha1.ExecutorPodStatus) { r.Status.Inputs = "other" },
		"another pod of the name": func(r *v1alpha1.ExecutorPodStatus) { r.Spec.Pod.UID = "other" },
		"another Executor":        func(r *v1alpha1.ExecutorPodStatus) { r.Spec.Executor.UID = "other" },
		"a name of somebody's":    func(r *v1alpha1.ExecutorPodStatus) { r.Name = "made-by-hand" },
	} {
		t.Run(name, func(t *testing.T) {
			f := mixed()
			change(&f.Reports[0])
			for _, r := range Build(f).Items[2].Replicas {
				if r.Pod == "gatehouse-b" && (r.Error != "" || r.BriefError == "") {
					t.Errorf("generation 7 is explained by %q", r.Error)
				}
			}
		})
	}
}

func TestWhatKeepsAPodFromServingIsSaid(t *testing.T) {
	tests := []struct {
		name string
		pod  corev1.Pod
		want podState
	}{
		{"Ready", pod("p"), podState{serves: true}},
		{"unschedulable", pod("p", unscheduled), podState{why: "it has no node (Unschedulable)", since: ago(2 * time.Minute)}},
		{"ending, and Ready still", pod("p", ending), podState{why: "it is ending", since: ago(5 * time.Second)}},
		{"crashing", pod("p", crashing), podState{why: "it is not Ready (CrashLoopBackOff)", since: ago(time.Hour)}},
		{"starting", pod("p", func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }), podState{why: "it is starting", since: ago(time.Hour)}},
		{"evicted", pod("p", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }), podState{why: "it has ended (Evicted)", since: ago(time.Hour)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := stateOf(&tt.pod); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// Whoever may write a status cannot write to the terminal of whoever reads it.
func TestNoTextReachesATerminalAsItIs(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;title\a\r\u009b31m\u202egnp.\u2028\x00\x7f\xff\u200b" + strings.Repeat("long ", 10_000)
	lines := "first\n" + hostile
	e := executor("e", 1, v1alpha1.ExecutorStatus{
		ObservedGeneration: 1, BriefError: lines, Error: lines, Replicas: v1alpha1.ReplicaCounts{Expected: 1, NotServing: 1, Summary: hostile},
		Conditions: ready(metav1.ConditionFalse, 1, 0),
		ByPod:      []v1alpha1.ReplicaStatus{{ID: hostile, PodUID: types.UID(hostile), Inputs: hostile, BriefError: lines, ObservedGeneration: 1}},
	})
	r := report("e", "p", 1, 1, hostile, lines, lines)
	r.Spec.Pod.UID, r.Status.Reason = types.UID(hostile), hostile // the UID that the entry says
	idle := pod("q", crashing)
	idle.Status.ContainerStatuses[0].State.Waiting.Reason = lines
	f := Facts{Executors: []v1alpha1.Executor{e}, Reports: []v1alpha1.ExecutorPodStatus{r}, Pods: []corev1.Pod{idle}, PodsRead: true, Notes: []string{lines}, Errors: []string{lines}}
	for _, output := range []Output{Table, Wide, JSON, YAML} {
		var out bytes.Buffer
		o := Options{Output: output, Out: &out, Err: &out, Clock: clocktesting.NewFakePassiveClock(now)}
		if err := o.print(Build(f)); err != nil {
			t.Fatal(err)
		}
		for i, r := range out.String() {
			if r != '\n' && !unicode.IsPrint(r) || r == '\ufffd' {
				t.Fatalf("output %q: %q at %d", output, r, i)
			}
		}
		if out.Len() > 128<<10 {
			t.Errorf("output %q has %d bytes", output, out.Len())
		}
		if got := strings.Count(out.String(), "\n"); output == Table && got != 6 {
			t.Errorf("a line break broke the table into %d lines:\n%s", got, out.String())
		}
	}
}

func TestTheAnswer(t *testing.T) {
	for _, tt := range []struct {
		list List
		want Answer
	}{
		{List{Ready: true}, AllReady},
		{List{Ready: false}, NotReady},
		{List{Ready: true, Errors: []string{"e"}}, CannotTell},
		{List{Ready: false, Errors: []string{"e"}}, CannotTell},
		{List{Ready: true, Notes: []string{"n"}}, AllReady},
	} {
		if got := tt.list.Answer(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.list, got, tt.want)
		}
	}
}

// Many pods that do not serve do not bury those that do.
func TestPodsThatDoNotServeAreCutShort(t *testing.T) {
	f := mixed()
	f.Executors, f.Namespaced = f.Executors[:1], nil
	for i := range 30 {
		f.Pods = append(f.Pods, pod(fmt.Sprintf("pending-%02d", i), unscheduled))
	}
	text := newTable(Build(f), false, now).String()
	if got := strings.Count(text, "not serving: "); got != shownIdle || !strings.Contains(text, "(22 more that do not serve)") {
		t.Errorf("%d pods are named:\n%s", got, text)
	}
	if wide := newTable(Build(f), true, now).String(); strings.Count(wide, "not serving: ") != 32 {
		t.Errorf("the wide table names not all:\n%s", wide)
	}
}

func TestJSONIsWhatGoReads(t *testing.T) {
	var out bytes.Buffer
	if err := (Options{Output: JSON, Out: &out}).print(Build(mixed())); err != nil {
		t.Fatal(err)
	}
	var list List
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil || len(list.Items) != 4 || len(list.Items[2].Replicas) != 5 {
		t.Errorf("%v: %+v", err, list)
	}
}
