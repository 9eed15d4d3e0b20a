package registry

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

const (
	maxTransports     = 64
	maxResponseHeader = 64 << 10
)

// transports keeps one transport per set of trusted authorities, so that
// connections are used again from attempt to attempt. The least recently used
// goes when there are too many.
type transports struct {
	options Options
	mu      sync.Mutex // held while one is made, so that none is made twice
	kept    *lru.Cache
}

func newTransports(options Options) *transports {
	return &transports{
		options: options,
		kept: lru.NewWithEvictionFunc(maxTransports, func(_ lru.Key, value any) {
			value.(*http.Transport).CloseIdleConnections()
		}),
	}
}

func (t *transports) forBundle(bundle []byte) *http.Transport {
	key := sha256.Sum256(bundle)
	t.mu.Lock()
	defer t.mu.Unlock()
	if kept, ok := t.kept.Get(key); ok {
		return kept.(*http.Transport)
	}
	made := t.options.transport(bundle)
	t.kept.Add(key, made)
	return made
}

func (t *transports) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.Clear()
}

func (o Options) transport(bundle []byte) *http.Transport {
	dial, proxy := o.Dial, http.ProxyFromEnvironment
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 30 * time.Second}).DialContext
	} else {
		proxy = nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bundle) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // the system has none: the bundle is all that is trusted
		}
		pool.AppendCertsFromPEM(bundle)
		config.RootCAs = pool
	}
	return &http.Transport{
		Proxy: proxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.ResponseHeaderTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		IdleConnTimeout:        o.IdleTimeout,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    4,
		DisableCompression:     true, // sizes and digests are of the bytes as they are sent
		ForceAttemptHTTP2:      true,
	}
}
