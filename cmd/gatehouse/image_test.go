package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// runImage runs gatehouse image and returns what it printed and its status.
func runImage(tb testing.TB, in io.Reader, args ...string) (stdout, stderr string, status int) {
	tb.Helper()
	var out, errs bytes.Buffer
	cmd := newRootCommand()
	cmd.SetArgs(append([]string{"image"}, args...))
	cmd.SetIn(in)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err := cmd.ExecuteContext(tb.Context()); err != nil {
		status = exitStatus(err)
	}
	return out.String(), errs.String(), status
}

func TestTheExamplesOfTheDocumentationHold(t *testing.T) {
	page, err := os.ReadFile("../../docs/image-references.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, block := range strings.Split(string(page), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, example := range strings.Split("\n"+block, "\n$ ")[1:] {
			command, want, _ := strings.Cut(example, "\n")
			got := runExample(t, command)
			if strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("$ %s\n got %s\nwant %s", command, got, want)
			}
			examples++
		}
	}
	if examples < 10 {
		t.Errorf("only %d examples were found", examples)
	}
}

// runExample runs one command of the documentation: gatehouse image, with
// printf before it or not.
func runExample(t *testing.T, command string) string {
	t.Helper()
	in := ""
	if text, rest, piped := strings.Cut(command, " | "); piped {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "printf '"), "'")
		in, command = strings.NewReplacer(`\n`, "\n", `\\`, `\`).Replace(text), rest
	}
	args, ok := strings.CutPrefix(command, "gatehouse image ")
	if !ok {
		t.Fatalf("no example of gatehouse image: %s", command)
	}
	out, _, status := runImage(t, strings.NewReader(in), strings.Fields(args)...)
	if wrong := strings.Contains(out, "invalid: ") || strings.Contains(out, `"ok":false`); wrong != (status == 1) {
		t.Errorf("$ %s: exit status %d", command, status)
	}
	return out
}

func TestImageAnswersEveryLine(t *testing.T) {
	long := `"` + strings.Repeat("a", 3*maxImageLine) + `"`
	lines := []struct {
		line  string
		ok    bool
		input string
		text  string // of the reason or the canonical form
	}{
		{`"nginx:1.27"`, true, "nginx:1.27", "docker.io/library/nginx:1.27"},
		{`"gw:1\u0000"`, false, "gw:1\x00", `image tag "\x00": a control character at the end; remove it`},
		{`"\u212aube:1"`, false, "\u212aube:1", `image repository "\u212a"`},
		{`"<&>:1"`, false, "<&>:1", `image repository "<"`},
		{``, false, "", "the line is not a JSON string"},
		{`nginx:1.27`, false, "nginx:1.27", "the line is not a JSON string"},
		{`null`, false, "null", "the line is not a JSON string"},
		{`{"image":"nginx:1"}`, false, `{"image":"nginx:1"}`, "the line is not a JSON string"},
		{`"nginx:1" "nginx:2"`, false, `"nginx:1" "nginx:2"`, "the line is not a JSON string"},
		{`"nginx:1`, false, `"nginx:1`, "the line is not a JSON string"},
		{"\"nginx:1\xff\"", false, "\"nginx:1\ufffd\"", "the line is not valid UTF-8"},
		{long, false, long[:256], "the line is longer than 65536 bytes"},
		{`"last:1"`, true, "last:1", "docker.io/library/last:1"},
	}
	for _, ending := range []string{"\n", "\r\n"} {
		var in strings.Builder
		for i, row := range lines {
			in.WriteString(row.line)
			if i < len(lines)-1 {
				in.WriteString(ending)
			}
		}
		out, errs, status := runImage(t, iotest.OneByteReader(strings.NewReader(in.String())), "--stdin")
		if status != 1 || errs != "" {
			t.Errorf("exit status %d, and on standard error %q", status, errs)
		}
		answers := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(answers) != len(lines) {
			t.Fatalf("%d answers to %d lines: %s", len(answers), len(lines), out)
		}
		for i, row := range lines {
			var answer map[string]any
			if err := json.Unmarshal([]byte(answers[i]), &answer); err != nil {
				t.Fatalf("%s: %v", answers[i], err)
			}
			text := fmt.Sprint(answer["canonical"], answer["reason"])
			if len(answer) != 4 || answer["input"] != row.input || answer["ok"] != row.ok || !strings.HasPrefix(text, row.text) {
				t.Errorf("%.80s: got %.300s", row.line, answers[i])
			}
		}
	}
}

func TestImageAnswersNothingForNoLines(t *testing.T) {
	if out, errs, status := runImage(t, strings.NewReader(""), "--stdin"); out != "" || errs != "" || status != 0 {
		t.Errorf("got %q, %q, %d", out, errs, status)
	}
}

func TestImageFailsWhenItCannotReadOrWrite(t *testing.T) {
	broken := errors.New("broken pipe")
	if _, errs, status := runImage(t, iotest.ErrReader(broken), "--stdin"); status != 1 || !strings.Contains(errs, "read standard input: broken pipe") {
		t.Errorf("got %q, %d", errs, status)
	}
	cmd := newImageCommand()
	cmd.SetArgs([]string{"nginx:1"})
	cmd.SetOut(failingWriter{broken})
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestImageTellsAWrongCommandLineFromAWrongReference(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args   string
		status int
		text   string
	}{
		{"nginx:1", 0, ""},
		{"nginx:1 gw", 1, ""},
		{"", 2, "no reference is given; write one, or --stdin"},
		{"--stdin nginx:1", 2, "references are given both as arguments and with --stdin; choose one"},
		{"-o yaml nginx:1", 2, `--output is "yaml"; write text or json`},
		{"--nonsense nginx:1", 2, "unknown flag: --nonsense"},
		{"--plain-http nginx:1", 2, "--plain-http, --ca-file and --docker-config say how to reach the registry; add --resolve"},
		{"--resolve --plain-http --docker-config x nginx:1", 2, "--plain-http goes neither with --docker-config nor with --ca-file: credentials are sent over TLS alone"},
		{"--resolve --ca-file /does/not/exist nginx:1", 2, "--ca-file /does/not/exist: no such file or directory; name one that is there"},
		{"--resolve --docker-config " + empty + " nginx:1", 2, "--docker-config " + empty + ": docker configuration: auths has no entry; name the registry there"},
	} {
		_, errs, status := runImage(t, strings.NewReader(""), strings.Fields(row.args)...)
		want := ""
		if row.text != "" {
			want = "Error: " + row.text + "\n"
		}
		if status != row.status || errs != want {
			t.Errorf("%s: status %d, %q", row.args, status, errs)
		}
	}
}

func TestImageResolves(t *testing.T) {
	hub := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"))
	digest := hub.PushImage(t, "team/gw", "1.0").String()
	dir := t.TempDir()
	ca, config := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "config.json")
	if err := os.WriteFile(ca, hub.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(`{"auths":{"`+hub.Host+`":{"username":"robot","password":"hunter2"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tagged, gone := hub.Reference("team/gw", "1.0"), hub.Reference("team/gw", "gone")
	flags := []string{"--resolve", "--ca-file", ca, "--docker-config", config}

	out, _, status := runImage(t, nil, append(flags, tagged, hub.Host+"/team/gw@"+digest, gone, "gw")...)
	want := tagged + "@" + digest + "\n" +
		hub.Host + "/team/gw@" + digest + "\n" +
		gone + ": not resolved: registry " + hub.Host + ": repository team/gw: tag gone not found\n" +
		`invalid: image reference "gw": neither a tag nor a digest is stated; add one, for example :1.4.2` + "\n"
	if out != want || status != 1 {
		t.Errorf("status %d\n got %s\nwant %s", status, out, want)
	}

	out, _, status = runImage(t, strings.NewReader(strconv.Quote(tagged)), append(flags, "--stdin")...)
	if want := fmt.Sprintf(`{"input":%q,"ok":true,"canonical":%q,"reason":"","digest":%q}`+"\n", tagged, tagged, digest); out != want || status != 0 {
		t.Errorf("status %d\n got %s\nwant %s", status, out, want)
	}

	out, _, status = runImage(t, nil, "--resolve", "-o", "json", tagged)
	if !strings.Contains(out, `"ok":false`) || !strings.Contains(out, "unknown authority") || status != 1 {
		t.Errorf("status %d, %s", status, out)
	}

	insecure := testregistry.Start(t)
	digest = insecure.PushImage(t, "team/gw", "1.0").String()
	tagged = insecure.Reference("team/gw", "1.0")
	if out, _, status = runImage(t, nil, "--resolve", "--plain-http", tagged); out != tagged+"@"+digest+"\n" || status != 0 {
		t.Errorf("status %d, %s", status, out)
	}
}
