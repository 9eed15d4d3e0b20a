package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link      = regexp.MustCompile(`\[[^\]]+\]\(([^)]*)\)`)
	testNamed = regexp.MustCompile(`^([^#\s]+_test\.go)#((?:Test|Fuzz)\w+)$`)
)

// The README bears load: what it guarantees, a test holds. A link is to a file and, after #, to the function in it.
func TestEveryGuaranteeLinksToATest(t *testing.T) {
	dir := root(t)
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "\n## What Gatehouse guarantees\n")
	if !found {
		t.Fatal(`README.md has no section "What Gatehouse guarantees"`)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	_, bullets, found := strings.Cut(section, "\n- ")
	if !found {
		t.Fatal("the section guarantees nothing")
	}
	files := map[string]map[string]bool{}
	for bullet := range strings.SplitSeq(bullets, "\n- ") {
		links := link.FindAllStringSubmatch(bullet, -1)
		if len(links) == 0 {
			t.Errorf("no test holds this: %s", bullet)
		}
		for _, l := range links {
			named := testNamed.FindStringSubmatch(l[1])
			if named == nil {
				t.Errorf("%s names no test: write path/to/file_test.go#TestName", l[1])
				continue
			}
			if files[named[1]] == nil {
				files[named[1]] = functions(t, filepath.Join(dir, named[1]))
			}
			if !files[named[1]][named[2]] {
				t.Errorf("%s has no %s: name the test that holds the sentence, or take the sentence back", named[1], named[2])
			}
		}
	}
}

// functions are those that a file declares.
func functions(t *testing.T, path string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return found
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
			found[function.Name.Name] = true
		}
	}
	return found
}
