package e2e

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Fails when a log line is no object that a machine reads, when it does not say what it is about, and when the manager
// is refused something that its roles should allow.
func TestLogsAreForMachinesAndSayWhatTheyAreAbout(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	about := map[string]int{}
	for line := range strings.Lines(m.Log()) {
		entry := map[string]any{}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("no JSON: %s", line)
			continue
		}
		for _, key := range []string{"time", "level", "msg"} {
			if text, _ := entry[key].(string); text == "" {
				t.Errorf("without %s: %s", key, line)
			}
		}
		if entry["release"] == f.Name {
			about["release"]++
		}
		if entry["gateway"] == f.Gateways[0].String() {
			about["gateway"]++
		}
		if strings.Contains(line, "is forbidden: User") {
			t.Errorf("its roles are not enough: %s", line)
		}
	}
	if about["release"] == 0 || about["gateway"] == 0 {
		t.Errorf("lines about the release and its gateway: %v", about)
	}
	if n := strings.Count(m.Log(), `"gateway":"`+f.Gateways[0].String()+`"`); n > 40 {
		t.Errorf("%d lines about the first start of one gateway", n)
	}
}

// collector receives spans.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]int // by name and by the object that they are about
}

// Export is the service's one method.
func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[span.Name+" "+attribute(span, "name")]++
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func attribute(span *tracev1.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// Fails when passes are not traced where an endpoint is given, or spans are lost when the manager stops.
func TestPassesAreTracedWhenAnEndpointIsGiven(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := &collector{spans: map[string]int{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, got)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	shared.Kill()
	options := product.Manager("gatehouse-0")
	options.Environment = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String()}
	m := manager.Start(t, options)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	m.Stop(t)
	got.mu.Lock()
	defer got.mu.Unlock()
	for _, span := range []string{"release pass " + f.Name, "gateway pass " + f.Gateways[0].Name} {
		if got.spans[span] == 0 {
			t.Errorf("no span %q among %v", span, got.spans)
		}
	}
}
