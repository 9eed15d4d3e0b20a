package crash

import (
	"context"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// run is a scenario on a lane.
type run struct {
	scenario scenario
	lane     *lane
	fleets   []*fleet.Fleet           // one per release; the first has the gateways
	follows  map[client.ObjectKey]int // gateways, and which of the fleets each follows at the end
	pushed   map[string]image.Digest  // by tag, of the first fleet
	digests  map[string]string        // tags by digest, of all fleets
}

// outcome is what a run came to.
type outcome struct {
	state  state
	writes int // of state, that were sent since the story began
	sent   map[string]sent
	killed bool // the leader
	halted bool // the leader's writes, for a while
}

func (r *run) fleet() *fleet.Fleet { return r.fleets[0] }

func (r *run) namespaces() []string {
	var all []string
	for _, f := range r.fleets {
		all = append(all, f.Namespaces...)
	}
	return all
}

// following is how many gateways follow a release at the end.
func (r *run) following(release int) int {
	n := 0
	for _, follows := range r.follows {
		if follows == release {
			n++
		}
	}
	return n
}

// image pushes an image of the first release under a tag and returns the reference.
func (r *run) image(t *testing.T, tag string) string {
	t.Helper()
	r.pushed[tag] = r.fleet().Push(t, tag)
	r.digests[r.pushed[tag].String()] = tag
	return r.fleet().Image(tag)
}

func (r *run) digest(tag string) string { return r.pushed[tag].String() }

// deployment reads a gateway's; it is empty when there is none yet.
func (r *run) deployment(t *testing.T, key client.ObjectKey) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := r.lane.product.Client.Get(t.Context(), key, deployment); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if len(deployment.Spec.Template.Spec.Containers) == 0 {
		deployment.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	return deployment
}

// disturbance is what goes wrong while a story is told.
type disturbance interface {
	// begin lets it begin, at the leader or at all managers of a lane, and returns what ends it.
	begin(*testing.T, *lane, *replica) (end func())
	// needless says which writes the story would not have needed.
	needless(s scenario, got, want map[string]sent) error
}

// play runs a scenario. want is the outcome that it is to have; nil is for the first time, which finds it out.
func (l *lane) play(t *testing.T, s scenario, d disturbance, want *outcome) outcome {
	t.Helper()
	r := &run{scenario: s, lane: l, follows: map[client.ObjectKey]int{}, pushed: map[string]image.Digest{}, digests: map[string]string{}}
	leader := l.staff(t)
	t.Cleanup(func() {
		leader.proxy.Spare()
		if t.Failed() {
			l.tell(t)
		}
	})
	l.watcher.begin(s.budget)
	if !s.fresh {
		r.found(t)
		eventually.Succeeds(t, patience, func() error { return all("v1")(t, r) })
	}
	l.rests(t, stillness)
	began := map[*replica]int{}
	for _, m := range l.managers {
		began[m] = len(m.proxy.Writes())
	}
	end := sync.OnceFunc(d.begin(t, l, leader))
	defer end()
	if s.fresh {
		r.found(t)
	}
	s.story(t, r)
	eventually.Succeeds(t, l.patience, func() error { return s.end(t, r) })
	if want == nil {
		l.rests(t, certainty)
	} else {
		l.rests(t, stillness)
	}
	end()

	out := outcome{killed: leader.proxy.Killed(), halted: leader.proxy.Halted()}
	eventually.Succeeds(t, patience, func() error {
		out.state = r.stored(t)
		if want == nil {
			return nil
		}
		return differ(out.state, want.state)
	})
	if err := l.watcher.verdict(); err != nil {
		t.Error(err)
	}
	var writes []faultproxy.Written
	for m, from := range began {
		writes = append(writes, m.proxy.Writes()[from:]...)
	}
	out.writes, out.sent = len(writes), r.sent(t, writes)
	if want != nil {
		if err := d.needless(s, out.sent, want.sent); err != nil {
			t.Error(err)
		}
	}
	return out
}

// found makes the fleets.
func (r *run) found(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { r.sweep(t) }) // after the fleets have removed what people made
	for n := range 1 + r.scenario.others {
		f := fleet.New(t, r.lane.product, r.scenario.options(r))
		r.fleets = append(r.fleets, f)
		r.digests[f.V1.String()] = "v1"
		if n == 0 {
			r.pushed["v1"] = f.V1
		}
		for _, key := range f.Gateways {
			r.follows[key] = n
		}
	}
}

// sweep takes away what a garbage collector would.
func (r *run) sweep(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	remove := func(kind client.Object, options ...client.DeleteAllOfOption) {
		if err := r.lane.product.Client.DeleteAllOf(ctx, kind, options...); err != nil {
			t.Errorf("remove every %T: %v", kind, err)
		}
	}
	for _, f := range r.fleets {
		for _, kind := range owned() {
			remove(kind, client.InNamespace(f.Namespaces[0]))
		}
		remove(&appsv1.ControllerRevision{}, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: f.Name})
	}
}

// tell shows what the managers have to say.
func (l *lane) tell(t *testing.T) {
	for _, m := range l.managers {
		log := m.Log()
		t.Logf("the end of what %s logged (running: %v):\n%s", m.Identity(), m.Running(), log[max(0, len(log)-3000):])
	}
}
