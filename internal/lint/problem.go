package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a manifest, or weak.
type Problem struct {
	// File and Line say where; the first line is 1.
	File string `json:"file"`
	Line int    `json:"line"`
	// Kind and Name are those of the object; empty where the file does not
	// read as objects.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Field is the path in the object, as the API server writes it; empty if
	// the whole is meant.
	Field string `json:"field,omitempty"`
	// Message says what is wrong and what to write.
	Message string `json:"message"`
	// Warning says that it is legal.
	Warning bool `json:"warning,omitempty"`
}

// String is file:line: kind/name: field: message.
func (p Problem) String() string {
	var parts []string
	if p.Kind != "" {
		parts = append(parts, p.Kind+"/"+p.Name)
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	if p.Warning {
		parts = append(parts, "warning")
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, strings.Join(append(parts, p.Message), ": "))
}

// sorted orders problems as they stand in the file, each once.
func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}
