package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The model: an API server that keeps every version of every object, and around it planners, gateway controllers,
// tenants and a clock. Whoever reads, reads the state as it was at some version, which for each reader only moves
// forward until that reader is restarted. Whoever writes status, writes on condition that what it read is the latest.
// Nobody is told anything: passes happen at arbitrary moments, so events that are lost, repeated or late are all there.
type world struct {
	t       *rapid.T
	now     time.Time
	version int64
	// floor is the oldest version that anybody can still be shown: nothing from before a restore.
	floor    int64
	releases map[string]*releaseHistory
	gateways []*gatewayHistory
	planners []*plannerView

	// lost says that a status was lost: what was granted before is not known any more, and the bounds that rest on it
	// hold again only for what is granted afterwards.
	lost bool
	// epoch counts the losses.
	epoch int
	// targets holds the one target that each attempt has.
	targets map[string]string
	// writes counts the status writes that went through.
	writes int
}

type releaseHistory struct {
	name     string
	versions []releaseVersion
	// budget and maxFailures are the highest that were ever allowed.
	budget, maxFailures int
	// wakeAt is what the last plan asked for.
	wakeAt time.Time
}

type releaseVersion struct {
	version  int64
	spec     v1alpha1.RolloutSpec
	accepted string
	status   *v1alpha1.RolloutStatus
	// withheld are the revisions that do not verify, and undecided those of which that is not known.
	withheld, undecided []string
}

type gatewayHistory struct {
	uid      types.UID
	name     string
	versions []gatewayVersion
	workload workload

	// ownSeen and releaseSeen are the versions that the gateway's controller has seen.
	ownSeen, releaseSeen int64

	// The truth, that no actor reads. downBy is the release whose rollout took the gateway down, until it is up again.
	downBy string
	// rolled holds the attempts that moved it since it joined its release.
	rolled map[int64]bool
	// ill keeps it down, whatever it runs.
	ill bool
}

type gatewayVersion struct {
	version    int64
	gone       bool
	generation int64
	release    string
	record     *v1alpha1.RecordedRevision
	observed   int64
	ready      bool
	reason     string // why it waits
	serves     bool
	// since is when ready changed, to the full second as the API stores it, and exactly.
	since, exactly time.Time
}

// workload is what runs: a Deployment and its pods.
type workload struct {
	marks *Marks
	up    bool
	// upAt is when it comes up; zero: never.
	upAt time.Time
}

// plannerView is how far a planner has seen the releases and the gateways.
type plannerView struct {
	releaseSeen, fleetSeen int64
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t:        t,
		now:      time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
		releases: map[string]*releaseHistory{},
		floor:    1,
		planners: []*plannerView{{1, 1}, {1, 1}},
		targets:  map[string]string{},
	}
	for _, name := range []string{"a", "b"} {
		w.version++
		w.releases[name] = &releaseHistory{name: name, versions: []releaseVersion{{
			version:  w.version,
			spec:     drawSpec(t),
			accepted: name + "-good1",
		}}}
	}
	for range rapid.IntRange(0, 8).Draw(t, "gateways") {
		w.create("a")
	}
	return w
}

func (h *releaseHistory) latest() *releaseVersion { return &h.versions[len(h.versions)-1] }

func (h *releaseHistory) at(version int64) *releaseVersion {
	for i := len(h.versions) - 1; i >= 0; i-- {
		if h.versions[i].version <= version {
			return &h.versions[i]
		}
	}
	return nil
}

func (g *gatewayHistory) latest() *gatewayVersion { return &g.versions[len(g.versions)-1] }

func (g *gatewayHistory) at(version int64) *gatewayVersion {
	for i := len(g.versions) - 1; i >= 0; i-- {
		if g.versions[i].version <= version {
			return &g.versions[i]
		}
	}
	return nil
}

// edit makes a new version of a release, as a person or the release's controller outside the rollout would.
func (w *world) edit(release string, change func(*releaseVersion)) {
	h := w.releases[release]
	next := *h.latest()
	change(&next)
	w.version++
	next.version = w.version
	h.versions = append(h.versions, next)
}

// touch makes a new version of a gateway.
func (w *world) touch(g *gatewayHistory, change func(*gatewayVersion)) {
	next := *g.latest()
	change(&next)
	w.version++
	next.version = w.version
	g.versions = append(g.versions, next)
}

func (w *world) create(release string) {
	w.version++
	n := len(w.gateways)
	w.gateways = append(w.gateways, &gatewayHistory{
		uid:      types.UID(fmt.Sprintf("uid-%d", n)),
		name:     fmt.Sprintf("edge-%d", n),
		versions: []gatewayVersion{{version: w.version, generation: 1, release: release}},
		ownSeen:  w.version,
		rolled:   map[int64]bool{},
	})
}

func (w *world) delete(g *gatewayHistory) {
	w.touch(g, func(v *gatewayVersion) { v.gone = true })
	g.workload = workload{}
	g.downBy = ""
}

func (w *world) move(g *gatewayHistory, release string) {
	w.touch(g, func(v *gatewayVersion) { v.release = release; v.generation++ })
	g.downBy = ""
	g.rolled = map[int64]bool{}
}

// living are the gateways that exist, in truth.
func (w *world) living() []*gatewayHistory {
	return slices.DeleteFunc(slices.Clone(w.gateways), func(g *gatewayHistory) bool { return g.latest().gone })
}

// advance lets time pass, and workloads come up.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	for _, g := range w.gateways {
		load := &g.workload
		if load.marks != nil && !load.up && !g.ill && !load.upAt.IsZero() && !w.now.Before(load.upAt) {
			load.up = true
		}
		if record := g.latest().record; load.up && record != nil && record.Name == load.marks.Revision {
			g.downBy = ""
		}
	}
}

// run makes a workload of what is recorded. Another revision takes it down until it comes up, if ever: more cautious than
// a rolling update.
func (w *world) run(g *gatewayHistory, record *v1alpha1.RecordedRevision) {
	rolls := g.workload.marks == nil || g.workload.marks.Revision != record.Name
	g.workload.marks = &Marks{Release: record.Release, Revision: record.Name, Attempt: record.Attempt, Image: "image@" + record.Name}
	if !rolls {
		return
	}
	g.workload.up = false
	g.workload.upAt = time.Time{}
	switch {
	case strings.Contains(record.Name, "good"), strings.Contains(record.Name, "flaky"):
		g.workload.upAt = w.now.Add(w.duration(1, 15_000, "up after"))
	case strings.Contains(record.Name, "slow"):
		g.workload.upAt = w.now.Add(w.duration(40_000, 120_000, "up late after"))
	}
}

func (w *world) duration(low, high int, label string) time.Duration {
	return time.Duration(rapid.IntRange(low, high).Draw(w.t, label)) * time.Millisecond
}
