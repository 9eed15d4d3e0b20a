package executor

import (
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

func reference(t testing.TB, text string) image.Reference {
	t.Helper()
	ref, err := image.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestScopesCoverRepositories(t *testing.T) {
	tests := []struct {
		scope string
		in    string
		out   string
	}{
		{"*", "a.example/b c.example:5000/d/e nginx", ""},
		{"*.example.com", "a.example.com/b A.Example.com/b a.b.example.com/c", "example.com/b aexample.com/b a.example.com:5000/b a.example.com.evil.org/b"},
		{"*.example.com:5000", "a.example.com:5000/b", "a.example.com/b"},
		{"a.example.com/*", "a.example.com/b a.example.com:443/b A.EXAMPLE.com/b/c", "b.example.com/b a.example.com:5000/b xa.example.com/b"},
		{"a.example.com/team/*", "a.example.com/team/app a.example.com/team/a/b", "a.example.com/team a.example.com/team-a/app a.example.com/teams a.example.com/x/team/app"},
		{"a.example.com/team/app", "a.example.com/team/app", "a.example.com/team/app/b a.example.com/team/ap a.example.com/team"},
		{"docker.io/library/*", "nginx index.docker.io/library/nginx registry-1.docker.io/library/nginx", "docker.io/bitnami/nginx"},
		{"index.docker.io/library/nginx", "nginx docker.io/library/nginx", "docker.io/library/nginxx"},
		{"localhost/*", "localhost/a", "localhost:5000/a"},
		{"[fd00:0:0::1]:5000/*", "[fd00::1]:5000/a", "[fd00::1]/a"},
		{"127.0.0.1/*", "127.0.0.1/a 127.1/a 0x7f.1/a 0177.0.0.1/a 127.0.1:443/a [::ffff:7f00:1]/a", "127.0.0.2/a 127.1.1/a 127.1:5000/a"},
		{"1.2.3.4:5000/*", "16909060:5000/a 0x01020304:5000/a 1.131844:5000/a", "1.2.3.4/a"},
	}
	for _, test := range tests {
		t.Run(test.scope, func(t *testing.T) {
			scope, err := ParseScope(v1alpha1.Scope(test.scope))
			if err != nil {
				t.Fatal(err)
			}
			for _, repository := range strings.Fields(test.in) {
				if !scope.Covers(reference(t, repository+":1")) {
					t.Errorf("does not cover %s", repository)
				}
			}
			for _, repository := range strings.Fields(test.out) {
				if scope.Covers(reference(t, repository+":1")) {
					t.Errorf("covers %s", repository)
				}
			}
		})
	}
}

func TestMalformedScopesAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "**", "*.", "*..com", "a.example", "a.example/", "/a", "app", "library/nginx", "a.example/*/b", "a.example/b*", "a.example/b/**",
		"*.example.com/a", "*.example.com/*", "a.example/App", "a.example/app:1", "a.example/app@sha256:" + strings.Repeat("a", 64),
		"https://a.example/app", "a.example:0/app", "a.example:99999/app", "a.example//app", " a.example/app", "a.example/app ", "a*.example/app", "*a.example",
		"user@a.example/app", "a.example/*/*", "a.example:/app", "*.example.com:0", "*.example.com:65536", "a.example:65536/*", "[fd00::1]:0/a",
		"127.1/*", "0x7f.1/app", "0X7F000001:5000/app", "0177.0.0.1/*", "2130706433:80/app", "1.2.3.4.5/app", "256.1.1.1/app", "example.5/app",
		"[::ffff:7f00:1]/app", "[::ffff:127.0.0.1]/app", "[fd00::1::2]/app", "*.10.0.0.1", "*.0.0.1", "*.5", "*.0x7f",
		"a.example./app", "127.0.0.1./app", "*.example.com.",
	} {
		if scope, err := ParseScope(v1alpha1.Scope(text)); err == nil {
			t.Errorf("%q is taken for %v", text, scope)
		} else if !strings.Contains(err.Error(), "scope ") {
			t.Errorf("%q: %v names no scope", text, err)
		}
	}
}

// Who writes something that nobody can mean is told what to write.
func TestAScopeIsRefusedWithItsRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"a.example:0/app":       "its port is not between 1 and 65535; write the port of the registry, or leave it out",
		"*.example.com:70000":   "its port is not between 1 and 65535; write the port of the registry, or leave it out",
		"127.1:5000/app":        "programs disagree where it leads; write the address as 127.0.0.1:5000",
		"0177.0.0.1/*":          "programs disagree where it leads; write the address as 127.0.0.1",
		"[::ffff:a00:1]/*":      "programs disagree where it leads; write the address as 10.0.0.1",
		"registry.example.5/*":  "programs disagree where it leads; write the address as four decimal numbers",
		"*.10.0.0.1":            "a domain does not end in a number; write each address as a registry, as 10.0.0.5/*",
		"registry.example./app": "write a repository as registry.example.com/team/app",
	} {
		if _, err := ParseScope(v1alpha1.Scope(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Equal scopes are equal, however they are spelled.
func TestSpellingsOfAScope(t *testing.T) {
	for _, spellings := range [][]string{
		{"docker.io/library/nginx", "index.docker.io/library/nginx", "DOCKER.io:443/library/nginx"},
		{"a.example/team/*", "A.Example/team/*", "a.example:443/team/*", "a.example:0443/team/*"},
		{"*.example.com", "*.EXAMPLE.com", "*.example.com:443"},
		{"*.in_house", "*.In_House"},
		{"in_house.example/app", "In_House.Example/app"},
	} {
		first, err := ParseScope(v1alpha1.Scope(spellings[0]))
		if err != nil {
			t.Fatal(err)
		}
		if first.String() != spellings[0] {
			t.Errorf("%s is written %s", spellings[0], first)
		}
		for _, spelling := range spellings[1:] {
			if scope, err := ParseScope(v1alpha1.Scope(spelling)); err != nil || scope != first {
				t.Errorf("%s is %v, want %v (%v)", spelling, scope, first, err)
			}
		}
	}
}
