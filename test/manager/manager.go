package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

const (
	// ReadyTimeout is within what time a manager has filled its caches on a slow machine.
	ReadyTimeout = time.Minute
	stopTimeout  = 40 * time.Second
)

// Options say how a manager is started.
type Options struct {
	// Binary is what to run; empty builds it.
	Binary string
	// Kubeconfig holds the API server and the credentials.
	Kubeconfig string
	// Namespace is Gatehouse's own.
	Namespace string
	// Identity names the process in the lease. One that is started again under the name of one that was killed need not
	// wait for its lease to run out.
	Identity string
	// Arguments come after those that make a short lease, and may override them.
	Arguments []string
	// Environment is what the process sees beside HOME and PATH, as NAME=value.
	Environment []string
}

// Manager is a running process.
type Manager struct {
	identity string
	command  *exec.Cmd
	metrics  string // URL
	probes   string // URL
	logs     *logs
	exited   chan struct{}
	err      error // of the exit; read after exited is closed
}

// Start runs a manager until the test ends.
func Start(tb testing.TB, o Options) *Manager {
	tb.Helper()
	m, err := Run(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		m.Kill()
		m.Check(tb)
	})
	return m
}

// blunders are what no manager may ever log: a pass that panicked is retried, and would go unnoticed. The second comes
// from a binary that was built with the race detector.
var blunders = []string{"bserved a panic", "WARNING: DATA RACE"}

// Check is for the end of a test: it fails one in whose time the manager has blundered, and shows the end of the log of
// one that has failed.
func (m *Manager) Check(tb testing.TB) {
	tb.Helper()
	CheckLog(tb, m.identity, m.Log())
}

// CheckLog is Check of what a manager of that name has logged.
func CheckLog(tb testing.TB, name, log string) {
	tb.Helper()
	for _, blunder := range blunders {
		if at := strings.Index(log, blunder); at >= 0 {
			tb.Errorf("%s blundered:\n%s", name, log[max(0, at-200):min(len(log), at+tailLog)])
		}
	}
	if tb.Failed() {
		tb.Logf("the end of what %s logged:\n%s", name, log[max(0, len(log)-tailLog):])
	}
}

// Run runs a manager until it is killed or stopped. ctx bounds the building of its binary.
func Run(ctx context.Context, o Options) (*Manager, error) {
	if o.Binary == "" {
		binary, err := Binary(ctx)
		if err != nil {
			return nil, err
		}
		o.Binary = binary
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	probes, err := freeAddress()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		identity: o.Identity,
		metrics:  "http://" + metrics + "/metrics",
		probes:   "http://" + probes,
		logs:     &logs{},
		exited:   make(chan struct{}),
	}
	m.command = exec.Command(o.Binary, append([]string{
		"manager",
		"--kubeconfig=" + o.Kubeconfig,
		"--namespace=" + o.Namespace,
		"--identity=" + o.Identity,
		"--metrics-bind-address=" + metrics,
		"--health-probe-bind-address=" + probes,
		"--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s",
		"--registry-allow-loopback", // where test registries are
	}, o.Arguments...)...)
	m.command.Env = append([]string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}, o.Environment...)
	m.command.Stderr = m.logs
	// It must not outlive the test, nor get the signals that are meant for it.
	m.command.SysProcAttr = attributes()
	if err := m.command.Start(); err != nil {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	go func() {
		m.err = m.command.Wait()
		close(m.exited)
	}()
	return m, nil
}

const (
	// Ports below those that the system gives to outgoing connections, one of which might take it before it is used.
	firstPort, lastPort = 12_000, 32_000
	portAttempts        = 100
)

// freeAddress is a port that nothing listens on.
func freeAddress() (string, error) {
	var err error
	for range portAttempts {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))); err == nil {
			defer func() { _ = listener.Close() }()
			return listener.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// PID is that of the process.
func (m *Manager) PID() int { return m.command.Process.Pid }

// Identity is its name in the lease.
func (m *Manager) Identity() string { return m.identity }

// Running reports whether the process has not ended.
func (m *Manager) Running() bool {
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// Log is what the manager has written so far; of much, the end.
func (m *Manager) Log() string { return m.logs.all() }

// Kill ends the process as a power cut would, and waits until it is gone.
func (m *Manager) Kill() {
	_ = m.command.Process.Kill() // it may have ended
	<-m.exited
}

// Stop asks the process to end, waits for it, and returns how long it took. It fails the test if the process does not
// end well.
func (m *Manager) Stop(tb testing.TB) time.Duration {
	tb.Helper()
	started := time.Now()
	if err := m.Signal(syscall.SIGTERM); err != nil {
		tb.Fatalf("stop %s: %v", m.identity, err)
	}
	select {
	case <-m.exited:
	case <-time.After(stopTimeout):
		m.Kill()
		tb.Fatalf("%s did not end within %s of being asked to", m.identity, stopTimeout)
	}
	if m.err != nil {
		tb.Fatalf("%s did not end well: %v\n%s", m.identity, m.err, m.logs.tail())
	}
	return time.Since(started)
}

// Signal sends a signal to the process.
func (m *Manager) Signal(s syscall.Signal) error { return m.command.Process.Signal(s) }

// Ready waits until the manager's caches are filled.
func (m *Manager) Ready(tb testing.TB) {
	tb.Helper()
	eventually.Succeeds(tb, ReadyTimeout, func() error {
		if !m.Running() {
			tb.Fatalf("%s has ended: %v\n%s", m.identity, m.err, m.logs.tail())
		}
		_, err := get(tb.Context(), m.probes+"/readyz")
		return err
	})
}

var httpClient = &http.Client{Timeout: 10 * time.Second}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(url + ": " + response.Status + ": " + string(body))
	}
	return body, nil
}

// logs keeps the end of what a process writes.
type logs struct {
	mu   sync.Mutex
	text []byte
}

const (
	keptLog = 8 << 20
	tailLog = 6 << 10
)

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - keptLog; over > 0 {
		l.text = append([]byte(nil), l.text[over:]...)
	}
	return len(p), nil
}

func (l *logs) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *logs) tail() string {
	text := l.all()
	return text[max(0, len(text)-tailLog):]
}
