package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	okProfile = "apiVersion: gatehouse.dev/v1alpha1\nkind: GatewayProfile\nmetadata: {name: p}\nspec: {template: {spec: {containers: [{name: gateway}]}}}\n"
	anImage   = "registry.example.com/a@sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// files writes files, and makes a folder of what ends in a slash.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Whatever is given where a file of manifests is wanted, each command says what is wrong with it by name, and what to do.
func TestFilesThatAreNoManifests(t *testing.T) {
	dir := files(t, map[string]string{
		"empty/": "", "other/notes.txt": "hello", "sub/below/empty.yaml": "# nothing\n",
		"empty.yaml": "", "text.yaml": "hello world\n", "bad.yaml": "a: [\n", "binary.yaml": "\x7fELF\x02\x01\x00\xff",
		"huge.yaml": strings.Repeat("# x\n", 3<<20), "unknown.yaml": "apiVersion: gatehouse.dev/v1alpha1\nkind: Gateway\nmetadata: {name: x}\n",
		"noversion.yaml": "kind: Executor\nmetadata: {name: x}\n", "secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n",
		"list.yaml": "apiVersion: v1\nkind: List\nitems: []\n",
	})
	for name, target := range map[string]string{"dangling.yaml": "nowhere", "links/x.yaml": "../nowhere", "loop.yaml": "loop.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "pipes"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipes", "p.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	const (
		none     = "no file in it or below ends in .yaml, .yml or .json; name a folder with manifests, or a file"
		noRatify = "is an Executor or a NamespacedExecutor of Ratify's v2alpha1; name files that hold some"
		noOurs   = "is an Executor or a NamespacedExecutor of gatehouse.dev; name the file of one with -f"
		noObject = "text.yaml:1: is no manifest; write an object with apiVersion and kind"
		noYAML   = "bad.yaml:1: does not read as YAML: did not find expected node content; look for indentation, brackets and quotation marks there and before"
		noText   = "binary.yaml:1: is no text in UTF-8; name a file of YAML or JSON, and save it as UTF-8"
		noKind   = `unknown.yaml:2: Gateway/x: kind: gatehouse.dev/v1alpha1 has no kind "Gateway"; write one of `
		noAPI    = `noversion.yaml:1: Executor/x: apiVersion: "" is no version of an API; write gatehouse.dev/v1alpha1`
	)
	type told struct {
		status int
		text   string
	}
	usage := func(text string) told { return told{statusUsage, text} }
	tests := []struct {
		file                 string
		lint, ratify, verify told
	}{
		{"", usage("the name of a file is empty; write one, or - for standard input"), usage("the name of a file is empty"), usage("no Executor is given; name its file with -f")},
		{"gone.yaml", usage("gone.yaml: no such file or directory; name one that is there"), usage("name one that is there"), usage("name one that is there")},
		{"text.yaml/x", usage("text.yaml/x: not a directory; name one that is there"), usage("name one that is there"), usage("name one that is there")},
		{"dangling.yaml", usage("dangling.yaml: no such file or directory; name one that is there"), usage("name one that is there"), usage("name one that is there")},
		{"loop.yaml", usage("loop.yaml: too many levels of symbolic links; name one that can be read"), usage("name one that can be read"), usage("name one that can be read")},
		{"links", usage("links/x.yaml: no such file or directory; name one that is there"), usage("links/x.yaml: no such file"), usage("links/x.yaml: no such file")},
		{"pipes", usage("pipes/p.yaml is no regular file; name it to have it read, or remove it"), usage("pipes/p.yaml is no regular file"), usage("pipes/p.yaml is no regular file")},
		{"huge.yaml", usage("huge.yaml: it is larger than 8 MiB; split it"), usage("split it"), usage("split it")},
		{"empty", usage("empty: " + none), usage("empty: " + none), usage("empty: " + none)},
		{"other", usage("other: " + none), usage("other: " + none), usage("other: " + none)},
		{"sub", usage("no manifest is in sub; name files or folders that hold some"), usage("no manifest in sub " + noRatify), usage("no manifest in sub " + noOurs)},
		{"empty.yaml", usage("no manifest is in empty.yaml; name files or folders that hold some"), usage("no manifest in empty.yaml " + noRatify), usage("no manifest in empty.yaml " + noOurs)},
		{"list.yaml", usage("no manifest is in list.yaml"), usage("no manifest in list.yaml"), usage("no manifest in list.yaml")},
		{"text.yaml", told{statusNegative, noObject}, told{statusNegative, noObject}, usage(noObject)},
		{"bad.yaml", told{statusNegative, noYAML}, told{statusNegative, noYAML}, usage(noYAML)},
		{"binary.yaml", told{statusNegative, noText}, told{statusNegative, noText}, usage(noText)},
		{"unknown.yaml", told{statusNegative, noKind}, usage("no manifest in unknown.yaml " + noRatify), usage(noKind)},
		{"noversion.yaml", told{statusNegative, noAPI}, usage("no manifest in noversion.yaml " + noRatify), usage(noAPI)},
		{"secret.yaml", told{0, ""}, usage("no manifest in secret.yaml " + noRatify), usage("no manifest in secret.yaml " + noOurs)},
	}
	for _, tt := range tests {
		for _, command := range []struct {
			args []string
			want told
		}{
			{[]string{"lint", tt.file}, tt.lint},
			{[]string{"import", "ratify", tt.file}, tt.ratify},
			{[]string{"verify", anImage, "-f", tt.file}, tt.verify},
		} {
			t.Run(command.args[0]+" "+tt.file, func(t *testing.T) {
				out, status := run(t, "", command.args...)
				if status != command.want.status || !strings.Contains(out, command.want.text) || command.want.text == "" && out != "" {
					t.Errorf("exit status %d, want %d; printed\n%s\nwant %s", status, command.want.status, out, command.want.text)
				}
			})
		}
	}
}

