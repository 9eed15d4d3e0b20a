package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxAnonymous bounds one answer to an Anonymous client, in bytes. Lists of
// revoked certificates are long.
const maxAnonymous = 32 << 20

// Anonymous is a client for what a certificate names to ask for its revocation:
// an OCSP responder, a list of revoked certificates. It sends no credentials,
// dials where Reach allows, has the deadline of one attempt, reads a bounded
// answer, and follows a redirect only to the same host and not from TLS to plain
// HTTP.
func (c *Client) Anonymous() *http.Client {
	return &http.Client{
		Transport: anonymous{c},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			from := via[0].URL
			switch {
			case len(via) > c.options.MaxRedirects:
				return errors.New("redirects too often")
			case req.URL.Host != from.Host:
				return errors.New("redirects to another host")
			case from.Scheme == "https" && req.URL.Scheme != "https":
				return errors.New("redirects to plain HTTP")
			}
			return nil
		},
		Timeout: c.options.Deadline,
	}
}

type anonymous struct{ client *Client }

func (a anonymous) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", a.client.options.UserAgent)
	resp, err := a.client.transports.forBundle(nil).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &limited{resp.Body, maxAnonymous}
	return resp, nil
}

// limited is a body that ends with an error where it is too long.
type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	if int64(n) > l.left {
		return int(l.left), fmt.Errorf("an answer of more than %d bytes", maxAnonymous)
	}
	l.left -= int64(n)
	return n, err
}
