package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// builds is what this replica remembers of the Executors: what it read and what it compiled from that. Losing it costs
// reading and compiling anew.
type builds struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*build
}

func newBuilds() *builds { return &builds{all: map[types.NamespacedName]*build{}} }

// build is what is remembered of one Executor. One pass at a time works on it; refs alone is read by others too, under
// the lock of builds.
type build struct {
	uid   types.UID
	known map[Ref]known
	// compilations are those of the present and of the last good spec, by what they were made of.
	compilations map[string]*compilation
	good         *good
	refs         map[Ref]struct{}
}

// of is what is remembered of an Executor; nothing of another that had its name.
func (b *builds) of(e *executor) *build {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.all[e.name()]
	if found == nil || found.uid != e.UID {
		found = &build{uid: e.UID}
		b.all[e.name()] = found
	}
	return found
}

func (b *builds) forget(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, name)
}

// use takes down what an Executor was built from.
func (b *builds) use(one *build, refs map[Ref]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one.refs = refs
}

// users are the Executors of a namespace that were built from something.
func (b *builds) users(namespace string, ref Ref) []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []types.NamespacedName
	for name, one := range b.all {
		if _, uses := one.refs[ref]; uses && name.Namespace == namespace {
			names = append(names, name)
		}
	}
	return names
}

// attempt is what a pass made of an Executor.
type attempt struct {
	served *Served
	// whole says that the present spec serves, with everything that it names.
	whole bool
	// fault is why not, or what is not as it should be though it does; an outcome.
	fault error
	// unread is why it is not known which spec was good last; an earlier one serves, if any does.
	unread error
	// wake is when there is something to do without an event: a build expires, material is due to be read again.
	wake time.Time
}

// attempt builds the present spec of an Executor, or failing that the last good one. It returns what to serve, also if
// that is nothing.
func (r *reconciler) attempt(ctx context.Context, e *executor) attempt {
	one := r.builds.of(e)
	scopes, _ := ParseScopes(e.Spec.Scopes) // what is malformed is a fault of the spec, found below
	a := attempt{served: &Served{Name: e.name(), UID: e.UID, Attempted: e.Generation, Scopes: scopes, Mode: e.Spec.Mode, Tenancy: e.Spec.Tenancy}}
	used := map[string]*compilation{}

	present := r.build(ctx, e, one, &e.Spec, used)
	a.fault = present.fault
	known := present.known
	if !present.whole {
		stored, err := r.reader.lastGood(ctx, e.Namespace, r.namespace, e.UID, e.Generation)
		a.unread = err
		newer := stored != nil && (one.good == nil || stored.generation > one.good.generation)
		if newer && (stored.generation < e.Generation || present.compiled != nil) {
			one.good = stored // what was good of the present spec elsewhere, and is not built here at all, replaces nothing
		}
	}
	switch {
	case present.compiled != nil && present.whole:
		one.good = &good{e.Generation, *e.Spec.DeepCopy()}
		a.whole = true
		a.serve(present, e.Generation)
	case present.compiled != nil && one.good != nil && one.good.generation == e.Generation:
		// It was whole once. What it has lost since is trusted no longer, the rest is.
		a.serve(present, e.Generation)
	case one.good != nil && one.good.generation != e.Generation:
		last := r.build(ctx, e, one, &one.good.spec, used)
		maps.Copy(known, last.known)
		if last.compiled != nil {
			a.standIn(last, one.good, e, present)
		}
	}
	if a.fault != nil {
		a.served.Problem = a.fault.Error()
	}
	a.served.Away = present.away
	one.known, one.compilations = known, used
	refs := make(map[Ref]struct{}, len(known))
	for ref := range known {
		refs[ref] = struct{}{}
	}
	r.builds.use(one, refs)

	wait := jittered(refreshInterval(&e.Spec))
	if trouble := outcome.As(a.fault); trouble != nil && trouble.Reason == v1alpha1.ReasonMaterialMissing && e.Namespace != "" {
		wait = min(wait, incompleteRetry)
	}
	a.wake = r.clock.Now().Add(wait)
	if expires := a.served.Expires; !expires.IsZero() && expires.Before(a.wake) {
		a.wake = expires
	}
	return a
}

// incompleteRetry is how soon an Executor looks again for what it misses in a namespace that Gatehouse does not watch.
const incompleteRetry = 30 * time.Second

// jittered shortens a wait by up to a tenth, so that those who read together do not read together for ever.
func jittered(wait time.Duration) time.Duration {
	return wait - time.Duration(rand.Int64N(int64(wait)/10+1))
}

func (a *attempt) serve(b built, generation int64) {
	a.served.Compiled, a.served.Expires, a.served.Generation = b.compiled, b.expires, generation
}