// What the system says of a path is told with the path, once, and with what to do.
func TestPathsThatCannotBeRead(t *testing.T) {
	for cause, want := range map[error]string{
		fs.ErrNotExist:    "a/b: file does not exist; name one that is there",
		syscall.ENOTDIR:   "a/b: not a directory; name one that is there",
		fs.ErrPermission:  "a/b: permission denied; let it be read by who runs this",
		syscall.EACCES:    "a/b: permission denied; let it be read by who runs this",
		syscall.EISDIR:    "a/b: is a directory; name a file",
		syscall.EIO:       "a/b: input/output error; name one that can be read",
		tooLarge("large"): "a/b: large",
	} {
		for _, err := range []error{cause, &fs.PathError{Op: "open", Path: "a/b", Err: cause}} {
			if told := unreadable("a/b", err); told.Error() != want || exitStatus(told) != statusUsage {
				t.Errorf("%v: told %q, want %q", err, told, want)
			}
		}
	}
}

// Flags that name files and folders say so when something else is there.
func TestFlagsThatNameNoFile(t *testing.T) {
	dir := files(t, map[string]string{
		"empty/": "", "empty.yaml": "", "text.yaml": "hello\n", "huge.yaml": strings.Repeat("x", 2<<20), "binary.yaml": "\x7fELF\xff",
		"executor.yaml": "apiVersion: gatehouse.dev/v1alpha1\nkind: Executor\nmetadata: {name: a}\nspec: {scopes: [\"*\"], verifiers: [{name: v, cosign: {transparencyLog: Ignored, keys: [{name: k, secretRef: {name: s, key: k}}]}}]}\n",
		"folder/s/k/":   "", "file/s": "x",
	})
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "gone"))
	image := func(flag, file string) []string { return []string{"image", "--resolve", flag, file, "a/b:1"} }
	verify := func(args ...string) []string {
		return append([]string{"verify", anImage, "-f", "executor.yaml"}, args...)
	}
	tests := []struct {
		args []string
		want string
	}{
		{image("--ca-file", "gone"), "--ca-file gone: no such file or directory; name one that is there"},
		{image("--ca-file", "empty"), "--ca-file empty: is a directory; name a file"},
		{image("--ca-file", "empty.yaml"), "--ca-file empty.yaml: it holds no certificate; give PEM blocks of type CERTIFICATE"},
		{image("--ca-file", "text.yaml"), "it holds no certificate; give PEM blocks of type CERTIFICATE"},
		{image("--ca-file", "huge.yaml"), "--ca-file huge.yaml: it is larger than 1 MiB; keep to what is needed"},
		{image("--docker-config", "gone"), "--docker-config gone: no such file or directory; name one that is there"},
		{image("--docker-config", "empty"), "--docker-config empty: is a directory; name a file"},
		{image("--docker-config", "empty.yaml"), "--docker-config empty.yaml: docker configuration: not the JSON of a docker configuration; write "},
		{image("--docker-config", "huge.yaml"), "--docker-config huge.yaml: it is larger than 1 MiB; keep to what is needed"},
		{verify("--secret-dir", "gone"), "--secret-dir gone: no such file or directory; name the folder that holds Secrets and ConfigMaps as files NAME/KEY"},
		{verify("--secret-dir", "text.yaml"), "--secret-dir text.yaml: not a directory; name the folder that holds Secrets and ConfigMaps as files NAME/KEY"},
		{verify("--secret-dir", "empty"), "Secret s not found; add its manifest to the files, or its keys to --secret-dir as files s/KEY"},
		{verify("--secret-dir", "file"), "Secret s cannot be read from file/s: it is no folder; make it one, with a file for each key"},
		{verify("--secret-dir", "folder"), "Secret s cannot be read from folder/s: k is no regular file; write the content into one"},
		{verify("--oci-layout-root", "gone"), "--oci-layout-root gone: no such file or directory; name one that is there"},
		{verify("--oci-layout-root", "text.yaml"), "--oci-layout-root text.yaml: not a directory; name the folder that OCI layouts are under"},
		{[]string{"status", "--kubeconfig", "gone"}, "no cluster to ask; name its kubeconfig with --kubeconfig or KUBECONFIG: stat gone: no such file or directory"},
		{[]string{"status", "--kubeconfig", "empty"}, "no cluster to ask; name its kubeconfig with --kubeconfig or KUBECONFIG: "},
		{[]string{"status", "--kubeconfig", "binary.yaml"}, "no cluster to ask; name its kubeconfig with --kubeconfig or KUBECONFIG: "},
		{[]string{"status", "--kubeconfig", "empty.yaml"}, "no cluster to ask: no kubeconfig names one; name one that does with --kubeconfig or KUBECONFIG"},
		{[]string{"status"}, "no cluster to ask: no kubeconfig names one; name one that does with --kubeconfig or KUBECONFIG"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			if out, status := run(t, "", tt.args...); status != statusUsage || !strings.Contains(out, tt.want) {
				t.Errorf("exit status %d, printed\n%s\nwant %s", status, out, tt.want)
			}
		})
	}
}

