package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// AuditEvent is one mutating request as the API server saw it, whatever came
// of it: refused, failed, without effect and dry runs included.
type AuditEvent struct {
	Time        time.Time // when the request arrived
	UserAgent   string
	User        string // for a service account system:serviceaccount:NAMESPACE:NAME; of an impersonated request the impersonator
	AsUser      string // who was impersonated, if anybody
	Verb        string // create, update, patch, delete, deletecollection
	APIGroup    string // empty for the core group
	Resource    string // plural
	Subresource string
	Namespace   string
	Name        string
	RequestURI  string // with its query: fieldManager, dryRun
	Code        int    // HTTP status
}

func (e AuditEvent) String() string {
	resource := strings.TrimSuffix(e.Resource+"."+e.APIGroup, ".")
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s by %q (%s): %d", e.Verb, resource, e.Namespace, e.Name, e.UserAgent, e.User, e.Code)
}

// Mark is a moment in the audit log. The zero Mark is its beginning.
type Mark int64

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

// OfResource chooses requests for a resource (plural), its subresources
// included.
func OfResource(group, resource string) Match {
	return func(e AuditEvent) bool { return e.APIGroup == group && e.Resource == resource }
}

// Not chooses what m does not.
func Not(m Match) Match { return func(e AuditEvent) bool { return !m(e) } }

// Mark returns this moment: every request answered before it lies before it.
func (c *Cluster) Mark(ctx context.Context) (Mark, error) {
	_, end, err := c.read(ctx, 0)
	return end, err
}

// Writes returns the mutating requests since a mark that every match chooses,
// in the order they were answered. Every request answered before the call is
// seen.
func (c *Cluster) Writes(ctx context.Context, since Mark, matches ...Match) ([]AuditEvent, error) {
	events, _, err := c.read(ctx, since)
	return slices.DeleteFunc(events, func(e AuditEvent) bool {
		return strings.HasPrefix(e.UserAgent, fencePrefix) || slices.ContainsFunc(matches, func(m Match) bool { return !m(e) })
	}), err
}

const (
	fencePrefix  = "gatehouse-test-fence/"
	fenceTimeout = 10 * time.Second
	fencePoll    = 2 * time.Millisecond
)

// read returns the events from a mark to now. The server writes an event a
// moment after its answer; so that none of an answered request is missed, read
// sends a request of its own and reads up to it.
func (c *Cluster) read(ctx context.Context, since Mark) ([]AuditEvent, Mark, error) {
	if c.process == nil || !c.options.Audit {
		return nil, 0, errors.New("no audit log: start the cluster with Options{Audit: true}, and not with " + KubeconfigEnv)
	}
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	config := rest.CopyConfig(c.Config)
	config.UserAgent = fencePrefix + rand.String(10)
	fence, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, 0, err
	}
	if _, err := fence.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}

	log, err := os.Open(filepath.Join(c.Dir, "audit.log"))
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = log.Close() }()
	if _, err := log.Seek(int64(since), io.SeekStart); err != nil {
		return nil, 0, err
	}
	r := bufio.NewReader(log)
	ticker := time.NewTicker(fencePoll)
	defer ticker.Stop()
	var events []AuditEvent
	var line []byte // may come in parts
	end := since
	for {
		part, err := r.ReadBytes('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			event, err := parseEvent(line)
			if err != nil {
				return nil, 0, err
			}
			end += Mark(len(line))
			line = line[:0]
			if event.UserAgent == config.UserAgent {
				return events, end, nil
			}
			events = append(events, event)
		case errors.Is(err, io.EOF):
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil, 0, fmt.Errorf("audit log: the request sent to find its end did not appear: %w", ctx.Err())
			}
		default:
			return nil, 0, err
		}
	}
}

func parseEvent(line []byte) (AuditEvent, error) {
	var raw struct {
		RequestReceivedTimestamp time.Time                  `json:"requestReceivedTimestamp"`
		UserAgent                string                     `json:"userAgent"`
		User                     authenticationv1.UserInfo  `json:"user"`
		ImpersonatedUser         *authenticationv1.UserInfo `json:"impersonatedUser"`
		Verb                     string                     `json:"verb"`
		RequestURI               string                     `json:"requestURI"`
		ObjectRef                struct {
			APIGroup, Resource, Subresource, Namespace, Name string
		} `json:"objectRef"`
		ResponseStatus struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return AuditEvent{}, fmt.Errorf("audit log: line %q: %w", bytes.TrimSpace(line), err)
	}
	e := AuditEvent{
		Time: raw.RequestReceivedTimestamp, UserAgent: raw.UserAgent, User: raw.User.Username,
		Verb: raw.Verb, RequestURI: raw.RequestURI, Code: raw.ResponseStatus.Code,
		APIGroup: raw.ObjectRef.APIGroup, Resource: raw.ObjectRef.Resource, Subresource: raw.ObjectRef.Subresource,
		Namespace: raw.ObjectRef.Namespace, Name: raw.ObjectRef.Name,
	}
	if raw.ImpersonatedUser != nil {
		e.AsUser = raw.ImpersonatedUser.Username
	}
	return e, nil
}
