package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// classify turns the error of a request into one with a text of our own: the
// text of the network holds ports and addresses that change from one attempt
// to the next, and that of the peer whatever it likes.
func (a *attempt) classify(ctx context.Context, err error) *Error {
	e := a.recognise(ctx, err)
	if e.Detail == "" {
		e.Detail = a.guard.quote(err.Error())
	}
	e.cause = err
	return e
}

func (a *attempt) recognise(ctx context.Context, err error) *Error {
	if own, ok := asError(err); ok {
		copied := *own
		return &copied
	}
	var (
		netErr      net.Error
		dnsErr      *net.DNSError
		opErr       *net.OpError
		response    *errcode.ErrorResponse
		unknown     x509.UnknownAuthorityError
		hostname    x509.HostnameError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		refused     refusedAddress
	)
	switch {
	case errors.As(err, &refused):
		return a.fail(Forbidden, refused.Error())
	case errors.Is(ctx.Err(), context.Canceled):
		return a.fail(Interrupted, "the question was given up")
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return a.fail(Timeout, "did not answer within its deadline")
	case errors.As(err, &response):
		return a.tokenRefused(response)
	case errors.Is(err, auth.ErrBasicCredentialNotFound), errors.Is(err, errWithheld):
		return a.unauthorized()
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return a.fail(Untrusted, "does not speak TLS; set plainHTTP if that is meant")
	case errors.As(err, &unknown):
		return a.fail(Untrusted, "its certificate is signed by an unknown authority; give that in caBundle")
	case errors.As(err, &hostname):
		return a.fail(Untrusted, "its certificate is for another host")
	case errors.As(err, &certificate), errors.As(err, &alert):
		return a.fail(Untrusted, "its certificate is not valid")
	case errors.As(err, &dnsErr) && dnsErr.IsNotFound:
		return a.fail(Unreachable, "no such host")
	case errors.As(err, &dnsErr):
		return a.fail(Unreachable, "its name cannot be looked up")
	case errors.Is(err, syscall.ECONNREFUSED):
		return a.fail(Unreachable, "connection refused")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return a.fail(BadAnswer, "broke off before the end of its answer")
	case errors.As(err, &opErr):
		return a.fail(Unreachable, "cannot be reached")
	case a.guard.challenged.Load():
		return a.fail(Unauthorized, "repository "+a.ref.Path()+": unauthorized; its token service gives no token that can be used")
	}
	return a.fail(BadAnswer, "its answer cannot be understood")
}

// tokenRefused explains an answer of the token service.
func (a *attempt) tokenRefused(response *errcode.ErrorResponse) *Error {
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest, http.StatusNotFound:
		return a.unauthorized()
	}
	return a.fail(BadAnswer, "its token service "+answered(response.StatusCode))
}
