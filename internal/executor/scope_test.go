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
		"user@a.example/app", "a.example/*/*", "a.example:/app", "*.example.com:0",
	} {
		if scope, err := ParseScope(v1alpha1.Scope(text)); err == nil {
			t.Errorf("%q is taken for %v", text, scope)
		} else if !strings.Contains(err.Error(), "scope ") {
			t.Errorf("%q: %v names no scope", text, err)
		}
	}
}

// Equal scopes are equal, however they are spelled.
func TestSpellingsOfAScope(t *testing.T) {
	for _, spellings := range [][]string{
		{"docker.io/library/nginx", "index.docker.io/library/nginx", "DOCKER.io:443/library/nginx"},
		{"a.example/team/*", "A.Example/team/*", "a.example:443/team/*", "a.example:0443/team/*"},
		{"*.example.com", "*.EXAMPLE.com", "*.example.com:443"},
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
