package demo

import (
	"fmt"
)

// story is what the demo shows, in order.
func story() []step {
	edit := func(version string) func(*scene) string {
		return func(s *scene) string { return imageEdit(s.release, s.versions[version].image) }
	}
	return []step{
		{
			name: "first-rollout", title: "First rollout",
			does: func(s *scene) string {
				return fmt.Sprintf("kubectl create -f profile-%s.yaml -f release-%s.yaml -f %d-gateways.yaml", s.profile, s.release, fleetSize)
			},
			run: firstRollout,
		},
		{name: "edit", title: "Edit to v2", does: edit("v2"), run: editTo("v2")},
		{
			name: "malformed-image", title: "A malformed image",
			does: func(s *scene) string { return imageEdit(s.release, malformed(s)) },
			run:  malformedImage,
		},
		{name: "correction", title: "The correction: v3", does: edit("v3"), run: editTo("v3")},
		{
			name: "edit-while-stopped", title: "Edit to v4 while Gatehouse is down",
			does: func(s *scene) string { return "kill $MANAGER; " + edit("v4")(s) + "; gatehouse manager" },
			run:  editWhileStopped,
		},
		{
			name: "profile-edit", title: "A profile edit, paced like an image",
			does: func(s *scene) string {
				return fmt.Sprintf("kubectl edit gatewayprofile %s   # %s: debug", s.profile, logLevelVariable)
			},
			run: profileEdit,
		},
		{name: "bad-image", title: "A bad image: v5 never becomes ready", does: edit(badVersion), run: badImage},
		{name: "going-back", title: "Going back to v4", does: edit("v4"), run: goingBack},
		{
			name: "restart", title: "Gatehouse restarts, nothing is sent",
			does: func(s *scene) string {
				return "kubectl rollout restart -n " + systemNamespace + " deployment/gatehouse"
			},
			run: restart,
		},
	}
}
