// Package auditlog reads the API server's own record of mutating requests, so that the demo and the tests count what was
// sent from the server's side and not from the sender's.
package auditlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Event is one mutating request as the API server saw it, whatever came
// of it: refused, failed, without effect and dry runs included.
type Event struct {
	Time        time.Time // when the request arrived
	UserAgent   string
	User        string // for a service account system:serviceaccount:NAMESPACE:NAME; of an impersonated request the impersonator
	Pod         string // that the service account's token is bound to, if it is
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

func (e Event) String() string {
	resource := strings.TrimSuffix(e.Resource+"."+e.APIGroup, ".")
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s by %q (%s): %d", e.Verb, resource, e.Namespace, e.Name, e.UserAgent, e.User, e.Code)
}

// Mark is a moment in the audit log. The zero Mark is its beginning.
type Mark int64

// Log is the audit log of a devcluster.
type Log struct {
	// File is where the API server writes it, a JSON object a line.
	File string
	// Config is for the request by which Read finds the end.
	Config *rest.Config
}

const (
	fencePrefix  = "gatehouse-audit-fence/"
	fenceTimeout = 10 * time.Second
	fencePoll    = 2 * time.Millisecond
)

// Read returns the events of requests that arrived from a mark to now, in the order they were answered, and the mark of now.
// The server writes an event a moment after its answer; so that none of an answered request is missed, Read sends a
// request of its own and reads up to it. What was on its way when the mark was made is written after it, and left out.
func (l Log) Read(ctx context.Context, since Mark) ([]Event, Mark, error) {
	return l.read(ctx, since, false)
}

// tail is how much of the log is read to find its end: more than a line.
const tail = 64 << 10

// End returns the mark of now, however long the log is.
func (l Log) End(ctx context.Context) (Mark, error) {
	info, err := os.Stat(l.File)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	from := max(0, info.Size()-tail)
	_, end, err := l.read(ctx, Mark(from), from > 0)
	return end, err
}

// read is Read; within says that the mark may lie within a line.
func (l Log) read(ctx context.Context, since Mark, within bool) ([]Event, Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	fence, err := l.fence(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	file, err := os.Open(l.File)
	if err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	var began time.Time
	if !within {
		if began, err = madeAt(file, since); err != nil {
			return nil, 0, err
		}
	}
	if _, err := file.Seek(int64(since), io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	lines := bufio.NewReader(file)
	ticker := time.NewTicker(fencePoll)
	defer ticker.Stop()
	var events []Event
	var line []byte // may come in parts
	end := since
	for {
		part, err := lines.ReadBytes('\n')
		line = append(line, part...)
		switch {
		case err == nil && within:
			within, end, line = false, end+Mark(len(line)), line[:0]
		case err == nil:
			event, err := parse(line)
			if err != nil {
				return nil, 0, err
			}
			end += Mark(len(line))
			line = line[:0]
			if event.UserAgent == fence {
				return events, end, nil
			}
			if !strings.HasPrefix(event.UserAgent, fencePrefix) && !event.Time.Before(began) {
				events = append(events, event)
			}
		case errors.Is(err, io.EOF):
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil, 0, fmt.Errorf("audit log: the request sent to find its end did not appear: %w", ctx.Err())
			}
		default:
			return nil, 0, fmt.Errorf("audit log: %w", err)
		}
	}
}

// madeAt is when the request arrived by which a mark was made: the event of it is the last before the mark.
func madeAt(file io.ReaderAt, mark Mark) (time.Time, error) {
	if mark == 0 {
		return time.Time{}, nil
	}
	before := make([]byte, min(int64(mark), tail))
	if _, err := file.ReadAt(before, int64(mark)-int64(len(before))); err != nil {
		return time.Time{}, fmt.Errorf("audit log: %w", err)
	}
	before = bytes.TrimSuffix(before, []byte("\n"))
	fence, err := parse(before[bytes.LastIndexByte(before, '\n')+1:])
	return fence.Time, err
}

// fence sends a request that changes nothing and can be found again by its user agent.
func (l Log) fence(ctx context.Context) (userAgent string, err error) {
	config := rest.CopyConfig(l.Config)
	config.UserAgent = fencePrefix + rand.String(10)
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	_, err = c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return config.UserAgent, err
}

func parse(line []byte) (Event, error) {
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
		return Event{}, fmt.Errorf("audit log: line %q: %w", bytes.TrimSpace(line), err)
	}
	e := Event{
		Time: raw.RequestReceivedTimestamp, UserAgent: raw.UserAgent, User: raw.User.Username,
		Verb: raw.Verb, RequestURI: raw.RequestURI, Code: raw.ResponseStatus.Code,
		APIGroup: raw.ObjectRef.APIGroup, Resource: raw.ObjectRef.Resource, Subresource: raw.ObjectRef.Subresource,
		Namespace: raw.ObjectRef.Namespace, Name: raw.ObjectRef.Name,
	}
	if pod := raw.User.Extra["authentication.kubernetes.io/pod-name"]; len(pod) > 0 {
		e.Pod = pod[0]
	}
	if raw.ImpersonatedUser != nil {
		e.AsUser = raw.ImpersonatedUser.Username
	}
	return e, nil
}
