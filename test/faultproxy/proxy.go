package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say whom a proxy serves.
type Options struct {
	// Kubeconfig is the client's own: the API server, its authority, and a token.
	Kubeconfig string
	// Dir is where the kubeconfig for the way through the proxy is written.
	Dir string
	// Seed decides what is left to chance.
	Seed uint64
	// Name is put behind the client's user agent, by which an audit log then tells clients with one token apart.
	Name string
}

// Proxy is a running proxy.
type Proxy struct {
	// Kubeconfig is for the client: its own credentials, by way of the proxy.
	Kubeconfig string

	seed     uint64
	name     string
	server   *http.Server
	reverse  *httputil.ReverseProxy
	upstream *http.Transport

	mu          sync.Mutex
	script      *script
	kill        *kill
	halt        *halt
	begun       int
	counts      map[Count]int
	writes      []Written
	holds       []*hold
	distortions []Distortion
	old         []oldList
	behind      *behind
	streams     map[*stream]struct{}
	turns       map[uint64]uint64 // events that have come of each watch, by its stream's id
}

// answerTimeout bounds the answer to anything but a watch.
const answerTimeout = time.Minute

// Start runs a proxy until the test ends.
func Start(tb TB, o Options) *Proxy {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	p, err := Run(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Run runs a proxy until it is closed.
func Run(o Options) (*Proxy, error) {
	kubeconfig, err := clientcmd.LoadFromFile(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	direct, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	if direct.BearerToken == "" {
		return nil, fmt.Errorf("kubeconfig %s: the proxy passes tokens on and nothing else: give it one with a token", o.Kubeconfig)
	}
	target, err := url.Parse(direct.Host)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	trust, err := rest.TLSConfigFor(direct)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	certificate, authority, err := certify()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	p := &Proxy{
		Kubeconfig: filepath.Join(o.Dir, "by-way-of-"+listener.Addr().String()+".kubeconfig"),
		seed:       o.Seed,
		name:       o.Name,
		upstream:   &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100, DisableCompression: true},
		script:     newScript(o.Seed, nil),
		counts:     map[Count]int{},
		streams:    map[*stream]struct{}{},
		turns:      map[uint64]uint64{},
	}
	for _, server := range kubeconfig.Clusters {
		server.Server = "https://" + listener.Addr().String()
		server.CertificateAuthority, server.CertificateAuthorityData = "", authority
		server.TLSServerName = ""
	}
	if err := clientcmd.WriteToFile(*kubeconfig, p.Kubeconfig); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      p.upstream,
		FlushInterval:  -1,
		ModifyResponse: p.distortWatch,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	p.server = &http.Server{
		Handler:           p,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // ends with Close
	return p, nil
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() {
	_ = p.server.Close() // what it says of its listener helps nobody
	p.upstream.CloseIdleConnections()
}

// Script replaces the rules for requests.
func (p *Proxy) Script(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = newScript(p.seed, rules)
}

type requestKey struct{}

// ServeHTTP passes a request on, or does to it what the script says.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := parse(r)
	fault, kill, halt := p.arrive(&request)
	outcome, code, answer := OutcomeCut, 0, []byte(nil)
	// A deferred call also counts what ends by a panic, which is how net/http is told to cut a connection.
	defer func() { p.finished(request, outcome, code, answer) }()

	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, request))
	if request.Verb == "watch" || request.Writes() {
		r.Header.Set("Accept", jsonOnly(r.Header.Get("Accept")))
		r.Header.Del("Accept-Encoding")
	}
	if p.name != "" {
		r.Header.Set("User-Agent", r.Header.Get("User-Agent")+" "+p.name)
	}
	if kill != nil {
		outcome = OutcomeKilled
		if request.Number == kill.at && kill.after {
			code, answer = p.commit(r)
		}
		kill.strike(request.Number)
		panic(http.ErrAbortHandler)
	}
	halt.before(request)
	patient := r.Context()
	if request.Writes() { // what is on its way arrives, whoever has left meanwhile
		patient = context.WithoutCancel(patient)
	}
	if !wait(patient, fault.delay) {
		panic(http.ErrAbortHandler)
	}
	if fault.commit {
		code, answer = p.commit(r)
	}
	switch fault.ends {
	case answered:
		outcome = codeOutcome(fault.code)
		if fault.retryAfter != "" {
			w.Header().Set("Retry-After", fault.retryAfter)
		}
		refuse(w, fault.code, "injected by the test")
	case hung:
		outcome = OutcomeHung
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices a client's leaving only when the body has been read
		<-r.Context().Done()
	case cut:
		panic(http.ErrAbortHandler)
	case passed:
		if fault.commit {
			panic(http.ErrAbortHandler)
		}
		outcome, code, answer = p.pass(w, r, request, halt)
	}
}

// arrive numbers a request and says what becomes of it, both in one step.
func (p *Proxy) arrive(request *Request) (Fault, *kill, *halt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if request.state() {
		p.begun++
		request.Number = p.begun
	}
	if p.kill != nil && p.kill.reaches(*request) {
		return Fault{}, p.kill, nil
	}
	var standing *halt
	if p.halt != nil && request.Number >= p.halt.at {
		standing = p.halt
	}
	return p.script.decide(*request), nil, standing
}

// pass hands a request on, and its answer back.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, request Request, standing *halt) (Outcome, int, []byte) {
	if request.Writes() {
		rec := p.record(r)
		standing.answered(request)
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
		return codeOutcome(rec.Code), rec.Code, rec.Body.Bytes()
	}
	if refused := p.oldList(r, request); refused != "" {
		refuse(w, http.StatusUnprocessableEntity, refused)
		return codeOutcome(http.StatusUnprocessableEntity), 0, nil
	}
	seen := &answerCode{ResponseWriter: w, code: http.StatusOK}
	p.reverse.ServeHTTP(seen, r)
	return codeOutcome(seen.code), seen.code, nil
}

// commit has the API server do what is asked and keeps the answer.
func (p *Proxy) commit(r *http.Request) (int, []byte) {
	rec := p.record(r)
	return rec.Code, rec.Body.Bytes()
}

// record passes a write on and keeps the answer. A client that dies meanwhile does not take back what it has asked for.
func (p *Proxy) record(r *http.Request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answerTimeout)
	defer cancel()
	rec := httptest.NewRecorder()
	p.reverse.ServeHTTP(rec, r.WithContext(ctx))
	return rec
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status(code, message)) // whoever has left needs no answer
}

// answerCode remembers the code of an answer that is streamed.
type answerCode struct {
	http.ResponseWriter
	code int
}

func (a *answerCode) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets the answer be flushed.
func (a *answerCode) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// wait waits for d, and says whether ctx lasted.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