// standIn serves the last good spec in place of the present one, as far as nothing is looser by that than either says: what
// only audits does not stand in for what is to enforce, and tenants get no leave that the present spec takes from them.
func (a *attempt) standIn(b built, last *good, e *executor, present built) {
	if last.spec.Mode == v1alpha1.ModeAudit && a.served.Mode != v1alpha1.ModeAudit {
		return
	}
	a.serve(b, last.generation)
	a.served.instead, a.served.insteadKey = &e.Spec, present.key
	a.served.BuiltFor, _ = ParseScopes(last.spec.Scopes)
	a.served.Mode = last.spec.Mode
	if a.served.Tenancy == v1alpha1.TenancyDelegate {
		a.served.Tenancy = last.spec.Tenancy
	}
}

// built is what came of one spec.
type built struct {
	compiled *Compiled // nil if nothing came of it
	whole    bool      // nothing that it names is missing or malformed
	fault    error     // why it is not whole, or what could not be read again
	expires  time.Time // when what could not be read may no longer be trusted
	key      string    // the fingerprint of what it was made of; empty if that could not be read
	away     bool      // nothing came of it because the API server did not answer, and for no other reason
	known    map[Ref]known
}

// build reads what a spec names and compiles it, if that differs from what it was compiled from before.
func (r *reconciler) build(ctx context.Context, e *executor, one *build, spec *v1alpha1.ExecutorSpec, used map[string]*compilation) built {
	namespace := e.materialNamespace(r.namespace)
	b := built{known: r.reader.read(ctx, e.Namespace, namespace, spec, one.known)}
	material := Material{}
	var unread, kept []string
	now := r.clock.Now()
	for _, ref := range References(spec) {
		k := b.known[ref]
		if !k.failing.IsZero() {
			until := k.failing.Add(maxStale(spec))
			if !k.read || !now.Before(until) {
				b.away = k.away && (b.away || len(unread) == 0)
				unread = append(unread, k.failure)
				continue
			}
			kept = append(kept, k.failure)
			if b.expires.IsZero() || until.Before(b.expires) {
				b.expires = until
			}
		}
		if k.exists {
			material[ref] = k.object
		}
	}
	if len(unread) > 0 {
		b.fault = outcome.Transient(v1alpha1.ReasonUnreadable, errors.New(strings.Join(unread, "; ")))
		return b
	}
	b.key = fingerprint(spec, material)
	c := one.compilations[b.key]
	if c == nil {
		c = r.compile(reportName(e.name()), spec, material, namespace)
	}
	used[b.key] = c
	timer := r.clock.NewTimer(compileDeadline)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C():
		b.fault = outcome.Transient(v1alpha1.ReasonNotCompiled, fmt.Errorf("it has not compiled within %s", compileDeadline))
		return b
	case <-ctx.Done():
		b.fault = outcome.Transient(v1alpha1.ReasonNotCompiled, errors.New("interrupted while compiling"))
		return b
	}
	b.compiled = c.compiled
	switch {
	case c.err != nil:
		b.fault = outcome.Terminal(v1alpha1.ReasonInvalidSpec, c.err)
	case len(c.compiled.Problems()) > 0:
		b.fault = outcome.Terminal(v1alpha1.ReasonMaterialMissing, errors.Join(c.compiled.Problems()...))
	default:
		b.whole = true
		if len(kept) > 0 {
			b.fault = outcome.Transient(v1alpha1.ReasonUnreadable, errors.New(strings.Join(kept, "; ")))
		}
	}
	return b
}

// compileDeadline is how long a pass waits for a compilation. One that takes longer goes on beside it, and the next
// pass finds it; it is not begun again.
const compileDeadline = 10 * time.Second

// compilation is one run of Compile; its results are there once it is done.
type compilation struct {
	done     chan struct{}
	compiled *Compiled
	err      error
}

// compile begins a compilation in a goroutine of its own, so that one that does not end holds no worker.
func (r *reconciler) compile(name string, spec *v1alpha1.ExecutorSpec, material Material, namespace string) *compilation {
	c := &compilation{done: make(chan struct{})}
	spec = spec.DeepCopy()
	began := r.clock.Now()
	go func() {
		defer close(c.done)
		defer func() {
			if failure := recover(); failure != nil {
				r.log.Error(fmt.Errorf("%v", failure), "compiling an Executor panicked", "stack", string(debug.Stack()))
				c.compiled, c.err = nil, errors.New("it cannot be compiled: an error inside Gatehouse, which its log has; report it")
			}
			r.metrics.compiled(c, r.clock.Since(began))
		}()
		c.compiled, c.err = Compile(name, spec, material, namespace, r.tools)
	}()
	return c
}

// fingerprint tells apart what builds are made of, credentials included: it is compared, and shown to nobody.
func fingerprint(spec *v1alpha1.ExecutorSpec, material Material) string {
	h := sha256.New()
	writeJSON(h, spec)
	refs := slices.SortedFunc(maps.Keys(material), func(a, b Ref) int { return strings.Compare(a.indexKey(), b.indexKey()) })
	for _, ref := range refs {
		writeJSON(h, []any{ref, material[ref]})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func writeJSON(w io.Writer, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic("a value that was decoded from JSON is not encoded to it: " + err.Error())
	}
}
