package executor

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// An Executor is at fault for what its spec, or something that it names, can mend; not for who does not answer.
func TestWhoseFaultItIsThatAnExecutorCannotDecide(t *testing.T) {
	built := func(change func(*v1alpha1.RegistryStore)) *Served {
		s := serve(t, "own", "*")
		store := &v1alpha1.RegistryStore{}
		change(store)
		s.Compiled.spec = &v1alpha1.ExecutorSpec{Stores: []v1alpha1.Store{{Name: "registry", Registry: store}}}
		return s
	}
	plain := func(*v1alpha1.RegistryStore) {}
	patience := func(d time.Duration) func(*v1alpha1.RegistryStore) {
		return func(r *v1alpha1.RegistryStore) { r.Timeout = &metav1.Duration{Duration: d} }
	}
	away := serve(t, "own", "*").unbuilt()
	away.Away = true
	for name, test := range map[string]struct {
		by      *Served
		trouble error
		want    bool
	}{
		"no build":                                    {serve(t, "own", "*").unbuilt(), nil, true},
		"no build, since the API server is away":      {away, nil, false},
		"a store without its credentials":             {built(plain), errors.New("not found"), true},
		"a bound":                                     {built(plain), nil, true},
		"other authorities":                           {built(plain), &registry.Error{Kind: registry.Untrusted}, true},
		"other credentials":                           {built(plain), &registry.Error{Kind: registry.Unauthorized}, true},
		"content that is not what its digest says":    {built(plain), &registry.Error{Kind: registry.Mismatch}, true},
		"a registry that is down":                     {built(plain), &registry.Error{Kind: registry.Unreachable}, false},
		"a registry that is out of order":             {built(plain), &registry.Error{Kind: registry.ServerError}, false},
		"a registry that asks to be left alone":       {built(plain), &registry.Error{Kind: registry.TooManyRequests}, false},
		"a registry that is slow":                     {built(patience(registry.RequestTimeout)), &registry.Error{Kind: registry.Timeout}, false},
		"a registry that is given no time":            {built(patience(100 * time.Millisecond)), &registry.Error{Kind: registry.Timeout}, true},
		"a registry that is down, and given no time":  {built(patience(100 * time.Millisecond)), &registry.Error{Kind: registry.Unreachable}, false},
		"too much that is asked of Gatehouse at once": {built(plain), &registry.Error{Kind: registry.Busy}, false},
	} {
		if got := test.by.atFault(verify.Report{Trouble: test.trouble}); got != test.want {
			t.Errorf("%s: at fault %t", name, got)
		}
	}

	insecure := Match{Enforced: []*Served{built(func(r *v1alpha1.RegistryStore) { r.PlainHTTP = true })}}
	down := &registry.Error{Kind: registry.Unreachable}
	if insecure.AtFault(down, true) || !insecure.AtFault(down, false) {
		t.Error("plainHTTP that nobody else sets is what looks like an outage")
	}
	subject, err := image.ParsePinned("registry.example.com/team/app@sha256:7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		by   []*Served
		want bool
	}{{[]*Served{away}, false}, {[]*Served{away, serve(t, "b", "*").unbuilt()}, true}} {
		match := Match{State: Matched, Enforced: test.by}
		if _, _, err := match.Attempt(t.Context(), subject); err == nil || match.AtFault(err, false) != test.want {
			t.Errorf("%d Executors: %v, at fault %t", len(test.by), err, !test.want)
		}
	}
}
