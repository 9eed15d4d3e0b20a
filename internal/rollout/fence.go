package rollout

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// catchUp is how long a planner whose cache is behind waits before it looks again.
const catchUp = time.Second

// behind says that an earlier plan was made from a fresher view of the fleet than this one. Such a view takes a gateway
// that it has not met for one that is gone, and one that has failed for one that was never moved: it decides nothing.
//
// A version above that of the release itself cannot have been seen by whoever wrote the release: the status was carried
// here from another cluster, and its versions mean nothing.
func (p *pass) behind() bool {
	seen := p.status.FleetVersion
	if order, err := resourceversion.CompareResourceVersion(seen, p.in.Version); err == nil && order > 0 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(p.in.FleetVersion, seen)
	return err == nil && order < 0
}

// stamp notes the version of the fleet that something was decided from. When nothing was, it changes nothing: versions
// move all the time.
func (p *pass) stamp() {
	if p.in.FleetVersion == "" {
		return
	}
	if p.in.Status == nil || !reflect.DeepEqual(*p.in.Status, p.status) {
		p.status.FleetVersion = p.in.FleetVersion
	}
}
