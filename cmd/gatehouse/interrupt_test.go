package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// Somebody who changes his mind presses Ctrl-C, also while a command waits for what nobody writes.
func TestWhatWaitsForInputIsInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // lets those go that still open it
		if file, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
			file.Close()
		}
	})
	subject := "registry.example.com/a@sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	for name, args := range map[string][]string{
		"lint, input":   {"lint", "-"},
		"lint, pipe":    {"lint", pipe},
		"verify, input": {"verify", "-f", "-", subject},
		"verify, pipe":  {"verify", "-f", pipe, subject},
		"import, input": {"import", "ratify", "-"},
		"image, input":  {"image", "--stdin"},
	} {
		t.Run(name, func(t *testing.T) {
			in, writer := io.Pipe()
			t.Cleanup(func() { writer.Close() })
			root := newRootCommand()
			root.SetIn(in)
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			root.SetArgs(args)
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- root.ExecuteContext(ctx) }()
			interrupt()
			select {
			case err := <-ended:
				if err == nil || exitStatus(err) == 0 {
					t.Errorf("%v: want a failure", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it waits on")
			}
		})
	}
}

// What somebody ended is not blamed on a registry, or on time.
func TestAVerificationThatIsInterruptedSaysSo(t *testing.T) {
	s := newSigned(t)
	for name, image := range map[string]string{"a tag": s.Host + "/team/app:1.0", "a digest": s.Host + "/team/app@" + s.digest.String()} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			s.Break(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				interrupt()
				registry.Hang()(w, req, next)
			})
			t.Cleanup(s.Heal)
			root := newRootCommand()
			var out, told bytes.Buffer
			root.SetIn(strings.NewReader(s.executor("Enforce") + "---\n" + s.secret()))
			root.SetOut(&out)
			root.SetErr(&told)
			root.SetArgs([]string{"verify", "-f", "-", "--registry-allow-loopback", image})
			err := root.ExecuteContext(ctx)
			if status := exitStatus(err); status != statusUndecided || err.Error() != "interrupted" || out.Len() > 0 {
				t.Errorf("status %d, %v, printed %q; it told %q", status, err, &out, &told)
			}
		})
	}
}
