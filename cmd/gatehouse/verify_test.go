package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/registry"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// signed is a registry with the image team/app:1.0 and the key that signed it.
type signed struct {
	*registry.Registry
	key    *cosign.Key
	digest image.Digest
}

func newSigned(t *testing.T) *signed {
	t.Helper()
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	s := &signed{Registry: registry.Start(t), key: key}
	s.digest = s.PushImage(t, "team/app", "1.0")
	s.sign(t, s.digest)
	return s
}

func (s *signed) sign(t *testing.T, digest image.Digest) {
	t.Helper()
	signature, err := (&cosign.Signer{Key: s.key}).Sign(cosign.Payload(s.Host+"/team/app", digest))
	if err != nil {
		t.Fatal(err)
	}
	artifact := cosign.Tagged(digest, signature)
	for _, blob := range artifact.Blobs {
		s.PushBlob(t, "team/app", blob.MediaType, blob.Content)
	}
	s.PushManifest(t, "team/app", artifact.Tag, artifact.MediaType, string(artifact.Manifest))
}

// executor is a manifest that trusts the key in the Secret signers.
func (s *signed) executor(mode string) string {
	return fmt.Sprintf(`apiVersion: gatehouse.dev/v1alpha1
kind: Executor
metadata: {name: production}
spec:
  scopes: ["%s/*"]
  mode: %s
  stores: [{name: registry, registry: {plainHTTP: true}}]
  verifiers:
  - name: builders
    cosign:
      transparencyLog: Ignored
      keys: [{name: k1, secretRef: {name: signers, key: cosign.pub}}]
`, s.Host, mode)
}

// secret is the Secret that the manifest names.
func (s *signed) secret() string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: signers}\nstringData:\n  cosign.pub: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(string(s.key.PublicPEM())), "\n", "\n    ") + "\n"
}

// verified runs the command with a file of these manifests.
func verified(t *testing.T, manifests string, args ...string) (out, told string, status int) {
	t.Helper()
	root := newRootCommand()
	var stdout, stderr bytes.Buffer
	root.SetIn(strings.NewReader(manifests))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"verify", "-f", "-", "--registry-allow-loopback"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		status = exitStatus(err)
	}
	for line := range strings.SplitSeq(stdout.String()+stderr.String(), "\n") {
		words := strings.Split(strings.TrimLeft(line, "├└│─ "), ": ")
		if len(slices.Compact(slices.Clone(words))) < len(words) {
			t.Errorf("says something twice: %s", line)
		}
	}
	return stdout.String(), stderr.String(), status
}