// Files are read as what is applied together, each once, whatever leads to them.
func TestManifestsOfSeveralFiles(t *testing.T) {
	dir := files(t, map[string]string{"one/a.yaml": okProfile, "one/notes.txt": "", "two/b.yaml": okProfile, "mounted/..2026/a.yaml": okProfile})
	for name, target := range map[string]string{"mounted/..data": "..2026", "mounted/a.yaml": "..data/a.yaml", "link": "one"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	const twice = "two/b.yaml:3: GatewayProfile/p: metadata.name: is written twice, first at one/a.yaml:3, and a cluster keeps what is applied last; keep the one that is meant\n"
	tests := []struct {
		name   string
		args   []string
		stdin  string
		status int
		want   string
	}{
		{"one name in two files", []string{"one", "two/b.yaml"}, "", statusNegative, twice},
		{"one name in a folder and in what is piped in", []string{"one", "-"}, okProfile, statusNegative, "<stdin>:3: GatewayProfile/p: metadata.name: is written twice, first at one/a.yaml:3"},
		{"a file that is given twice", []string{"one/a.yaml", "one", "./one/a.yaml"}, "", 0, ""},
		{"a link to a folder", []string{"link"}, "", 0, ""},
		{"a ConfigMap that is mounted", []string{"mounted"}, "", 0, ""},
		{"a folder without manifests beside one with them", []string{"one", t.TempDir()}, "", statusUsage, "name a folder with manifests, or a file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if out, status := run(t, tt.stdin, append([]string{"lint"}, tt.args...)...); status != tt.status || !strings.Contains(out, tt.want) || tt.want == "" && out != "" {
				t.Errorf("exit status %d, want %d; printed\n%s\nwant %s", status, tt.status, out, tt.want)
			}
		})
	}
}
