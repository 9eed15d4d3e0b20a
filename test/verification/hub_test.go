package verification

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/registry"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// repository is that of all images.
const repository = "team/app"

// hub is a registry in a process of its own, with images that are signed in the
// way of a kind: notation or cosign.
type hub struct {
	// Host is that of the registry, Control that of its counters.
	Host, Control string
	// Trust is the certificate or the key that vouches for the signatures, in PEM.
	Trust  string
	Images []string // digests
}

// counted is what a registry was asked so far.
type counted struct{ Requests, Connections int }

func (h *hub) counts(tb testing.TB) counted {
	tb.Helper()
	answer, err := http.Get("http://" + h.Control)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	var c counted
	if err := json.NewDecoder(answer.Body).Decode(&c); err != nil {
		tb.Fatal(err)
	}
	return c
}

func (h *hub) subjects(tb testing.TB) []image.Pinned {
	tb.Helper()
	var subjects []image.Pinned
	for _, digest := range h.Images {
		subject, err := image.ParsePinned(h.Host + "/" + repository + "@" + digest)
		if err != nil {
			tb.Fatal(err)
		}
		subjects = append(subjects, subject)
	}
	return subjects
}

// The environment in which this binary is a hub.
const (
	envKind   = "GATEHOUSE_HUB_KIND"
	envImages = "GATEHOUSE_HUB_IMAGES"
	envRTT    = "GATEHOUSE_HUB_RTT"
)

// startHub runs this binary once more, as a registry with so many images.
func startHub(tb testing.TB, kind string, images int, rtt time.Duration) *hub {
	tb.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestHub$", "-test.timeout", "1h")
	child.Env = append(os.Environ(), envKind+"="+kind, envImages+"="+strconv.Itoa(images), envRTT+"="+rtt.String())
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := child.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stdin.Close()
		_ = child.Wait() // it ends when its input does
	})
	line, err := bufio.NewReaderSize(stdout, 1<<20).ReadBytes('\n')
	if err != nil {
		tb.Fatalf("the registry did not start: %v", err)
	}
	h := &hub{}
	if err := json.Unmarshal(line, h); err != nil {
		tb.Fatalf("the registry said %q: %v", line, err)
	}
	return h
}

// TestHub is the registry; it does nothing unless it is told to be one.
func TestHub(t *testing.T) {
	kind := os.Getenv(envKind)
	if kind == "" {
		return
	}
	images, err := strconv.Atoi(os.Getenv(envImages))
	if err != nil {
		t.Fatal(err)
	}
	rtt, err := time.ParseDuration(os.Getenv(envRTT))
	if err != nil {
		t.Fatal(err)
	}
	server := registry.Start(t, registry.WithRoundTrip(rtt))
	h := &hub{Host: server.Host}
	sign := map[string]func(*testing.T, *registry.Registry) (string, func(image.Digest)){"notation": notationSigner, "cosign": cosignSigner}[kind]
	trust, signed := sign(t, server)
	h.Trust = trust
	for range images {
		digest := server.PushImage(t, repository, "latest")
		signed(digest)
		h.Images = append(h.Images, digest.String())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.Control = listener.Addr().String()
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(counted{len(server.Requests()), server.Connections()})
		}))
	}()
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fscanln(os.Stdin) // until it is closed
}

func notationSigner(t *testing.T, server *registry.Registry) (string, func(image.Digest)) {
	ca, err := notation.New(notation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ca.Issue(notation.Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ca.PEM()), func(digest image.Digest) {
		signature, err := signer.Sign(*server.Subject(t, repository, digest), notation.Signing{})
		if err != nil {
			t.Fatal(err)
		}
		for _, blob := range signature.Blobs() {
			server.PushBlob(t, repository, "application/octet-stream", blob)
		}
		server.PushManifest(t, repository, signature.Descriptor.Digest.String(), signature.Descriptor.MediaType, string(signature.Manifest))
	}
}

func cosignSigner(t *testing.T, server *registry.Registry) (string, func(image.Digest)) {
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return string(key.PublicPEM()), func(digest image.Digest) {
		signature, err := (&cosign.Signer{Key: key}).Sign(cosign.Payload(server.Host+"/"+repository, digest))
		if err != nil {
			t.Fatal(err)
		}
		artifact := cosign.Tagged(digest, signature)
		for _, blob := range artifact.Blobs {
			server.PushBlob(t, repository, blob.MediaType, blob.Content)
		}
		server.PushManifest(t, repository, artifact.Tag, artifact.MediaType, string(artifact.Manifest))
	}
}
