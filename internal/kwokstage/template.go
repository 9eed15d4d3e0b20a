package kwokstage

import (
	"fmt"
	"strings"
)

// A merge patch replaces lists, so the templates state every condition and
// every container. The Ready condition's message names the behaviour, by
// which Apply and Heal see which pods a stage has reached.

// statusHead is the part of a pod's status before its containers.
func statusHead(b Behaviour, ready bool) string {
	status, reason := "True", ""
	if !ready {
		status, reason = "False", "reason: ContainersNotReady, "
	}
	lines := []string{
		`{{ $now := Now }}`,
		`{{ $root := . }}`,
		`phase: Running`,
		`startTime: {{ or .status.startTime $now | Quote }}`,
		`conditions:`,
		`- {type: PodScheduled, status: "True", lastTransitionTime: {{ $now | Quote }}}`,
		`- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}`,
		fmt.Sprintf(`- {type: Ready, status: %q, %smessage: %q, lastTransitionTime: {{ $now | Quote }}}`, status, reason, message(b)),
		fmt.Sprintf(`- {type: ContainersReady, status: %q, %slastTransitionTime: {{ $now | Quote }}}`, status, reason),
		`containerStatuses:`,
	}
	return strings.Join(lines, "\n") + "\n"
}

const containerHead = `- {name: {{ $c.name | Quote }}, image: {{ $c.image | Quote }}, imageID: {{ $c.image | Quote }}, `

func runningTemplate(b Behaviour, ready bool) string {
	return statusHead(b, ready) +
		`{{ range $c := .spec.containers }}` + "\n" +
		containerHead + fmt.Sprintf(`ready: %t, started: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}`, ready) + "\n" +
		`{{ end }}` + "\n"
}

func crashTemplate(b Behaviour) string {
	return statusHead(b, false) +
		`{{ range $i, $c := .spec.containers }}{{ $n := 0 }}` + "\n" +
		`{{ if $root.status.containerStatuses }}{{ $p := index $root.status.containerStatuses $i }}{{ $n = or $p.restartCount 0 }}{{ end }}` + "\n" +
		containerHead + `ready: false, started: false, restartCount: {{ add1 $n }}, ` +
		`state: {waiting: {reason: CrashLoopBackOff, message: "back-off restarting failed container"}}, ` +
		`lastState: {terminated: {exitCode: 1, reason: Error, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}}` + "\n" +
		`{{ end }}` + "\n"
}

func message(b Behaviour) string { return messagePrefix + b.name }

const messagePrefix = "behaviour of this image on devcluster: "
