package soak

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// releaseEdits are those of whoever runs the platform.
var releaseEdits = []edit{
	{"release image", 16, onRelease(func(w *world, t *testing.T, r *release, by *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"image":%q}}`, r.image(tagOf(by.IntN(tags))))
	})},
	{"release bad image", 3, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"image":%q}}`, r.image(bad))
	})},
	{"release malformed image", 2, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"image":"UPPER/case"}}`)
	})},
	{"release missing image", 2, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"image":%q}}`, r.image("nowhere"))
	})},
	{"release rolling image", 4, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"image":%q}}`, r.image(rolling))
	})},
	{"tag moved", 6, onRelease(func(_ *world, t *testing.T, r *release, by *rand.Rand) error {
		r.digests[rolling] = r.digests[tagOf(by.IntN(tags))]
		r.registry.MoveTag(t, r.repository, rolling, r.digests[rolling])
		return nil
	})},
	{"release rollout", 8, onRelease(func(w *world, t *testing.T, r *release, by *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"rollout":{"maxUnavailable":"%d%%","minReadySeconds":%d,"progressDeadline":"%ds","maxFailures":%d}}}`,
			5+by.IntN(90), by.IntN(3), 5+by.IntN(30), by.IntN(6))
	})},
	{"release paused", 4, onRelease(func(w *world, t *testing.T, r *release, by *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"rollout":{"paused":%v}}}`, by.IntN(3) == 0)
	})},
	{"release history", 3, onRelease(func(w *world, t *testing.T, r *release, by *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"revisionHistoryLimit":%d}}`, by.IntN(4))
	})},
	{"release profile", 3, onRelease(func(w *world, t *testing.T, r *release, by *rand.Rand) error {
		return w.merge(t, r.stored(), `{"spec":{"profileRef":{"name":%q}}}`, profileName(by.IntN(profiles)))
	})},
	{"release touched", 3, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		return w.merge(t, r.stored(), `{"metadata":{"annotations":{%q:"%d"}}}`, v1alpha1.AnnotationReconcileRequestedAt, w.next())
	})},
	{"release status lost", 1, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		return w.wipe(t, r.stored())
	})},
	{"release deleted", 2, onRelease(func(w *world, t *testing.T, r *release, _ *rand.Rand) error {
		r.gone = true
		return w.product.Client.Delete(t.Context(), r.stored())
	})},
	{"revision deleted", 2, onRelease(func(w *world, t *testing.T, r *release, by *rand.Rand) error {
		list := &appsv1.ControllerRevisionList{}
		if err := w.product.Client.List(t.Context(), list, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: r.name}); err != nil || len(list.Items) == 0 {
			return err
		}
		return w.product.Client.Delete(t.Context(), &list.Items[by.IntN(len(list.Items))])
	})},
}

// onRelease is an edit of some release. One that was deleted is made again instead.
func onRelease(do func(*world, *testing.T, *release, *rand.Rand) error) func(*world, *testing.T, *rand.Rand) error {
	return func(w *world, t *testing.T, by *rand.Rand) error {
		r := pick(by, w.releases)
		if r.gone {
			r.gone = false
			return w.product.Client.Create(t.Context(), r.object(by.IntN(profiles), tagOf(by.IntN(tags))))
		}
		return do(w, t, r, by)
	}
}

func (r *release) stored() *v1alpha1.GatewayRelease {
	return &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
}

// wipe takes away all that is recorded, as a restore from a backup does.
func (w *world) wipe(t *testing.T, object client.Object) error {
	t.Helper()
	patch := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/status","value":{}}]`))
	return w.product.Client.Status().Patch(t.Context(), object, patch)
}

// profileEdits are of how gateways are run.
var profileEdits = []edit{
	{"profile", 4, func(w *world, t *testing.T, by *rand.Rand) error {
		return w.replaceProfile(t, by.IntN(profiles), w.next())
	}},
	{"profile malformed", 1, func(w *world, t *testing.T, by *rand.Rand) error {
		return w.merge(t, storedProfile(by.IntN(profiles)), `{"spec":{"template":{"spec":{"nodeSelectr":{}}}}}`)
	}},
	{"profile deleted", 1, func(w *world, t *testing.T, by *rand.Rand) error {
		return w.product.Client.Delete(t.Context(), storedProfile(by.IntN(profiles)))
	}},
}

func storedProfile(n int) *v1alpha1.GatewayProfile {
	return &v1alpha1.GatewayProfile{ObjectMeta: metav1.ObjectMeta{Name: profileName(n)}}
}

// replaceProfile writes a version of a profile, whether it is there or not.
func (w *world) replaceProfile(t *testing.T, n, version int) error {
	t.Helper()
	wanted, found := profile(n, version), storedProfile(n)
	if err := w.product.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return w.product.Client.Create(t.Context(), wanted)
		}
		return err
	}
	found.Spec = wanted.Spec
	return w.product.Client.Update(t.Context(), found)
}

// surroundingEdits are of what releases and gateways refer to.
var surroundingEdits = []edit{
	{"credentials", 4, func(w *world, t *testing.T, by *rand.Rand) error {
		switch by.IntN(4) {
		case 0:
			return w.product.Client.Delete(t.Context(), credentials(w.private().registry, ""))
		case 1:
			return w.setCredentials(t, "wrong")
		default:
			return w.setCredentials(t, password)
		}
	}},
	{"authority", 2, func(w *world, t *testing.T, by *rand.Rand) error {
		if by.IntN(2) == 0 {
			return w.product.Client.Delete(t.Context(), w.authority())
		}
		return w.product.Client.Create(t.Context(), w.authority())
	}},
	{"namespace labels", 3, func(w *world, t *testing.T, by *rand.Rand) error {
		value := `"allowed"`
		if by.IntN(3) == 0 {
			value = `null`
		}
		return w.merge(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pick(by, w.namespaces)}}, `{"metadata":{"labels":{"gateways":%s}}}`, value)
	}},
}

func (w *world) private() *release {
	for _, r := range w.releases {
		if r.private {
			return r
		}
	}
	panic("no release has a private registry")
}

func (w *world) authority() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: authority},
		Data:       map[string]string{"ca.crt": string(w.private().registry.CA)},
	}
}

// setCredentials writes the Secret, whether it is there or not.
func (w *world) setCredentials(t *testing.T, password string) error {
	t.Helper()
	wanted := credentials(w.private().registry, password)
	err := w.product.Client.Update(t.Context(), wanted)
	if client.IgnoreNotFound(err) == nil && err != nil {
		err = w.product.Client.Create(t.Context(), wanted)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", pullSecret, err)
	}
	return nil
}
