package executor

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// within is how long anything may take that should happen at once.
const within = 30 * time.Second

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.Options{Audit: true, APIServerOnly: true}, &shared, "config/crd")
}

// bench is what one test works with: a namespace for Gatehouse, one for a tenant, and replicas.
type bench struct {
	*testing.T
	client    client.Client
	namespace string
	tenant    string
	agent     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{T: t, client: inprocess.Client(t, shared.Config), namespace: shared.Namespace(t, "gatehouse"), tenant: shared.Namespace(t, "tenant"), agent: "executor-under-test-" + rand.String(8)}
}

// replica is a manager with the controller in it, in this process.
type replica struct {
	b       *bench
	live    *Live
	board   *Board
	cached  client.Client
	collect *prometheus.Registry
	stop    func()
}

// setup shapes a replica.
type setup struct {
	config *rest.Config                      // as whom; default an administrator
	reader func(client.Reader) client.Reader // stands between it and the Secrets
	clock  clock.Clock
	elect  bool // take part in an election; by default a replica leads
}

// start runs a replica until the test or stop ends it.
func (b *bench) start(s setup) *replica {
	b.Helper()
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	mgr := inprocess.Manager(b, cmp.Or(s.config, shared.Config), b.agent, manager.Options{
		LeaderElection: s.elect, LeaderElectionNamespace: b.namespace,
		Cache: inprocess.Only(b.namespace, &corev1.Secret{}, &corev1.ConfigMap{}, &appsv1.ControllerRevision{}),
	})
	r := &replica{b: b, live: NewLive(s.clock), board: NewBoard(), cached: mgr.GetClient(), collect: prometheus.NewRegistry()}
	reader := mgr.GetAPIReader()
	if s.reader != nil {
		reader = s.reader(reader)
	}
	if err := Setup(b.Context(), mgr, Dependencies{
		Client: mgr.GetClient(), Reader: reader, Clock: s.clock, Live: r.live, Board: r.board,
		Tools: tools(), Namespace: b.namespace, Resync: time.Hour, Workers: 4, Witness: NewWitness(r.live, reader, b.namespace, 100, s.clock),
		Passes: outcome.NewMetrics(r.collect), Registerer: r.collect,
	}); err != nil {
		b.Fatal(err)
	}
	r.stop = inprocess.Run(b, mgr)
	return r
}

// tools suffice to compile, and reach nothing.
func tools() Tools {
	return Tools{Registry: registry.New(registry.Options{}), Clock: clock.RealClock{}}
}

// value reads one of the replica's metrics, summed over its series.
func (r *replica) value(name string) float64 {
	r.b.Helper()
	sum, _ := inprocess.Sum(r.b, r.collect, name)
	return sum
}

func (r *replica) compiles() float64 { return r.value("gatehouse_executor_compiles_total") }

// quiet waits until the replica has nothing to do.
func (r *replica) quiet() {
	r.b.Helper()
	var last float64
	since := time.Now()
	eventually.Succeeds(r.b, within, func() error {
		if now := r.value("gatehouse_reconcile_total") + r.compiles(); now != last {
			last, since = now, time.Now()
		}
		if ready, awaited := r.live.Ready(); !ready {
			return fmt.Errorf("not ready: %s", awaited)
		}
		if time.Since(since) < 700*time.Millisecond {
			return fmt.Errorf("%v passes, the last %s ago", last, time.Since(since))
		}
		return nil
	})
}

// serves waits until the replica serves an Executor as the check demands.
func (r *replica) serves(name types.NamespacedName, check func(*Served) error) *Served {
	r.b.Helper()
	var found *Served
	eventually.Succeeds(r.b, within, func() error {
		if found = r.live.Served(name); found == nil {
			return fmt.Errorf("%s is not served", name)
		}
		return check(found)
	})
	return found
}

// generation demands a build of a generation.
func generation(n int64) func(*Served) error {
	return func(s *Served) error {
		if s.Compiled == nil || s.Generation != n {
			return fmt.Errorf("generation %d serves, want %d: %s", s.Generation, n, s.Problem)
		}
		return nil
	}
}

