package wake

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestOnlyOtherContentWakes(t *testing.T) {
	secret := func(kind corev1.SecretType, value string) client.Object {
		return &corev1.Secret{Type: kind, Data: map[string][]byte{"a": []byte(value)}}
	}
	config := func(text, binary string) client.Object {
		return &corev1.ConfigMap{Data: map[string]string{"a": text}, BinaryData: map[string][]byte{"b": []byte(binary)}}
	}
	for name, test := range map[string]struct {
		before, now client.Object
		wakes       bool
	}{
		"a Secret with other data":              {secret("Opaque", "1"), secret("Opaque", "2"), true},
		"a Secret of another type":              {secret("Opaque", "1"), secret("other", "1"), true},
		"a Secret with the same":                {secret("Opaque", "1"), secret("Opaque", "1"), false},
		"a ConfigMap with other data":           {config("1", "1"), config("2", "1"), true},
		"a ConfigMap with other binary content": {config("1", "1"), config("1", "2"), true},
		"a ConfigMap with the same":             {config("1", "1"), config("1", "1"), false},
	} {
		test.now.SetLabels(map[string]string{"touched": "true"})
		if got := DataChanged.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.now}); got != test.wakes {
			t.Errorf("%s: wakes %t", name, got)
		}
	}
}
