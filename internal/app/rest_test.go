package app

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Whether a process leads is what the lease says, by the name under which the process takes it.
func TestWhoHoldsTheLeaseLeads(t *testing.T) {
	config := &Config{Namespace: "gatehouse-system", Pod: "gatehouse-0"}
	lock, err := config.lock(&rest.Config{Host: "gatehouse.test"})
	if err != nil {
		t.Fatal(err)
	}
	for holder, want := range map[string]bool{"gatehouse-0": true, "gatehouse-1": false, "": false} {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: config.Namespace, Name: leaseName},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
		}
		reader := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(lease).Build()
		if leads, err := config.leads(reader, lock)(t.Context()); leads != want || err != nil {
			t.Errorf("the lease is held by %q: leads %t, %v", holder, leads, err)
		}
	}
	if _, err := config.leads(fake.NewClientBuilder().WithScheme(newScheme()).Build(), lock)(t.Context()); err == nil {
		t.Error("there is no lease, and no error")
	}
	if config.leads(nil, nil) != nil {
		t.Error("without an election the lease is asked for")
	}
}
