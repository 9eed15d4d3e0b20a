package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Fails when a manager ends because nobody is there at the API server's address: it loses its lease, and then cannot even
// begin anew, time after time, until the server is back.
func TestAnAPIServerThatRefusesConnectionsIsSurvived(t *testing.T) {
	shared.Kill() // there is one lease
	proxy := faultproxy.Start(t, faultproxy.Options{Kubeconfig: product.Kubeconfig})
	options := product.Manager("gatehouse-0")
	options.Kubeconfig = proxy.Kubeconfig
	m := manager.Start(t, options)
	m.Ready(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	runs, v2, pid := f.Footprint(t), f.Push(t, "v2"), m.PID()

	proxy.Script(faultproxy.Rule{Fault: faultproxy.Cut()})
	proxy.Relist(func(faultproxy.Request) bool { return true })
	eventually.Holds(t, 12*time.Second, func() error {
		if !m.Running() {
			return errors.New("the manager has ended")
		}
		return nil
	})
	proxy.Script()
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}
	f.SetImage(t, f.Image("v2"))
	f.Converged(t, v2)
	if !m.Running() || m.PID() != pid {
		t.Error("it is another process that came back")
	}
	m.Ready(t)
}
