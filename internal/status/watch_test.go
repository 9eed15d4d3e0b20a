package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// paper is what is printed on, also while it is read.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// watching is a command that goes on.
type watching struct {
	out, err paper
	stop     context.CancelFunc
	ended    chan Answer
}

func watchIt(t *testing.T, c client.WithWatch, o Options) *watching {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watching{stop: stop, ended: make(chan Answer, 1)}
	o.Watch, o.Out, o.Err, o.Clock, o.RequestTimeout = true, &w.out, &w.err, clocktesting.NewFakePassiveClock(now), patience
	go func() {
		answer, err := run(ctx, o, c)
		if err != nil {
			t.Error(err)
		}
		w.ended <- answer
	}()
	t.Cleanup(stop)
	return w
}

func (w *watching) shows(t *testing.T, parts ...string) {
	t.Helper()
	eventually.Succeeds(t, patience, func() error {
		text := w.out.String()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return fmt.Errorf("%q is not shown in\n%s%s", part, text, w.err.String())
			}
		}
		return nil
	})
}

func (w *watching) ends(t *testing.T) Answer {
	t.Helper()
	select {
	case answer := <-w.ended:
		return answer
	case <-time.After(patience):
		t.Fatal("it does not end")
		return 0
	}
}

func TestAWatchPrintsTheRowsThatChange(t *testing.T) {
	i := install(t)
	e := i.executor(t, "watched", served("gatehouse-a", "gatehouse-b"))
	w := watchIt(t, expiring(t, i.client), Options{Question: Question{Names: []string{"watched"}, Home: i.home}})
	w.shows(t, "watched ", "├─ gatehouse-a ", "└─ gatehouse-b ")
	before := len(w.out.String())

	e.Status.Replicas, e.Status.BriefError, e.Status.Conditions = counts(1, 2, 0), "1/2 replicas unhealthy", ready(metav1.ConditionFalse, 1, time.Second)
	broke := entry("gatehouse-b", 1, 0, "", time.Second, "it broke")
	broke.PodUID = e.Status.ByPod[1].PodUID
	e.Status.ByPod[1] = broke
	if err := i.client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.shows(t, "it broke")
	news := w.out.String()[before:]
	if lines := strings.Split(strings.TrimSuffix(news, "\n"), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "1/2 replicas unhealthy") || !strings.Contains(lines[1], "gatehouse-b") {
		t.Errorf("printed again:\n%s\nwant the Executor and the replica that broke", news)
	}

	// A pod that starts is no change of the status, and is shown.
	i.pod(t, "gatehouse-new", unscheduled)
	w.shows(t, "not serving: it has no node (Unschedulable)")
	if err := i.client.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.shows(t, " gone\n")
	eventually.Succeeds(t, patience, func() error {
		if !strings.Contains(w.err.String(), `error: Executor "watched" not found`) {
			return fmt.Errorf("said %q", w.err.String())
		}
		return nil
	})
	w.stop()
	if answer := w.ends(t); answer != CannotTell {
		t.Errorf("answer %d: nothing was there in the end", answer)
	}
}

func TestAWatchInJSONPrintsEachStateWhole(t *testing.T) {
	i := install(t)
	e := i.executor(t, "as-json", served("gatehouse-a"))
	w := watchIt(t, i.client, Options{Question: Question{Names: []string{"as-json"}, Home: i.home}, Output: JSON})
	w.shows(t, `"ready": true`)
	e.Status.Conditions = ready(metav1.ConditionFalse, 1, 0)
	if err := i.client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.shows(t, `"ready": false`)
	w.stop()
	if answer := w.ends(t); answer != NotReady || strings.Count(w.out.String(), ListKind) != 2 {
		t.Errorf("answer %d, printed\n%s", answer, w.out.String())
	}
}

func TestOnATerminalATableStaysCurrentUntilQ(t *testing.T) {
	i := install(t)
	e := i.executor(t, "on-a-terminal", served("gatehouse-a"))
	keys, press := io.Pipe()
	w := watchIt(t, i.client, Options{Question: Question{Names: []string{"on-a-terminal"}, Home: i.home}, Terminal: true, In: keys})
	w.shows(t, "on-a-terminal", "q ends")
	e.Status.Conditions, e.Status.BriefError = ready(metav1.ConditionFalse, 1, 0), "it broke"
	if err := i.client.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.shows(t, "it broke")
	go func() { _, _ = press.Write([]byte("q")) }()
	if answer := w.ends(t); answer != NotReady {
		t.Errorf("answer %d", answer)
	}
	// What was seen last stays, as a table that was asked for once.
	if out := w.out.String(); !strings.HasSuffix(out, newTable(Build(Facts{Executors: []v1alpha1.Executor{*e}}), false, now).String()) {
		t.Errorf("printed in the end\n%q", out)
	}
}

func TestALongTableIsMovedThrough(t *testing.T) {
	list := &List{Ready: true}
	for n := range 40 {
		list.Items = append(list.Items, Executor{Name: fmt.Sprintf("executor-%02d", n), BriefError: strings.Repeat("w", 300)})
	}
	var s tea.Model = screen{list: list, clock: clocktesting.NewFakePassiveClock(now)}
	s, _ = s.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	key := func(k tea.KeyType) { s, _ = s.Update(tea.KeyMsg{Type: k}) }
	for _, step := range []struct {
		key         tea.KeyType
		first, last string
	}{
		{tea.KeyUp, "executor-00", "executor-09"},
		{tea.KeyDown, "executor-01", "executor-10"},
		{tea.KeyPgDown, "executor-11", "executor-20"},
		{tea.KeyEnd, "executor-30", "executor-39"},
		{tea.KeyPgDown, "executor-30", "executor-39"},
		{tea.KeyPgUp, "executor-20", "executor-29"},
		{tea.KeyHome, "executor-00", "executor-09"},
	} {
		key(step.key)
		lines := strings.Split(s.View(), "\n")
		if len(lines) != 12 || !strings.HasPrefix(lines[0], "NAME") || !strings.HasPrefix(lines[1], step.first) || !strings.HasPrefix(lines[10], step.last) {
			t.Fatalf("%v shows %d lines\n%s", step.key, len(lines), s.View())
		}
		if slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidth(l) > 60 }) {
			t.Fatalf("wider than the terminal:\n%s", s.View())
		}
	}
	// When most is gone, the rest is in sight.
	key(tea.KeyEnd)
	s, _ = s.Update(&List{Items: list.Items[:3]})
	if !strings.Contains(s.View(), "executor-00") {
		t.Errorf("the first line is out of sight:\n%s", s.View())
	}
	s, _ = s.Update(&List{Notes: []string{"there is no Executor"}})
	if !strings.Contains(s.View(), "there is no Executor") {
		t.Errorf("nothing is said of an empty list:\n%s", s.View())
	}
}