// unbuilt demands that nothing is served, and why.
func unbuilt(why string) func(*Served) error {
	return func(s *Served) error {
		if s.Compiled != nil || !strings.Contains(s.Problem, why) {
			return fmt.Errorf("built %t, problem %q, want none for %q", s.Compiled != nil, s.Problem, why)
		}
		return nil
	}
}

// create makes an object that goes when the test ends.
func (b *bench) create(object client.Object) {
	b.Helper()
	inprocess.Create(b, b.client, object)
}

func (b *bench) delete(object client.Object) {
	b.Helper()
	inprocess.Delete(b, b.client, object)
}

// edit changes an object as it is now.
func edit[T client.Object](b *bench, object T, change func(T)) {
	b.Helper()
	inprocess.Edit(b, b.client, within, object, change)
}

// newKey is a public key in PEM.
func newKey(t testing.TB) string {
	t.Helper()
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return string(key.PublicPEM())
}

// secret holds keys under their names.
func (b *bench) secret(namespace, name string, data map[string]string) *corev1.Secret {
	b.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
	b.create(s)
	return s
}

// byKeys is a spec that trusts keys of Secrets, each named by secret/key.
func byKeys(scope string, keys ...string) v1alpha1.VerificationSpec {
	verifier := &v1alpha1.CosignVerifier{TransparencyLog: v1alpha1.Ignored}
	for i, key := range keys {
		secret, name, _ := strings.Cut(key, "/")
		verifier.Keys = append(verifier.Keys, v1alpha1.CosignKey{
			Name:      fmt.Sprintf("k%d", i+1),
			PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: secret, Key: name}}},
		})
	}
	return v1alpha1.VerificationSpec{
		Scopes:    []v1alpha1.Scope{v1alpha1.Scope(scope)},
		Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: verifier}},
	}
}

// executor makes a cluster's Executor.
func (b *bench) executor(spec v1alpha1.VerificationSpec) *v1alpha1.Executor {
	b.Helper()
	e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: "executor-" + rand.String(8)}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: spec}}
	b.create(e)
	return e
}

// says waits until the replica's report on the present generation of an Executor passes the checks.
func (r *replica) says(e client.Object, checks ...func(Report) error) {
	r.b.Helper()
	eventually.Succeeds(r.b.T, within, func() error {
		if err := r.b.client.Get(r.b.Context(), client.ObjectKeyFromObject(e), e); err != nil {
			return err
		}
		said, there := r.board.Get(client.ObjectKeyFromObject(e))
		if !there || said.UID != e.GetUID() || said.Attempted != e.GetGeneration() {
			return fmt.Errorf("reported %t: %+v, want one of generation %d", there, said, e.GetGeneration())
		}
		for _, check := range checks {
			if err := check(said); err != nil {
				return err
			}
		}
		return nil
	})
}

// succeeds demands a report without trouble.
func succeeds(said Report) error {
	if !said.Succeeded || said.Serving != said.Attempted || said.Inputs == "" || said.Reason != "" || said.Error != "" || said.Brief != "" {
		return fmt.Errorf("report %+v", said)
	}
	return nil
}

// fails demands that the present generation does not answer whole, and why.
func fails(reason string, texts ...string) func(Report) error {
	return func(said Report) error {
		if said.Succeeded {
			return fmt.Errorf("report %+v", said)
		}
		return troubled(reason, texts...)(said)
	}
}

// troubled demands a reason, and texts.
func troubled(reason string, texts ...string) func(Report) error {
	return func(said Report) error {
		if said.Reason != reason || said.Brief == "" {
			return fmt.Errorf("reason %s, brief %q, want %s", said.Reason, said.Brief, reason)
		}
		for _, text := range texts {
			if !strings.Contains(said.Error, text) {
				return fmt.Errorf("error %q, want %q", said.Error, text)
			}
		}
		return nil
	}
}
