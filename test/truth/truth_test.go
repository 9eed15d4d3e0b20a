package truth

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/test/replicas"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// odd is the replica that does not hear of everything.
const odd = "odd"

// Whatever happens to the replicas, what is said of them is so, and costs what it must.
func TestTheTruthAboutReplicas(t *testing.T) {
	began, err := product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{size: sizes(), tenant: product.Namespace(t, "tenant")}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: keySecret.Namespace, Name: keySecret.Name}, Data: map[string][]byte{keyFile: []byte(goodKey)}}
	if err := product.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.watcher = watchAll(t)
	w.replicas = replicas.Start(t, product, replicas.Options{Proxied: func(pod string) bool { return pod == odd }})
	for n := range w.size.subjects {
		s := &subject{NamespacedName: types.NamespacedName{Name: fmt.Sprintf("s%d", n)}, bySecret: n%2 == 0}
		switch n {
		case 1:
			s.Namespace = w.tenant
		case 3: // as long as a name may be: that of a report has no room for it
			s.Name = longName(s.Name)
		}
		w.create(t, s, true)
		w.subjects = append(w.subjects, s)
	}
	w.replicas.Deploy(t, w.size.replicas)
	w.replicas.Ready(t, int(w.size.replicas))
	w.right(t)

	for _, step := range []struct {
		name string
		do   func(*world, *testing.T)
	}{
		{"an edit costs a write of each replica, and two or so of the leader", (*world).edits},
		{"an Executor that is new costs two of each", (*world).newcomer},
		{"a status that somebody writes is set right at once, and makes nobody compile", (*world).statusWritten},
		{"at rest nothing is written, however often a replica tries", (*world).rests},
		{"a replica cannot write of another", (*world).foreign},
		{"a leader that dies leaves nothing wrong", (*world).leaders},
		{"an Executor that is made again inherits nothing", (*world).recreated},
		{"a pod that has the name of another inherits nothing", (*world).namesake},
		{"one that does not hear of everything is the odd one out", (*world).deaf},
		{"a key that is replaced while nobody leads is told of by the next leader", (*world).leaderless},
		{"upgrades, scaling, drains and a pod without a node put nothing in doubt", (*world).steady},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(w, t) }) {
			break // what follows begins where this ends
		}
	}
	w.ownReportsAlone(t, began)
}

// longName is as long as a name may be.
func longName(begins string) string {
	return begins + "-" + strings.Repeat("x", validation.DNS1123SubdomainMaxLength-len(begins)-1)
}
