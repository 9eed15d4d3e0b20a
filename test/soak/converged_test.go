package soak

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// converged says what is not as the specs say. It reads the specs as they are stored now, and knows of the registries
// what they hold.
func (w *world) converged(ctx context.Context) error {
	s, err := w.specs(ctx)
	if err != nil {
		return err
	}
	for _, r := range w.releases {
		if err := s.release(r); err != nil {
			return fmt.Errorf("release %s: %w", r.name, err)
		}
	}
	if len(s.gateways) != len(w.gateways) {
		return fmt.Errorf("there are %d gateways, people have made %d", len(s.gateways), len(w.gateways))
	}
	for i := range s.gateways {
		g := &s.gateways[i]
		if err := s.gateway(g); err != nil {
			return fmt.Errorf("gateway %s/%s: %w", g.Namespace, g.Name, err)
		}
	}
	if err := w.history(ctx, s); err != nil {
		return err
	}
	owned, err := w.owned(ctx)
	if err != nil {
		return err
	}
	for i := range s.gateways {
		g := &s.gateways[i]
		if s.barred(g) {
			continue // what it runs is as old as its bar
		}
		if err := s.workload(g, owned[g.UID]); err != nil {
			return fmt.Errorf("gateway %s/%s: %w", g.Namespace, g.Name, err)
		}
	}
	return nil
}

// specs are all of them.
type specs struct {
	releases   map[string]*v1alpha1.GatewayRelease
	profiles   map[string]*v1alpha1.GatewayProfile
	namespaces map[string]map[string]string // labels
	gateways   []v1alpha1.GatewayInstance
	images     map[string]string // what each release's image is, with its digest
}

func (w *world) specs(ctx context.Context) (*specs, error) {
	s := &specs{
		releases: map[string]*v1alpha1.GatewayRelease{}, profiles: map[string]*v1alpha1.GatewayProfile{},
		namespaces: map[string]map[string]string{}, images: map[string]string{},
	}
	var releases v1alpha1.GatewayReleaseList
	var profiles v1alpha1.GatewayProfileList
	var namespaces corev1.NamespaceList
	var gateways v1alpha1.GatewayInstanceList
	for _, list := range []client.ObjectList{&releases, &profiles, &namespaces, &gateways} {
		if err := w.product.Client.List(ctx, list); err != nil {
			return nil, err
		}
	}
	s.gateways = gateways.Items
	for i := range releases.Items {
		s.releases[releases.Items[i].Name] = &releases.Items[i]
	}
	for i := range profiles.Items {
		s.profiles[profiles.Items[i].Name] = &profiles.Items[i]
	}
	for i := range namespaces.Items {
		s.namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	for _, r := range w.releases {
		found := s.releases[r.name]
		if found == nil {
			return nil, fmt.Errorf("release %s is not there", r.name)
		}
		tag, known := r.tag(found.Spec.Image)
		if !known {
			return nil, fmt.Errorf("release %s: nobody has pushed %s", r.name, found.Spec.Image)
		}
		s.images[r.name] = r.registry.Host + "/" + r.repository + "@" + r.digests[tag].String()
	}
	return s, nil
}

func (s *specs) profileOf(g *v1alpha1.GatewayInstance) *v1alpha1.GatewayProfile {
	return s.profiles[s.releases[g.Spec.ReleaseRef.Name].Spec.ProfileRef.Name]
}

// barred says whether a gateway's namespace is not allowed by its profile.
func (s *specs) barred(g *v1alpha1.GatewayInstance) bool {
	list := s.profileOf(g).Spec.AllowedNamespaces
	return list != nil && s.namespaces[g.Namespace]["gateways"] != list.Selector.MatchLabels["gateways"]
}

// release holds that a release says of itself what is so.
func (s *specs) release(r *release) error {
	found := s.releases[r.name]
	total, barred := 0, 0
	for i := range s.gateways {
		if g := &s.gateways[i]; g.Spec.ReleaseRef.Name == r.name {
			total++
			if s.barred(g) {
				barred++
			}
		}
	}
	now := found.Status
	switch {
	case now.ObservedGeneration != found.Generation:
		return fmt.Errorf("generation %d, observed %d", found.Generation, now.ObservedGeneration)
	case now.Summary != "Available" || now.Image != s.images[r.name]:
		return fmt.Errorf("it says %q of %s, want %s", now.Summary, now.Image, s.images[r.name])
	case now.Rollout == nil || now.Rollout.State != v1alpha1.RolloutComplete || now.Rollout.Target != now.Revision || now.Rollout.Stable != now.Revision || len(now.Rollout.InFlight) > 0:
		return fmt.Errorf("the rollout of %s: %s", now.Revision, text(now.Rollout))
	}
	fleet := now.Rollout.Fleet
	if int(fleet.Total) != total || int(fleet.Updated) < total-barred || int(fleet.Ready) != total-barred || fleet.Failed != 0 {
		return fmt.Errorf("of %d gateways, %d of them barred, it says %s", total, barred, text(fleet))
	}
	return says(now.Conditions, found.Generation, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)
}

// gateway holds that a gateway says of itself what is so.
func (s *specs) gateway(g *v1alpha1.GatewayInstance) error {
	release, now := s.releases[g.Spec.ReleaseRef.Name], g.Status
	if s.barred(g) {
		return says(now.Conditions, g.Generation, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAllowed)
	}
	replicas := ptr.Deref(g.Spec.Replicas, 1)
	switch {
	case now.ObservedGeneration != g.Generation:
		return fmt.Errorf("generation %d, observed %d", g.Generation, now.ObservedGeneration)
	case now.Revision == nil || now.Revision.Release != release.Name || now.Revision.Name != release.Status.Revision:
		return fmt.Errorf("it has recorded %s, want %s of %s", text(now.Revision), release.Status.Revision, release.Name)
	case now.Image != s.images[release.Name]:
		return fmt.Errorf("it says that it runs %s, want %s", now.Image, s.images[release.Name])
	case now.Phase != v1alpha1.GatewayRunning || now.Replicas == nil || now.Replicas.Desired != replicas || now.Replicas.Ready != replicas:
		return fmt.Errorf("it is %s with %s, want %d", now.Phase, text(now.Replicas), replicas)
	}
	return says(now.Conditions, g.Generation, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReplicasAvailable)
}

func says(conditions []metav1.Condition, generation int64, condition string, status metav1.ConditionStatus, reason string) error {
	found := meta.FindStatusCondition(conditions, condition)
	if found == nil || found.Status != status || found.Reason != reason || found.ObservedGeneration != generation {
		return fmt.Errorf("want %s=%s %s of generation %d, got %s", condition, status, reason, generation, text(conditions))
	}
	return nil
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
