package podstatus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// Bounds of a status, in bytes.
const (
	maxError  = 4096
	maxBrief  = 256
	maxByPod  = 100
	maxStatus = 32 << 10
	// maxConditions is what three conditions with messages of maxMessage may take.
	maxConditions = 4 << 10
	maxMessage    = 768
)

// replica is one pod of the installation, and what it reports.
type replica struct {
	pod string
	uid types.UID
	// serving says that requests reach it. One that does not serve is counted, and moves nothing else.
	serving bool
	// report is nil if there is none.
	report *v1alpha1.ExecutorPodStatusStatus
}

// verdict is what a status says of all replicas together.
type verdict struct {
	succeeded    bool
	error, brief string
	counts       v1alpha1.ReplicaCounts
	byPod        []v1alpha1.ReplicaStatus
	// inputs is the hash of what all should trust.
	inputs string
	// reason and message are those of the conditions; without a reason there is no trouble. With trouble it is either
	// stalled, or under way, and then underWay says why.
	reason, message string
	underWay        string
	stalled         bool
}

// standing is how far a replica is, the worst first.
type standing int

const (
	failed standing = iota
	unreported
	differing
	troubled // it is ready, but what it trusts could not be read again
	ready
)

type placed struct {
	replica
	standing
	text, brief, reason string
}

// fold makes one verdict of what replicas report of a generation of a spec. trusted is the hash of what the leader
// trusts, empty if the leader cannot tell. What comes out is a function of what goes in, in whatever order.
func fold(generation int64, trusted string, replicas []replica) verdict {
	if trusted == "" {
		trusted = mostTrusted(generation, replicas)
	}
	v := verdict{inputs: trusted}
	var serving []placed
	for _, r := range replicas {
		if !r.serving {
			v.counts.NotServing++
			continue
		}
		v.counts.Expected++
		if r.report != nil {
			v.counts.Reported++
		}
		p := place(generation, trusted, r)
		switch p.standing {
		case failed:
			v.counts.Failed++
		case ready, troubled:
			v.counts.Ready++
		}
		serving = append(serving, p)
	}
	slices.SortFunc(serving, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.standing, b.standing), cmp.Compare(a.pod, b.pod), cmp.Compare(a.uid, b.uid))
	})
	v.counts.Summary = fmt.Sprintf("%d/%d", v.counts.Ready, v.counts.Expected)
	v.succeeded = v.counts.Expected > 0 && v.counts.Ready == v.counts.Expected
	v.judge(generation, serving)
	v.describe(serving)
	return v
}

// mostTrusted is what most replicas that serve this generation trust: what they are compared with while the leader has
// not built it itself. Of two that are equally many it is the same one each time.
func mostTrusted(generation int64, replicas []replica) string {
	count := map[string]int{}
	best := ""
	for _, r := range replicas {
		if r.serving && r.report != nil && r.report.ServingGeneration == generation {
			count[r.report.Inputs]++
		}
	}
	for inputs, n := range count {
		if n > count[best] || n == count[best] && inputs < best {
			best = inputs
		}
	}
	return best
}

func place(generation int64, trusted string, r replica) placed {
	p := placed{replica: r, standing: ready}
	switch said := r.report; {
	case said == nil:
		p.standing, p.text = unreported, "has not reported"
	case said.ObservedGeneration != generation:
		p.standing, p.text = unreported, fmt.Sprintf("has not reported generation %d; generation %d serves there", generation, said.ServingGeneration)
	case !said.Succeeded:
		p.standing, p.brief, p.reason = failed, said.BriefError, cmp.Or(said.Reason, v1alpha1.ReasonNotCompiled)
		p.text = cmp.Or(said.Error, "generation "+fmt.Sprint(generation)+" does not serve there")
	case said.ServingGeneration != generation:
		p.standing, p.text = unreported, fmt.Sprintf("generation %d serves there, not generation %d", said.ServingGeneration, generation)
	case said.Inputs != trusted:
		p.standing, p.text = differing, fmt.Sprintf("trusts other keys or certificates: inputs %s, not %s", said.Inputs, trusted)
	case said.Error != "":
		p.standing, p.text, p.brief, p.reason = troubled, said.Error, said.BriefError, cmp.Or(said.Reason, v1alpha1.ReasonUnreadable)
	}
	p.text = strings.ReplaceAll(p.text, "\n", "; ")
	p.brief = outcome.Bound(cmp.Or(p.brief, p.text), maxBrief)
	return p
}

