package podstatus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// published knows of which Executors this process has a report stored, and why of others it has not.
type published struct {
	mu sync.Mutex
	// all says that each was once. From then on a report that is late says nothing of this process: whoever counts the
	// replicas sees that it is.
	all     bool
	begun   bool  // who reports is known, and what is stored already
	general error // why it has not begun
	uids    map[types.NamespacedName]types.UID
	trouble map[types.NamespacedName]error
}

func newPublished() *published {
	return &published{uids: map[types.NamespacedName]types.UID{}, trouble: map[types.NamespacedName]error{}}
}

// cannot takes in why reports cannot be stored at all; nil is that this has ended.
func (p *published) cannot(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.general = err
}

// begin takes in that reports can be stored.
func (p *published) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.general = true, nil
}

// is takes in that the report on an Executor is stored.
func (p *published) is(name types.NamespacedName, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uids[name] = uid
}

// isNot takes in that there is no report on an Executor.
func (p *published) isNot(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.uids, name)
}

// note takes in how a pass over an Executor ended.
func (p *published) note(name types.NamespacedName, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.trouble, name)
		return
	}
	p.trouble[name] = err
}

// Published reports whether this process has stored a report on each Executor that it was ready for at first, and whether
// none is left of a process that was in the pod before it; if not, on which Executors, and why not. Once it is true it
// stays so.
func (r *Reporter) Published() (bool, string) {
	if done, why := r.published.done(); done || why != "" {
		return done, why
	}
	// In this order: whoever is on the board when all have been attempted is to be reported on.
	if ready, awaited := r.live.Ready(); !ready {
		return false, awaited
	}
	said := map[types.NamespacedName]types.UID{}
	for _, name := range r.board.Names() {
		if report, ok := r.board.Get(name); ok {
			said[name] = report.UID
		}
	}
	var inherited []types.NamespacedName
	list := &v1alpha1.ExecutorPodStatusList{}
	if err := r.reports.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil { // from memory
		return false, err.Error()
	}
	for i := range list.Items {
		if r.inherited(&list.Items[i]) {
			inherited = append(inherited, keyOf(list.Items[i].Spec.Executor))
		}
	}
	return r.published.lacks(said, inherited)
}

// done reports whether all was stored once, and if not, why nothing can be yet; without that it is to be looked at.
func (p *published) done() (bool, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.all || p.begun:
		return p.all, ""
	case p.general != nil:
		return false, p.general.Error()
	}
	return false, "those of before are not listed yet"
}

func (p *published) lacks(said map[types.NamespacedName]types.UID, inherited []types.NamespacedName) (bool, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lacking := map[types.NamespacedName]struct{}{}
	for name, uid := range said {
		if p.uids[name] != uid {
			lacking[name] = struct{}{}
		}
	}
	for _, name := range inherited {
		lacking[name] = struct{}{}
	}
	if len(lacking) == 0 {
		p.all = true
		return true, ""
	}
	var missing, trouble []string
	for name := range lacking {
		missing = append(missing, executor.Describe(name))
		if err := p.trouble[name]; err != nil {
			trouble = append(trouble, err.Error())
		}
	}
	slices.Sort(missing)
	slices.Sort(trouble)
	const shown = 10
	if len(missing) > shown {
		missing = append(missing[:shown:shown], fmt.Sprintf("and %d more", len(missing)-shown))
	}
	why := "not stored yet: " + strings.Join(missing, ", ")
	if len(trouble) > 0 {
		why += "\n" + trouble[0]
	}
	return false, why
}
