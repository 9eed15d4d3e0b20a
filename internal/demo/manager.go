package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatehouse-dev/gatehouse/internal/child"
)

const (
	managerReadyWithin = time.Minute
	managerStopWithin  = 30 * time.Second
	probeEvery         = 100 * time.Millisecond
	requestWithin      = 5 * time.Second
)

// manager is `gatehouse manager` as a process, with the rights of its ServiceAccount. It can be stopped and started
// again; its log goes on in the same file.
type manager struct {
	gatehouse  string
	kubeconfig string
	namespace  string
	log        string

	process *child.Process
	metrics string // address of the running process
}

func (m *manager) start(ctx context.Context) error {
	probes, err := freeAddress()
	if err != nil {
		return err
	}
	if m.metrics, err = freeAddress(); err != nil {
		return err
	}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(m.gatehouse, "manager",
		"--kubeconfig", m.kubeconfig,
		"--namespace", m.namespace,
		"--metrics-bind-address", m.metrics,
		"--health-probe-bind-address", probes,
		"--registry-allow-loopback", "--registry-allow-private",
		"--log-format", "text")
	cmd.Stdout, cmd.Stderr = log, log
	if m.process, err = child.Launch("the manager", cmd); err != nil {
		return err
	}
	return m.awaitReady(ctx, "http://"+probes+"/readyz")
}

func (m *manager) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, managerReadyWithin)
	defer cancel()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		if err := probe(ctx, url); err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-m.process.Exited():
			how := m.process.How()
			m.process = nil
			return fmt.Errorf("the manager ended before it was ready (%s)", how)
		case <-ctx.Done():
			return fmt.Errorf("awaited that the manager is ready (%s): %w", url, ctx.Err())
		}
	}
}

// stop ends the manager as Kubernetes would. It does nothing if none runs.
func (m *manager) stop(ctx context.Context) error {
	if m.process == nil {
		return nil
	}
	process := m.process
	m.process = nil
	return process.Stop(ctx, managerStopWithin)
}

// exited is closed when the running process ends.
func (m *manager) exited() <-chan struct{} { return m.process.Exited() }

// check says whether the manager still runs, unless it was stopped.
func (m *manager) check() error {
	if m.process != nil && !m.process.Running() {
		return fmt.Errorf("the manager has ended by itself (%s)", m.process.How())
	}
	return nil
}

// passes counts the reconcile passes of the running process by controller.
func (m *manager) passes(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("metrics of the manager: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("metrics of the manager: %w", err)
	}
	passes := map[string]int{}
	for _, metric := range families["controller_runtime_reconcile_total"].GetMetric() {
		passes[labelOf(metric, "controller")] += int(metric.GetCounter().GetValue())
	}
	return passes, nil
}

func labelOf(metric *dto.Metric, name string) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

// freeAddress finds a port of this machine that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
