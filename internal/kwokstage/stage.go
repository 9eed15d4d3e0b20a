package kwokstage

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersionKind of the objects that Stages makes.
var GroupVersionKind = schema.GroupVersionKind{Group: "kwok.x-k8s.io", Version: "v1alpha1", Kind: "Stage"}

// digestLabel finds the stages of a digest again. A label's value holds 63
// bytes, so it carries the digest's first characters only.
const digestLabel = "devcluster.gatehouse.dev/digest"

// A digest goes into a jq program, and a program that does not parse stops
// kwok. Nothing but a digest gets through this.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Stages returns the Stage objects under which pods with a container whose
// image names the digest behave so.
func Stages(digest string, b Behaviour) ([]*unstructured.Unstructured, error) {
	if !digestPattern.MatchString(digest) {
		return nil, fmt.Errorf("digest %q: want sha256: and 64 hexadecimal digits", digest)
	}
	const (
		scheduled = `.status.phase == "Pending"`
		ready     = `.status.phase == "Running" and any(.status.conditions[]?; .type == "Ready" and .status == "True")`
		unready   = `.status.phase == "Running" and any(.status.conditions[]?; .type == "Ready" and .status == "False")`
	)
	switch b.name {
	case NeverReady.name:
		// A pod that is ready already becomes unready.
		return []*unstructured.Unstructured{
			stage(digest, b, "never", scheduled+" or ("+ready+")", 0, runningTemplate(b, false)),
		}, nil
	case CrashLoop.name:
		return []*unstructured.Unstructured{
			stage(digest, b, "crash", `.status.phase == "Pending" or .status.phase == "Running"`, b.delay, crashTemplate(b)),
		}, nil
	case Flap.name:
		return []*unstructured.Unstructured{
			stage(digest, b, "start", scheduled, 0, runningTemplate(b, true)),
			stage(digest, b, "down", ready, b.delay, runningTemplate(b, false)),
			stage(digest, b, "up", unready, b.delay, runningTemplate(b, true)),
		}, nil
	case ReadyAfter(0).name:
		return []*unstructured.Unstructured{
			stage(digest, b, "late", scheduled, b.delay, runningTemplate(b, true)),
		}, nil
	default:
		return nil, fmt.Errorf("behaviour %q is not one of this package's", b.name)
	}
}

// stage is one transition: a pod of the digest for which the jq expression
// when is true gets the status of the template after the delay.
func stage(digest string, b Behaviour, step, when string, delay time.Duration, template string) *unstructured.Unstructured {
	expression := func(key, operator string, values ...any) any {
		jq := map[string]any{"key": key, "operator": operator}
		if len(values) > 0 {
			jq["values"] = values
		}
		return map[string]any{"jq": jq}
	}
	spec := map[string]any{
		"resourceRef": map[string]any{"apiGroup": "v1", "kind": "Pod"},
		// kwok's own stages weigh nothing and lose to any weight.
		"weight": int64(1),
		"selector": map[string]any{"matchExpressions": []any{
			expression(`.metadata.deletionTimestamp`, "DoesNotExist"),
			expression(`.spec.containers[].image | split("@")[1]`, "In", digest),
			expression(when, "In", "true"),
		}},
		"steps": []any{map[string]any{
			"patch": map[string]any{"subresource": "status", "root": "status", "type": "merge", "template": template},
		}},
	}
	if delay > 0 {
		spec["delay"] = map[string]any{"durationMilliseconds": delay.Milliseconds()}
	}
	s := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	s.SetGroupVersionKind(GroupVersionKind)
	s.SetName(fmt.Sprintf("%s-%s-%s", strings.ToLower(b.name), strings.TrimPrefix(digest, "sha256:")[:16], step))
	s.SetLabels(map[string]string{digestLabel: labelValue(digest)})
	return s
}

func labelValue(digest string) string {
	return strings.TrimPrefix(digest, "sha256:")[:63]
}
