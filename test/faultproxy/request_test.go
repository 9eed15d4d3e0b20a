package faultproxy

import (
	"net/http/httptest"
	"testing"
)

func TestARequestIsReadFromItsURL(t *testing.T) {
	for _, test := range []struct {
		method, url, want string
		state             bool
	}{
		{"GET", "/api/v1/namespaces/a/configmaps/x", "get configmaps a/x", false},
		{"GET", "/api/v1/configmaps?limit=5", "list configmaps ", false},
		{"GET", "/api/v1/configmaps?watch=true", "watch configmaps ", false},
		{"GET", "/api/v1/namespaces?watch=1", "watch namespaces ", false},
		{"GET", "/api/v1/namespaces/a", "get namespaces a", false},
		{"PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a", true},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", "create deployments.apps a/", true},
		{"PATCH", "/apis/apps/v1/namespaces/a/deployments/d?fieldManager=x", "patch deployments.apps a/d", true},
		{"PATCH", "/apis/gatehouse.dev/v1alpha1/gatewayreleases/r/status", "patch gatewayreleases.gatehouse.dev/status r", true},
		{"DELETE", "/apis/apps/v1/namespaces/a/deployments/d", "delete deployments.apps a/d", true},
		{"DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection deployments.apps a/", true},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "update leases.coordination.k8s.io a/l", false},
		{"POST", "/apis/events.k8s.io/v1/namespaces/a/events", "create events.events.k8s.io a/", false},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "create selfsubjectreviews.authentication.k8s.io ", false},
		{"GET", "/apis/apps/v1", "get /apis/apps/v1 ", false},
		{"GET", "/version", "get /version ", false},
	} {
		got := parse(httptest.NewRequest(test.method, test.url, nil))
		if got.String() != test.want || got.state() != test.state {
			t.Errorf("%s %s: %q, state %v; want %q, %v", test.method, test.url, got, got.state(), test.want, test.state)
		}
	}
}

func TestOnlyJSONIsAskedFor(t *testing.T) {
	for accept, want := range map[string]string{
		"application/vnd.kubernetes.protobuf, */*":             "application/json",
		"application/vnd.kubernetes.protobuf,application/json": "application/json",
		"application/json": "application/json",
		"":                 "application/json",
		"application/cbor;q=0.9, application/json":               "application/json",
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=m":  "application/json;as=Table;v=v1;g=m",
		"application/json;as=Table;v=v1;g=m, application/json":   "application/json;as=Table;v=v1;g=m,application/json",
		"application/vnd.kubernetes.protobuf;as=PartialObject;x": "application/json;as=PartialObject;x",
	} {
		if got := jsonOnly(accept); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

// The same seed gives the same faults to the same requests; another gives others; and as many as the chance says.
func TestChanceIsTheSeeds(t *testing.T) {
	faults := func(seed uint64) (got []bool, n int) {
		s := newScript(seed, []Rule{{Chance: 0.2, Fault: Fail(500)}})
		for range 1000 {
			fault := s.decide(Request{Verb: "get"})
			got = append(got, fault.ends == answered)
			if fault.ends == answered {
				n++
			}
		}
		return got, n
	}
	first, n := faults(7)
	again, _ := faults(7)
	other, _ := faults(8)
	if n < 150 || n > 250 {
		t.Errorf("%d faults in 1000 at one in five", n)
	}
	same := 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("request %d met another fault with the same seed", i)
		}
		if first[i] == other[i] {
			same++
		}
	}
	if same == len(first) {
		t.Error("another seed gives the same faults")
	}
}

func TestARuleSkipsAndEnds(t *testing.T) {
	s := newScript(1, []Rule{
		{When: Verb("create"), Skip: 2, Times: 1, Fault: Fail(409)},
		{When: Verb("create"), Skip: 3, Fault: Fail(500)},
	})
	var got []int
	for range 6 {
		s.decide(Request{Verb: "get"})
		got = append(got, s.decide(Request{Verb: "create"}).code)
	}
	// The second rule has not met the one that the first has taken.
	if want := [6]int{0, 0, 409, 0, 500, 500}; [6]int(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}
