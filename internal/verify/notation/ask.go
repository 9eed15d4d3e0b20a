package notation

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// trouble is why an answer did not come, or does not count: words that are ours,
// and the same for the same trouble.
type trouble string

func (t trouble) Error() string { return string(t) }

// inquiry is what those who ask are told, and tell: the chain that is asked about,
// and the last trouble with each of its certificates. The library in between hands
// on the text of most errors, and of none the type.
type inquiry struct {
	chain []*x509.Certificate

	mu  sync.Mutex
	met map[*x509.Certificate]trouble
}

type inquiryKey struct{}

func inquire(ctx context.Context, chain []*x509.Certificate) (context.Context, *inquiry) {
	i := &inquiry{chain: chain, met: map[*x509.Certificate]trouble{}}
	return context.WithValue(ctx, inquiryKey{}, i), i
}

// find returns the first certificate of the chain for which is is true, with its
// issuer.
func (i *inquiry) find(is func(c, issuer *x509.Certificate) bool) (c, issuer *x509.Certificate, found bool) {
	for n := 0; n+1 < len(i.chain); n++ {
		if is(i.chain[n], i.chain[n+1]) {
			return i.chain[n], i.chain[n+1], true
		}
	}
	return nil, nil, false
}

func (i *inquiry) note(c *x509.Certificate, err error) {
	text := trouble("the answer does not count")
	errors.As(err, &text)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.met[c] = text
}

// why is the last trouble with a certificate; empty if there was none.
func (i *inquiry) why(c *x509.Certificate) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return string(i.met[c])
}

func inquiryOf(ctx context.Context) (*inquiry, error) {
	i, ok := ctx.Value(inquiryKey{}).(*inquiry)
	if !ok {
		return nil, errors.New("the request is not about a chain")
	}
	return i, nil
}

// readAnswer sends a request and reads the answer's body, at most limit bytes of
// it.
func readAnswer(client *http.Client, request *http.Request, limit int64) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, network(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, trouble(fmt.Sprintf("it answered %d", response.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, network(err)
	}
	if int64(len(body)) > limit {
		return nil, trouble(fmt.Sprintf("it answered with more than %d bytes", limit))
	}
	return body, nil
}

// network says what a failure to reach somebody means.
func network(err error) trouble {
	if why, refused := registry.RefusedAddress(err); refused {
		return trouble("it " + why)
	}
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		return "it did not answer in time"
	}
	return "it could not be reached"
}

func get(ctx context.Context, client *http.Client, address string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, trouble("its address does not parse")
	}
	return readAnswer(client, request, limit)
}

// answered is a response of 200 with the body.
func answered(request *http.Request, body []byte) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       request,
	}
}
