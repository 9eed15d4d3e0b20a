package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	kjson "k8s.io/apimachinery/pkg/util/json"
	kyaml "sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Document is one YAML document of a file, that is an object.
type Document struct {
	// Object is what it says, as JSON would.
	Object map[string]any

	root   *yaml.Node
	offset int // lines before it in the file
}

// ReadDocuments reads the YAML documents of a file; empty ones are left out, and for a
// list there is what it lists. A fault is returned with its line.
func ReadDocuments(data []byte) (found []Document, faults []Problem) {
	if len(data) > MaxFile {
		return nil, []Problem{{Line: 1, Message: fmt.Sprintf("is larger than %d MiB; split it", MaxFile>>20)}}
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, []Problem{{Line: 1, Message: "is no text in UTF-8; name a file of YAML or JSON, and save it as UTF-8"}}
	}
	for _, part := range split(data) {
		if part.lost {
			faults = append(faults, Problem{Line: part.offset, Message: "what stands on the line of --- is not read when it is applied; begin on the next line"})
			continue
		}
		decoder := yaml.NewDecoder(bytes.NewReader(part.text))
		root := &yaml.Node{}
		if err := decoder.Decode(root); errors.Is(err, io.EOF) {
			continue
		} else if err != nil {
			faults = append(faults, yamlFault(err, part.offset))
			continue
		}
		d := Document{root: root.Content[0], offset: part.offset}
		if fault, alone := d.alone(decoder); !alone {
			faults = append(faults, fault)
			continue
		}
		if repeated := duplicates(d.root, part.offset); len(repeated) > 0 {
			faults = append(faults, repeated...)
			continue
		}
		// The reader of Kubernetes has the last word on what the text means.
		if err := unmarshal(part.text, &d.Object); err != nil {
			faults = append(faults, yamlFault(err, part.offset))
			continue
		}
		if d.Object != nil {
			listed, wrong := d.members(maxLists)
			found, faults = append(found, listed...), append(faults, wrong...)
		}
	}
	return found, faults
}

// alone tells of what does not make one manifest: no object, or more than the reader of
// Kubernetes reads.
func (d Document) alone(rest *yaml.Decoder) (Problem, bool) {
	node := d.root
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode && node.Tag != "!!null" {
		return Problem{Line: d.Line(""), Message: "is no manifest; write an object with apiVersion and kind"}, false
	}
	another := &yaml.Node{}
	switch err := rest.Decode(another); {
	case errors.Is(err, io.EOF):
		return Problem{}, true
	case err != nil:
		return yamlFault(err, d.offset), false
	default:
		return Problem{Line: d.offset + another.Content[0].Line, Message: "a second document that is not read when it is applied; put a line of --- alone before it"}, false
	}
}

// maxLists bounds how deep lists are listed in lists.
const maxLists = 4

// members are the objects of a list, as kubectl prints several; of what is no list it is
// the document itself.
func (d Document) members(depth int) (found []Document, faults []Problem) {
	kind, _ := d.Object["kind"].(string)
	apiVersion, _ := d.Object["apiVersion"].(string)
	// Of other groups a kind may be called so and hold something else.
	ours := kind == "List" || strings.HasPrefix(apiVersion, v1alpha1.GroupVersion.Group+"/")
	value, given := d.Object["items"]
	items, is := value.([]any)
	fault := func(field, format string, args ...any) {
		faults = append(faults, Problem{Line: d.Line(field), Kind: kind, Name: nameOf(d.Object), Field: field, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case !strings.HasSuffix(kind, "List"), !is && !ours:
		return []Document{d}, nil
	case depth == 0:
		fault("", "lists in lists are read %d deep; write what they list one after the other", maxLists)
		return nil, faults
	case given && value != nil && !is:
		fault("items", "is no list of manifests; write each after a dash")
	}
	root := d.root
	for root.Kind == yaml.AliasNode {
		root = root.Alias
	}
	node, _ := child(root, "items")
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok || node == nil || i >= len(node.Content) {
			fault(fmt.Sprintf("items[%d]", i), "is no manifest; write an object with apiVersion and kind")
			continue
		}
		listed, wrong := Document{Object: object, root: node.Content[i], offset: d.offset}.members(depth - 1)
		found, faults = append(found, listed...), append(faults, wrong...)
	}
	return found, faults
}

// unmarshal reads a document as the API server does, whole numbers as such.
func unmarshal(text []byte, into *map[string]any) error {
	raw, err := kyaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	return kjson.Unmarshal(raw, into)
}

type part struct {
	text   []byte
	offset int
	lost   bool // its marker has more on its line than a comment
}

// split cuts a file at its document markers.
func split(data []byte) []part {
	var parts []part
	current := part{}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if beside, marked := bytes.CutPrefix(text, []byte("---")); marked && (len(beside) == 0 || bytes.IndexByte([]byte(" \t\r\n"), beside[0]) >= 0) {
			parts = append(parts, current)
			beside = bytes.TrimSpace(beside)
			current = part{offset: line, lost: len(beside) > 0 && beside[0] != '#'}
			continue
		}
		current.text = append(current.text, text...)
	}
	return append(parts, current)
}

var statedLine = regexp.MustCompile(`line (\d+): `)

// yamlFault turns an error of a YAML reader into a problem: its line belongs to
// the file, not to the document.
func yamlFault(err error, offset int) Problem {
	text := err.Error()
	at := offset + 1
	if stated := statedLine.FindStringSubmatch(text); stated != nil {
		if n, err := strconv.Atoi(stated[1]); err == nil {
			at = offset + n
			text = strings.Replace(text, stated[0], "", 1)
		}
	}
	for _, prefix := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "yaml: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return Problem{Line: at, Message: "does not read as YAML: " + strings.Join(strings.Fields(text), " ") + "; look for indentation, brackets and quotation marks there and before"}
}

// duplicates finds keys that are written twice: which of the two counts would
// depend on the reader.
func duplicates(node *yaml.Node, offset int) (faults []Problem) {
	if node.Kind == yaml.MappingNode {
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if line, ok := first[key.Value]; ok {
				faults = append(faults, Problem{
					Line:    offset + key.Line,
					Message: fmt.Sprintf("the key %q is written twice, first at line %d; keep one", key.Value, offset+line),
				})
			}
			first[key.Value] = key.Line
		}
	}
	if node.Kind != yaml.AliasNode { // what it stands for is looked at where it is written
		for _, child := range node.Content {
			faults = append(faults, duplicates(child, offset)...)
		}
	}
	return faults
}

// Line finds where a field is written; of one that is not, where the innermost
// part of its path is that is written.
func (d Document) Line(field string) int {
	node, line := d.root, d.root.Line
	for _, step := range steps(field) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return d.offset + line
}

// child is the value under a key or an index, and the line at which it begins.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// steps cuts the path of a field, as spec.groups[0].of or data[a.b], into keys
// and indexes.
func steps(field string) []string {
	var found []string
	for field != "" {
		switch field[0] {
		case '.':
			field = field[1:]
		case '[':
			key, rest, _ := strings.Cut(field[1:], "]")
			found = append(found, strings.Trim(key, `"`))
			field = rest
		default:
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			found = append(found, field[:end])
			field = field[end:]
		}
	}
	return found
}
