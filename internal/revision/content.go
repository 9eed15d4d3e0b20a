package revision

import (
	"bytes"
	"encoding/json"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// content is what a revision is a hash of, and what its ControllerRevision stores.
type content struct {
	Image   string                      `json:"image"`
	Profile v1alpha1.GatewayProfileSpec `json:"profile"`
}

// canonical writes a JSON document in the one way that all documents of the same meaning share: sorted keys, no white
// space, numbers as they were, and no null in an object, which Kubernetes reads as if it had not been written. It
// works on the document rather than on Go types, so that a newer version of the types hashes old content as before.
func canonical(raw []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(withoutNulls(document)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			if element == nil {
				delete(value, key)
				continue
			}
			value[key] = withoutNulls(element)
		}
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}
