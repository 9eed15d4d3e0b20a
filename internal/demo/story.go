package demo

import (
	"fmt"
)

func scaleTo(replicas int) string {
	return fmt.Sprintf("kubectl scale -n %s deployment/gatehouse --replicas=%d", systemNamespace, replicas)
}

// story is what the demo shows, in order.
func story() []step {
	imageOf := func(version string) func(*scene) string {
		return func(s *scene) string { return s.versions[version].image }
	}
	edit := func(version string) func(*scene) string {
		return func(s *scene) string { return imageEdit(s.release, imageOf(version)(s)) }
	}
	return []step{
		{
			name: "first-rollout", title: "First rollout",
			does: func(s *scene) string {
				return fmt.Sprintf("kubectl create -f profile-%s.yaml -f executor-%s.yaml -f release-%s.yaml -f %d-gateways.yaml", s.profile, executorName, s.release, fleetSize)
			},
			run: firstRollout,
		},
		{name: "edit", title: "Edit to v2", does: edit("v2"), run: editTo("v2")},
		{name: "unsigned-image", title: "v3 is not signed", does: edit(unsignedVersion), run: refused(imageOf(unsignedVersion), "Unverified: ")},
		{name: "copied-signature", title: "v4 carries the signatures of v2", does: edit(copiedVersion), run: refused(imageOf(copiedVersion), "Unverified: ")},
		{
			name: "malformed-image", title: "A malformed image",
			does: func(s *scene) string { return imageEdit(s.release, malformed(s)) },
			run:  refused(malformed, "Invalid: "),
		},
		{name: "correction", title: "The correction: v5", does: edit("v5"), run: editTo("v5")},
		{
			name: "trust-taken-away", title: "A signer is trusted no longer, in the middle of v6",
			does: func(s *scene) string {
				return edit(trustVersion)(s) + fmt.Sprintf("; kubectl edit secret -n %s %s", systemNamespace, caSecret)
			},
			run: trustTakenAway,
		},
		{
			name: "edit-while-stopped", title: "Edit to v7 while Gatehouse is down",
			does: func(s *scene) string { return scaleTo(0) + "; " + edit(lastVersion)(s) + "; " + scaleTo(replicaCount) },
			run:  editWhileStopped,
		},
		{
			name: "profile-edit", title: "A profile edit, paced like an image",
			does: func(s *scene) string {
				return fmt.Sprintf("kubectl edit gatewayprofile %s   # %s: debug", s.profile, logLevelVariable)
			},
			run: profileEdit,
		},
		{name: "bad-image", title: "A bad image: v8 never becomes ready", does: edit(badVersion), run: badImage},
		{name: "going-back", title: "Going back to v7", does: edit(lastVersion), run: goingBack},
		{
			name: "broken-executor", title: "An Executor's edit that does not build",
			does: func(*scene) string { return "kubectl edit executor " + executorName + "   # half a key" },
			run:  brokenSpec,
		},
		{
			name: "replica-killed", title: "A replica dies and its pod is deleted",
			does: func(*scene) string {
				return "kubectl delete pod -n " + systemNamespace + " $POD; kill -9 $PID"
			},
			run: replicaKilled,
		},
		{
			name: "scaled", title: "Five replicas, and three again",
			does: func(*scene) string { return scaleTo(5) + "; " + scaleTo(replicaCount) },
			run:  scaled,
		},
		{
			name: "missed-rotation", title: "A replica misses the rotation of a certificate",
			does: func(*scene) string {
				return "kubectl edit secret -n " + systemNamespace + " " + caSecret + "; gatehouse status " + executorName
			},
			run: missedRotation,
		},
		{
			name: "restart", title: "Gatehouse restarts, nothing is sent",
			does: func(s *scene) string {
				return "kubectl rollout restart -n " + systemNamespace + " deployment/gatehouse"
			},
			run: restart,
		},
	}
}