// Three outcomes, each with its exit status and its reason.
func TestVerify(t *testing.T) {
	hub := newSigned(t)
	other, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := hub.PushImage(t, "team/app", "unsigned")
	both := hub.executor("Enforce") + "---\n" + hub.secret()
	stranger := hub.executor("Enforce") + "---\n" + (&signed{Registry: hub.Registry, key: other}).secret()
	tenant := "---\n" + strings.NewReplacer("kind: Executor", "kind: NamespacedExecutor", "{name: production}", "{name: own, namespace: tenant-a}").Replace(hub.executor("Enforce")) +
		"---\n" + strings.NewReplacer("{name: signers}", "{name: signers, namespace: tenant-a}").Replace((&signed{Registry: hub.Registry, key: other}).secret())
	app := hub.Host + "/team/app"
	tests := []struct {
		name, manifests string
		args            []string
		status          int
		out, told       string // parts of what is printed
	}{
		{"Executors in a list", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(hub.executor("Enforce")), "\n", "\n  ") + "\n- " + strings.ReplaceAll(strings.TrimSpace(hub.secret()), "\n", "\n  ") + "\n", []string{app + ":1.0"}, 0, "passed", ""},
		{"a tag that is signed", both, []string{app + ":1.0"}, 0, app + "@" + hub.digest.String() + ": passed", ""},
		{"a digest that is signed", both, []string{app + "@" + hub.digest.String()}, 0, "builders: passed", ""},
		{"an image that is not signed", both, []string{app + ":unsigned"}, 1, app + "@" + unsigned.String() + ": failed", ""},
		{"a key of somebody else", stranger, []string{app + ":1.0"}, 1, "no signature by builders", ""},
		{"an image that is not there", both, []string{app + ":gone"}, 2, "", "tag gone not found"},
		{"a digest that is not there", both, []string{app + "@sha256:" + strings.Repeat("0", 64)}, 1, "failed", ""},
		{"an image out of scope", both, []string{"registry.example.com/team/app:1.0"}, 2, "", "no Executor has registry.example.com/team/app in scope"},
		{"a digest out of scope", both, []string{"registry.example.com/team/app@" + hub.digest.String()}, 2, "no Executor has registry.example.com/team/app in scope", ""},
		{"an audit satisfies nothing", strings.Replace(both, "mode: Enforce", "mode: Audit", 1), []string{app + ":1.0"}, 2, "only Executors in mode Audit", ""},
		{"a tenant demands more", both + tenant, []string{app + ":1.0"}, 1, "tenant-a/own: failed", ""},
		{"another namespace does not", both + tenant, []string{"-n", "tenant-b", app + ":1.0"}, 0, "passed", ""},
		{"a Secret that is not there", hub.executor("Enforce"), []string{app + ":1.0"}, 2, "", "Executor production: verifier builders: key k1: Secret signers not found; add its manifest to the files, or its keys to --secret-dir as files signers/KEY"},
		{"an Executor that is wrong", strings.Replace(both, "verifiers:", "verifier:", 1), []string{app + ":1.0"}, 2, "", "unknown field"},
		{"an Executor that is there twice", both + "---\n" + hub.executor("Enforce"), []string{app + ":1.0"}, 2, "", "Executor/production: metadata.name: is written twice, first at <stdin>:3, and a cluster keeps what is applied last; keep the one that is meant"},
		{"a Secret that is there twice", both + "---\n" + stranger[strings.Index(stranger, "apiVersion: v1\n"):], []string{app + ":1.0"}, 2, "", "Secret/signers: metadata.name: is written twice, first at <stdin>:16"},
		{"no manifest", "", []string{app + ":1.0"}, 2, "", "no manifest in - is an Executor or a NamespacedExecutor of gatehouse.dev; name the file of one with -f"},
		{"an image that does not read", both, []string{"Team/App"}, 2, "", "image repository"},
		{"two images", both, []string{"a:1", "b:1"}, 2, "", "2 images are given"},
		{"an output that is not there", both, []string{"-o", "xml", "a:1"}, 2, "", "write text or json"},
		{"a folder that is not there", both, []string{"--secret-dir", "/nowhere", app + ":1.0"}, 2, "", "--secret-dir /nowhere: no such file or directory; name the folder that holds Secrets and ConfigMaps as files NAME/KEY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, told, status := verified(t, tt.manifests, tt.args...)
			if status != tt.status || !strings.Contains(out, tt.out) || !strings.Contains(told, tt.told) {
				t.Errorf("exit status %d, want %d; printed\n%s\nand\n%s\nwant %q and %q", status, tt.status, out, told, tt.out, tt.told)
			}
		})
	}
	t.Run("a registry that does not answer", func(t *testing.T) {
		hub.Break(registry.Answer(503))
		defer hub.Heal()
		if out, told, status := verified(t, both, app+"@"+hub.digest.String()); status != 2 || !strings.Contains(out, "cannot decide") {
			t.Errorf("exit status %d\n%s\n%s", status, out, told)
		}
	})
	for name, lie := range map[string]registry.Fault{
		"another digest": registry.LieAboutDigest(image.DigestOf([]byte("another"))),
		"other bytes":    registry.Forge("nonsense"),
		"another type":   registry.LieAboutType("text/html"),
	} {
		t.Run("a registry that lies: "+name, func(t *testing.T) {
			hub.Break(lie)
			defer hub.Heal()
			for _, of := range []string{app + ":1.0", app + "@" + hub.digest.String()} {
				if out, told, status := verified(t, both, of); status != 2 {
					t.Errorf("%s: exit status %d\n%s\n%s", of, status, out, told)
				}
			}
		})
	}
}

// A bound that is met in a store is told with the store, once.
func TestVerifyNamesAStoreOnce(t *testing.T) {
	hub := newSigned(t)
	hub.Break(registry.LieAboutType("text/html"))
	out, _, status := verified(t, hub.executor("Enforce")+"---\n"+hub.secret(), hub.Host+"/team/app@"+hub.digest.String())
	if status != 2 || !strings.Contains(out, "\n    ├── store registry: ") && !strings.Contains(out, "└── store registry: ") {
		t.Errorf("exit status %d, printed\n%s", status, out)
	}
}

