package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatusConditions points at the release's conditions.
func (r *GatewayRelease) StatusConditions() *[]metav1.Condition { return &r.Status.Conditions }

// StatusGeneration points at the generation that the release's status was computed from.
func (r *GatewayRelease) StatusGeneration() *int64 { return &r.Status.ObservedGeneration }

// StatusConditions points at the gateway's conditions.
func (g *GatewayInstance) StatusConditions() *[]metav1.Condition { return &g.Status.Conditions }

// StatusGeneration points at the generation that the gateway's status was computed from.
func (g *GatewayInstance) StatusGeneration() *int64 { return &g.Status.ObservedGeneration }

// StatusConditions points at the Executor's conditions.
func (e *Executor) StatusConditions() *[]metav1.Condition { return &e.Status.Conditions }

// StatusGeneration points at the generation that the Executor's status was computed from.
func (e *Executor) StatusGeneration() *int64 { return &e.Status.ObservedGeneration }

// StatusConditions points at the Executor's conditions.
func (e *NamespacedExecutor) StatusConditions() *[]metav1.Condition { return &e.Status.Conditions }

// StatusGeneration points at the generation that the Executor's status was computed from.
func (e *NamespacedExecutor) StatusGeneration() *int64 { return &e.Status.ObservedGeneration }
