package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	fenceWithin = 10 * time.Second
	fenceEvery  = 5 * time.Millisecond
)

// auditLog is the API server's own record of mutating requests: refused ones, dry runs and those without effect
// included.
type auditLog struct {
	file   string
	config *rest.Config
	offset int64
}

// request is one mutating request.
type request struct {
	UserAgent string `json:"userAgent"`
	Verb      string `json:"verb"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
}

func (r request) String() string {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s", r.Verb, resource, r.ObjectRef.Namespace, r.ObjectRef.Name)
}

// next returns the requests of a user that were answered since it was last called.
func (a *auditLog) next(ctx context.Context, user string) ([]request, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceWithin)
	defer cancel()
	fence, err := a.fence(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	f, err := os.Open(a.file)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	lines := bufio.NewReader(f)
	ticker := time.NewTicker(fenceEvery)
	defer ticker.Stop()
	var of []request
	var line []byte // may come in parts
	for {
		part, err := lines.ReadBytes('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			var r request
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("audit log: line %q: %w", bytes.TrimSpace(line), err)
			}
			a.offset += int64(len(line))
			line = line[:0]
			switch {
			case r.UserAgent == fence:
				return of, nil
			case r.User.Username == user:
				of = append(of, r)
			}
		case errors.Is(err, io.EOF):
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil, fmt.Errorf("audit log: awaited the request that marks its end: %w", ctx.Err())
			}
		default:
			return nil, fmt.Errorf("audit log: %w", err)
		}
	}
}

// fence sends a request that can be found again. The server writes a request to the log a moment after it has answered
// it, so reading up to the fence misses none that was answered before.
func (a *auditLog) fence(ctx context.Context) (userAgent string, err error) {
	config := rest.CopyConfig(a.config)
	config.UserAgent = "gatehouse-demo-fence/" + rand.String(10)
	c, err := clientset.NewForConfig(config)
	if err != nil {
		return "", err
	}
	_, err = c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return config.UserAgent, err
}