// Secrets are found in a folder as they are mounted, and nothing outside of it is read.
func TestVerifyReadsMountedSecrets(t *testing.T) {
	hub := newSigned(t)
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "cosign.pub")
	mounted := filepath.Join(dir, "signers", "..data")
	if err := os.MkdirAll(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{filepath.Join(mounted, "cosign.pub"): hub.key.PublicPEM(), outside: hub.key.PublicPEM()} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "signers", "cosign.pub")
	pipe := filepath.Join(mounted, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		target string
		status int
		told   string
	}{
		{filepath.Join("..data", "pipe"), 2, "cosign.pub is no regular file; write the content into one"},
		{filepath.Join("..data", "cosign.pub"), 0, ""},
		{filepath.Join("..data", "gone"), 2, "cosign.pub: no such file or directory; put the content there, in a file that can be read"},
		{outside, 2, "cosign.pub: path escapes from parent; put the content there, in a file that can be read"},
	} {
		_ = os.Remove(link)
		if err := os.Symlink(tt.target, link); err != nil {
			t.Fatal(err)
		}
		if out, told, status := verified(t, hub.executor("Enforce"), "--secret-dir", dir, hub.Host+"/team/app:1.0"); status != tt.status || !strings.Contains(told, tt.told) ||
			tt.told != "" && !strings.Contains(told, "Executor production: verifier builders: key k1: Secret signers cannot be read from "+filepath.Join(dir, "signers")+": ") {
			t.Errorf("%s: exit status %d, want %d\n%s%s", tt.target, status, tt.status, out, told)
		}
	}
}

// The names in the JSON are those that scripts match on.
func TestVerifyAnswersInJSON(t *testing.T) {
	hub := newSigned(t)
	out, told, status := verified(t, hub.executor("Enforce")+"---\n"+hub.secret(), "-o", "json", hub.Host+"/team/app:1.0")
	var answer struct {
		Image     string `json:"image"`
		Succeeded bool   `json:"succeeded"`
		Reports   []struct {
			Executor        string `json:"executor"`
			Succeeded       bool   `json:"succeeded"`
			ArtifactReports []struct {
				Subject  string `json:"subject"`
				Artifact string `json:"artifact"`
				Results  []struct {
					VerifierName string `json:"verifierName"`
					Description  string `json:"description"`
				} `json:"results"`
			} `json:"artifactReports"`
		} `json:"reports"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 {
		t.Fatalf("%v, exit status %d\n%s%s", err, status, out, told)
	}
	report := answer.Reports[0]
	if !answer.Succeeded || !report.Succeeded || report.Executor != "production" || answer.Image != hub.Host+"/team/app@"+hub.digest.String() ||
		report.ArtifactReports[0].Subject != answer.Image || report.ArtifactReports[0].Results[0].VerifierName != "builders" {
		t.Errorf("answered %s", out)
	}
}

// The page's Executor, with its scope moved to a registry of the test, says what the page says.
func TestTheExampleOfTheVerifyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "$ gatehouse verify -f executor.yaml --secret-dir ./secrets registry.example.com/team/app:1.0\n")
	want, rest, _ := strings.Cut(rest, "```\n")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	manifest, _, _ := strings.Cut(rest, "```\n")
	hub := newSigned(t)
	manifest = strings.NewReplacer("registry.example.com", hub.Host, "  verifiers:", "  stores: [{name: registry, registry: {plainHTTP: true}}]\n  verifiers:").Replace(manifest)
	out, told, status := verified(t, manifest+"---\n"+hub.secret(), hub.Host+"/team/app:1.0")
	digests := regexp.MustCompile(`sha256[:-][0-9a-f]{64}`)
	out = digests.ReplaceAllStringFunc(strings.ReplaceAll(out, hub.Host, "registry.example.com"), func(d string) string { return d[:len("sha256:")] + "…" })
	if out != want || status != 0 {
		t.Errorf("exit status %d\n%s\nprinted\n%s\nthe page says\n%s", status, told, out, want)
	}
}
