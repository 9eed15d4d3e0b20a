package registry

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Reach says which addresses are dialled. What is checked is the address that a
// connection is really made to, after a name was looked up, whoever named it: a
// reference, a redirect, the realm of a token service, the URL in a certificate.
// The zero value is public addresses alone.
//
// Link-local addresses, those of the metadata services of clouds, multicast and
// unspecified addresses are never dialled.
type Reach struct {
	// Loopback allows this machine itself.
	Loopback bool
	// Private allows the addresses of private networks: those of RFC 1918 and
	// RFC 6598, and unique local IPv6 addresses.
	Private bool
	// Never lists what is not dialled whatever else is said: the API servers. A
	// port of 0 stands for every port.
	Never []netip.AddrPort
	// Denied lists prefixes that are not dialled whatever else is said.
	Denied []netip.Prefix
}

// metadata are the addresses at which clouds tell machines who they are, besides
// the link-local ones.
var metadata = []netip.Addr{
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS, for pods
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local  = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour   = netip.MustParsePrefix("2002::/16")
	teredo      = netip.MustParsePrefix("2001::/32")
	reserved    = netip.MustParsePrefix("240.0.0.0/4")
	siteLocal   = netip.MustParsePrefix("fec0::/10")
)

// refuses says why an address is not dialled, and is empty if it may be.
func (r Reach) refuses(address netip.AddrPort) string {
	ip := embedded(address.Addr())
	for _, never := range r.Never {
		if embedded(never.Addr()) == ip && (never.Port() == 0 || never.Port() == address.Port()) {
			return "the address of an API server, which is never dialled"
		}
	}
	for _, denied := range r.Denied {
		if denied.Contains(ip) {
			return "an address that --registry-deny names, which is not dialled"
		}
	}
	switch {
	case slices.Contains(metadata, ip), ip.IsLinkLocalUnicast():
		return "a link-local or metadata address, which is never dialled"
	case ip.IsMulticast(), ip.IsUnspecified(), reserved.Contains(ip), siteLocal.Contains(ip), teredo.Contains(ip), nat64Local.Contains(ip):
		return "a multicast or reserved address, which is never dialled"
	case ip.IsLoopback(), thisNetwork.Contains(ip):
		if !r.Loopback {
			return "a loopback address, which is not dialled; set --registry-allow-loopback if that is meant"
		}
	case ip.IsPrivate(), sharedSpace.Contains(ip):
		if !r.Private {
			return "an address of a private network, which is not dialled; set --registry-allow-private if that is meant"
		}
	}
	return ""
}

// embedded is the IPv4 address that an IPv6 address leads to, where it does.
func embedded(ip netip.Addr) netip.Addr {
	ip = ip.WithZone("").Unmap()
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case ip != netip.IPv6Loopback() && !ip.IsUnspecified() && [12]byte(b[:12]) == [12]byte{}:
		return netip.AddrFrom4([4]byte(b[12:16])) // IPv4-compatible, RFC 4291
	}
	return ip
}

// refusedAddress is why a connection was not made.
type refusedAddress string

func (e refusedAddress) Error() string { return "leads to " + string(e) }

// RefusedAddress says why no connection was made, where err is that of an address
// that Reach does not allow. The text is fit for a status.
func RefusedAddress(err error) (why string, refused bool) {
	var e refusedAddress
	if !errors.As(err, &e) {
		return "", false
	}
	return e.Error(), true
}

// dialer makes the connections of a Client.
type dialer struct {
	reach   Reach
	timeout time.Duration
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	proxies []string // host:port of those that the environment names, which the operator vouches for
}

// newDialer makes the dialer of a client. Options.Dial stands in for the network:
// what it connects to is checked too, before anything is sent.
func newDialer(o Options, proxies []string) *dialer {
	d := &dialer{reach: o.Reach, timeout: o.ConnectTimeout, dial: o.Dial, proxies: proxies}
	if d.dial == nil {
		direct := &net.Dialer{KeepAlive: 30 * time.Second, Resolver: o.Resolver}
		checked := *direct
		checked.Control = func(_, address string, _ syscall.RawConn) error { return d.check(address) }
		d.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if slices.Contains(d.proxies, strings.ToLower(address)) {
				return direct.DialContext(ctx, network, address)
			}
			return checked.DialContext(ctx, network, address)
		}
	}
	return d
}

func (d *dialer) check(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return refusedAddress("an address that cannot be read, which is not dialled")
	}
	if why := d.reach.refuses(to); why != "" {
		return refusedAddress(why)
	}
	return nil
}

// DialContext connects within the timeout, to where Reach allows.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	if err != nil || slices.Contains(d.proxies, strings.ToLower(address)) {
		return conn, err
	}
	if err := d.check(conn.RemoteAddr().String()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// environmentProxies reads which proxies the environment names, and where they
// are.
func environmentProxies() (func(*url.URL) (*url.URL, error), []string) {
	config := httpproxy.FromEnvironment()
	var addresses []string
	for _, text := range []string{config.HTTPProxy, config.HTTPSProxy} {
		if text == "" {
			continue
		}
		proxy, err := url.Parse(text)
		if err != nil || proxy.Host == "" {
			if proxy, err = url.Parse("http://" + text); err != nil {
				continue // the proxy function says so for each request
			}
		}
		port := proxy.Port()
		if port == "" {
			port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
			if port == "" {
				port = "80"
			}
		}
		addresses = append(addresses, strings.ToLower(net.JoinHostPort(proxy.Hostname(), port)))
	}
	return config.ProxyFunc(), addresses
}
