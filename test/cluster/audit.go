package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatehouse-dev/gatehouse/internal/auditlog"
)

// AuditEvent is one mutating request as the API server saw it, whatever came
// of it: refused, failed, without effect and dry runs included.
type AuditEvent = auditlog.Event

// Mark is a moment in the audit log. The zero Mark is its beginning.
type Mark = auditlog.Mark

// Match chooses audit events.
type Match func(AuditEvent) bool

// ByUserAgent chooses requests whose user agent contains part.
func ByUserAgent(part string) Match {
	return func(e AuditEvent) bool { return strings.Contains(e.UserAgent, part) }
}

// ByServiceAccount chooses requests with a service account's token.
func ByServiceAccount(namespace, name string) Match {
	return func(e AuditEvent) bool { return e.User == "system:serviceaccount:"+namespace+":"+name }
}

// ByPod chooses requests with a token that is bound to the pod.
func ByPod(name string) Match {
	return func(e AuditEvent) bool { return e.Pod == name }
}

// OfResource chooses requests for a resource (plural), its subresources
// included.
func OfResource(group, resource string) Match {
	return func(e AuditEvent) bool { return e.APIGroup == group && e.Resource == resource }
}

// Not chooses what m does not.
func Not(m Match) Match { return func(e AuditEvent) bool { return !m(e) } }

// Mark returns this moment: every request answered before it lies before it.
func (c *Cluster) Mark(ctx context.Context) (Mark, error) {
	log, err := c.auditLog()
	if err != nil {
		return 0, err
	}
	return log.End(ctx)
}

// Writes returns the mutating requests since a mark that every match chooses,
// in the order they were answered. Every request answered before the call is
// seen.
func (c *Cluster) Writes(ctx context.Context, since Mark, matches ...Match) ([]AuditEvent, error) {
	log, err := c.auditLog()
	if err != nil {
		return nil, err
	}
	events, _, err := log.Read(ctx, since)
	return slices.DeleteFunc(events, func(e AuditEvent) bool {
		return slices.ContainsFunc(matches, func(m Match) bool { return !m(e) })
	}), err
}

func (c *Cluster) auditLog() (auditlog.Log, error) {
	if c.process == nil || !c.options.Audit {
		return auditlog.Log{}, errors.New("no audit log: start the cluster with Options{Audit: true}, and not with " + KubeconfigEnv)
	}
	return auditlog.Log{File: filepath.Join(c.Dir, "audit.log"), Config: c.Config}, nil
}
