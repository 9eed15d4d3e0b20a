package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"

	"k8s.io/utils/lru"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

const (
	maxTransports = 64
	// maxConnections of one host. It is more than are of use at a time: the pool has
	// PerRegistry attempts at one registry, each with a handful of requests.
	maxConnections    = 40
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

// transport makes a transport. Through a proxy that the environment names it is
// the proxy that looks up the name and connects: of what goes there only
// addresses that are written out can be checked here.
func (o Options) transport(bundle []byte) *http.Transport {
	var proxy func(*http.Request) (*url.URL, error)
	var proxies []string
	if o.Dial == nil {
		fromEnvironment, addresses := environmentProxies()
		proxies = addresses
		proxy = func(req *http.Request) (*url.URL, error) {
			through, err := fromEnvironment(req.URL)
			if err != nil || through == nil {
				return through, err
			}
			if ip, ok := image.Address(req.URL.Hostname()); ok {
				if why := o.Reach.refuses(netip.AddrPortFrom(ip, portOf(req.URL))); why != "" {
					return nil, refusedAddress(why)
				}
			}
			return through, nil
		}
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
		Proxy:                  proxy,
		DialContext:            newDialer(o, proxies).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.ResponseHeaderTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		IdleConnTimeout:        o.IdleTimeout,
		MaxIdleConns:           200,
		MaxConnsPerHost:        maxConnections,
		MaxIdleConnsPerHost:    maxConnections, // none is closed that would be dialled again
		DisableCompression:     true,           // sizes and digests are of the bytes as they are sent
		ForceAttemptHTTP2:      true,
	}
}

func portOf(u *url.URL) uint16 {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(port)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
