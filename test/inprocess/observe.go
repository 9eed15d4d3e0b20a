package inprocess

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// Sum adds up the series of a counter or gauge that have all of these labels, given as name and value in turn, and says
// how many they are.
func Sum(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (sum float64, series int) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			has := map[string]string{}
			for _, label := range m.GetLabel() {
				has[label.GetName()] = label.GetValue()
			}
			matches := family.GetName() == name
			for i := 0; i+1 < len(labels); i += 2 {
				matches = matches && has[labels[i]] == labels[i+1]
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				series++
			}
		}
	}
	return sum, series
}

// Mark is this moment in the audit log.
func Mark(t testing.TB, on *cluster.Cluster) cluster.Mark {
	t.Helper()
	mark, err := on.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// Writes are what agents of a name have sent since a mark.
func Writes(t testing.TB, on *cluster.Cluster, since cluster.Mark, agent string, matches ...cluster.Match) []cluster.AuditEvent {
	t.Helper()
	events, err := on.Writes(t.Context(), since, append(matches, cluster.ByUserAgent(agent))...)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Lines are events, each as a line.
func Lines(events []cluster.AuditEvent) (lines []string) {
	for _, e := range events {
		lines = append(lines, e.String())
	}
	return lines
}
