package executor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Whoever begins a verification, it is counted where it happens; and whoever asks after it hears the same.
func TestAVerificationIsCountedWhoeverBeginsIt(t *testing.T) {
	pool := registry.NewPool(registry.New(registry.Options{}), registry.PoolOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- pool.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	registerer := prometheus.NewRegistry()
	inquiries := func() Inquiries {
		counted, err := CountReleases(registerer)
		if err != nil {
			t.Fatal(err)
		}
		return Inquiries{Pool: pool, Clock: clock.RealClock{}, MaxAge: time.Hour, Verifications: counted}
	}
	ofRelease, ofGateway := inquiries(), inquiries()
	subject, err := image.ParsePinned("registry.example.com/team/app@sha256:7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")
	if err != nil {
		t.Fatal(err)
	}
	match := Match{State: Matched, Enforced: []*Served{serve(t, "a", "*").unbuilt()}, key: "a"}
	look := func(i Inquiries) Known {
		return i.Look(ctx, match, subject, types.NamespacedName{Name: "stable"}, time.Time{})
	}
	if known := look(ofGateway); known.Knowledge != Pending || known.Message != "looking for the signatures of "+subject.String() {
		t.Errorf("at first %+v", known)
	}
	eventually.Succeeds(t, time.Minute, func() error {
		if known := look(ofRelease); known.Knowledge != Troubled {
			return fmt.Errorf("known is %+v", known)
		}
		return nil
	})
	if told, same := look(ofRelease), look(ofGateway); told.Message != same.Message || told.Message != subject.String()+": Executor a: cannot decide: it is not compiled" {
		t.Errorf("the release hears %q, the gateway %q", told.Message, same.Message)
	}
	families, err := registerer.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 3 {
		t.Fatalf("counted are %v, %v", families, err)
	}
	total := 0.0
	for _, series := range families[0].GetMetric() {
		if series.GetLabel()[0].GetValue() == "Undecided" {
			total = series.GetCounter().GetValue()
		}
	}
	if families[0].GetName() != "gatehouse_release_verifications_total" || total < 1 {
		t.Errorf("%s counts %v", families[0].GetName(), total)
	}
}