// judge says which conditions follow.
func (v *verdict) judge(generation int64, serving []placed) {
	var count [ready + 1]int32
	terminal, retried := "", ""
	for _, p := range serving {
		count[p.standing]++
		switch {
		case p.standing == failed && (p.reason == v1alpha1.ReasonInvalidSpec || p.reason == v1alpha1.ReasonMaterialMissing):
			terminal = cmp.Or(terminal, p.reason)
		default:
			retried = cmp.Or(retried, p.reason)
		}
	}
	late := fmt.Sprintf("%d/%d replicas have not reported generation %d", count[unreported], v.counts.Expected, generation)
	switch {
	case v.counts.Expected == 0:
		v.brief, v.error = "no replica serves", "no replica of Gatehouse serves requests: none of its pods is Ready"
		v.reason, v.underWay = v1alpha1.ReasonNoReplica, v1alpha1.ReasonNoReplica
		return
	case !v.succeeded:
		v.brief = fmt.Sprintf("%d/%d replicas unhealthy", v.counts.Expected-v.counts.Ready, v.counts.Expected)
	case count[troubled] > 0:
		v.brief = fmt.Sprintf("%d/%d replicas cannot read again what they trust", count[troubled], v.counts.Expected)
	default:
		return
	}
	switch {
	case terminal != "" && count[unreported] == 0:
		v.stalled, v.reason = true, terminal
	case count[unreported] > 0:
		v.reason, v.underWay = cmp.Or(terminal, retried, v1alpha1.ReasonNotReported), v1alpha1.ReasonNotReported
		v.message = late
	case count[differing] > 0:
		v.reason, v.underWay = cmp.Or(retried, v1alpha1.ReasonTrustDiffers), v1alpha1.ReasonTrustDiffers
	default:
		v.reason, v.underWay = retried, retried
	}
}

// describe fills in the texts, replica by replica, within the bounds of a status.
func (v *verdict) describe(serving []placed) {
	troubles := slices.Clone(serving)
	if i := slices.IndexFunc(serving, func(p placed) bool { return p.standing == ready }); i >= 0 {
		troubles = troubles[:i]
	}
	if len(troubles) > 0 {
		var lines []string
		each := max(maxError/len(troubles)-1, 80)
		for _, p := range troubles {
			lines = append(lines, outcome.Bound(p.pod+": "+p.text, each))
		}
		v.error = outcome.Bound(strings.Join(lines, "\n"), maxError)
		v.message = outcome.Bound(strings.Join(slices.DeleteFunc([]string{v.brief, v.message, lines[0]}, func(s string) bool { return s == "" }), "; "), maxMessage)
	} else if v.reason != "" {
		v.message = v.error
	}
	shown := serving[:min(len(serving), maxByPod)]
	for _, limit := range []struct{ brief, error int }{
		{maxBrief, maxError}, {192, maxError}, {128, maxError}, {96, maxError / 2}, {64, maxError / 4}, {48, maxError / 8},
	} {
		v.byPod = nil
		for _, p := range shown {
			v.byPod = append(v.byPod, p.entry(limit.brief))
		}
		v.error = outcome.Bound(v.error, limit.error)
		if sizeOf([]any{v.error, v.brief, v.counts, v.byPod})+maxConditions <= maxStatus {
			return
		}
	}
}

func (p placed) entry(limit int) v1alpha1.ReplicaStatus {
	s := v1alpha1.ReplicaStatus{
		ID: p.pod, PodUID: p.uid, Succeeded: p.standing >= troubled, BriefError: outcome.Bound(p.brief, limit),
	}
	if said := p.report; said != nil {
		s.ObservedGeneration, s.ServingGeneration, s.Inputs = said.ObservedGeneration, said.ServingGeneration, said.Inputs
		s.LastTransitionTime = said.LastTransitionTime.DeepCopy() // a report may be the cache's own
	}
	return s
}

func sizeOf(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		panic("a part of a status has no JSON: " + err.Error()) // it is made of strings and numbers
	}
	return len(text)
}
