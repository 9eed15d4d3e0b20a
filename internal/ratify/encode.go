package ratify

import (
	"bytes"
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// Encode writes the objects of a result as YAML documents, without what only a
// server writes.
func (r Result) Encode() ([]byte, error) {
	var objects []any
	for _, secret := range r.Secrets {
		objects = append(objects, secret)
	}
	if r.Executor != nil {
		objects = append(objects, r.Executor)
	}
	var out bytes.Buffer
	for _, object := range objects {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, err
		}
		delete(fields, "status")
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}
