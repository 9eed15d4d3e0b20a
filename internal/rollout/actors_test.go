package rollout

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// catchUpTo moves a view forward, by nothing, by a part or to the present.
func (w *world) catchUpTo(seen int64, label string) int64 {
	switch rapid.IntRange(0, 3).Draw(w.t, label) {
	case 0:
		return seen
	case 1:
		return rapid.Int64Range(seen, w.version).Draw(w.t, label+" to")
	default:
		return w.version
	}
}

// plan is one pass of a planner over a release, from its own view.
func (w *world) plan(view *plannerView, h *releaseHistory) {
	read := h.at(view.releaseSeen)
	if read == nil {
		return
	}
	in := Input{
		Release:      h.name,
		UID:          types.UID("release-" + h.name),
		Version:      strconv.FormatInt(read.version, 10),
		Spec:         read.spec,
		Status:       read.status,
		Accepted:     read.accepted,
		Withheld:     read.withheld,
		Undecided:    read.undecided,
		Fleet:        w.fleet(h.name, view.fleetSeen),
		FleetVersion: strconv.FormatInt(view.fleetSeen, 10),
		Now:          w.now,
	}
	plan := Next(in)
	w.checkPlan(in, plan)
	h.wakeAt = plan.WakeAt
	if encode(read.status) == encode(&plan.Status) {
		return
	}
	if h.latest().version != read.version {
		return // conflict
	}
	// Stored and read again, as the API does.
	stored := &v1alpha1.RolloutStatus{}
	if err := json.Unmarshal([]byte(encode(&plan.Status)), stored); err != nil {
		w.t.Fatal(err)
	}
	w.writes++
	w.checkWrite(h, in, stored)
	w.edit(h.name, func(v *releaseVersion) { v.status = stored })
}

// fleet is the gateways of a release as they were at a version.
func (w *world) fleet(release string, version int64) []Member {
	var fleet []Member
	for _, g := range w.gateways {
		v := g.at(version)
		if v == nil || v.gone || v.release != release {
			continue
		}
		fleet = append(fleet, Member{
			UID:             g.uid,
			Namespace:       "tenant",
			Name:            g.name,
			Generation:      v.generation,
			Record:          v.record,
			Observed:        v.observed == v.generation,
			Ready:           v.ready,
			Since:           v.since,
			Reason:          cmp.Or(v.reason, v1alpha1.ReasonReplicasUnavailable),
			Serves:          v.serves,
			DesiredReplicas: 1,
		})
	}
	return fleet
}

// reconcile is one pass of a gateway's controller, from its own view of itself and of its release. It does one step:
// records, or else applies and observes. Stopping between any two is a crash.
func (w *world) reconcile(g *gatewayHistory) {
	read := g.at(g.ownSeen)
	if read == nil || read.gone {
		return
	}
	var status *v1alpha1.RolloutStatus
	if release := w.releases[read.release].at(g.releaseSeen); release != nil {
		status = release.status
	}
	decision := Decide(read.release, status, Gateway{
		UID:        g.uid,
		Generation: read.generation,
		Record:     read.record,
		Running:    g.workload.marks,
		Serves:     g.workload.up,
	})
	next := *read
	next.observed = read.generation
	next.reason, next.serves = "", false
	switch decision.Action {
	case Take, Adopt:
		record := decision.Record
		if decision.Action == Take {
			record.Image = "image@" + record.Name
		}
		next.record = &record
		if read.record == nil || read.record.Name != record.Name {
			next.setReady(false, w.now)
		}
		if g.latest().version != read.version {
			return // conflict
		}
		if decision.Action == Take {
			w.checkTake(g, read, status, record)
		}
	case Wait:
		next.setReady(false, w.now)
		next.reason, next.serves = decision.Reason, g.workload.marks != nil && g.workload.up
	case Keep:
		if g.latest().version != read.version {
			return // what is applied is conditional too
		}
		w.run(g, read.record)
		w.advance(0)
		next.setReady(g.workload.up, w.now)
	}
	if g.latest().version == read.version && next != *read {
		w.writes++
		w.touch(g, func(v *gatewayVersion) { *v = next })
	}
}

func (v *gatewayVersion) setReady(ready bool, now time.Time) {
	if v.ready != ready || v.since.IsZero() {
		v.ready, v.since, v.exactly = ready, now.Truncate(time.Second), now
	}
}

func encode(status *v1alpha1.RolloutStatus) string {
	data, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	return string(data)
}
