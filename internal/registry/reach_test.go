package registry_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// lies is a name server that gives one address for every name.
func lies(t *testing.T, address string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	ip := netip.MustParseAddr(address)
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if query.Unpack(buffer[:n]) != nil || len(query.Questions) != 1 {
				continue
			}
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true}, Questions: query.Questions}
			header := dnsmessage.ResourceHeader{Name: query.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 1}
			switch {
			case query.Questions[0].Type == dnsmessage.TypeA && ip.Is4():
				header.Type = dnsmessage.TypeA
				answer.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}}}
			case query.Questions[0].Type == dnsmessage.TypeAAAA && ip.Is6():
				header.Type = dnsmessage.TypeAAAA
				answer.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}}}
			}
			packed, err := answer.Pack()
			if err != nil {
				continue
			}
			_, _ = server.WriteTo(packed, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// What counts is the address that a name leads to, not the name.
func TestANameLeadsOnlyWhereReachAllows(t *testing.T) {
	const (
		loopback  = "leads to a loopback address, which is not dialled; set --registry-allow-loopback if that is meant"
		private   = "leads to an address of a private network, which is not dialled; set --registry-allow-private if that is meant"
		linkLocal = "leads to a link-local or metadata address, which is never dialled"
		apiServer = "leads to the address of an API server, which is never dialled"
		denied    = "leads to an address that --registry-deny names, which is not dialled"
		reserved  = "leads to a multicast or reserved address, which is never dialled"
	)
	everything := registry.Reach{Loopback: true, Private: true}
	for name, row := range map[string]struct {
		address string
		reach   registry.Reach
		text    string
	}{
		"this machine":                     {"127.0.0.1", registry.Reach{Private: true}, loopback},
		"all of loopback":                  {"127.8.9.10", registry.Reach{Private: true}, loopback},
		"this machine by IPv6":             {"::1", registry.Reach{Private: true}, loopback},
		"this machine, mapped":             {"::ffff:127.0.0.1", registry.Reach{Private: true}, loopback},
		"this machine, translated":         {"64:ff9b::7f00:1", registry.Reach{Private: true}, loopback},
		"this network":                     {"0.0.0.1", registry.Reach{Private: true}, loopback},
		"nowhere, which is here":           {"0.0.0.0", everything, reserved},
		"nowhere by IPv6":                  {"::", everything, reserved},
		"a metadata service":               {"169.254.169.254", everything, linkLocal},
		"a metadata service, mapped":       {"::ffff:169.254.169.254", everything, linkLocal},
		"a metadata service, translated":   {"64:ff9b::a9fe:a9fe", everything, linkLocal},
		"a metadata service, through 6to4": {"2002:a9fe:a9fe::1", everything, linkLocal},
		"a metadata service, compatible":   {"::a9fe:a9fe", everything, linkLocal},
		"a metadata service by IPv6":       {"fd00:ec2::254", everything, linkLocal},
		"a metadata service of Azure":      {"168.63.129.16", everything, linkLocal},
		"a metadata service of Alibaba":    {"100.100.100.200", everything, linkLocal},
		"link-local by IPv6":               {"fe80::1", everything, linkLocal},
		"multicast":                        {"224.0.0.1", everything, reserved},
		"broadcast":                        {"255.255.255.255", everything, reserved},
		"a private network":                {"10.1.2.3", registry.Reach{Loopback: true}, private},
		"another private network":          {"192.168.1.1", registry.Reach{}, private},
		"a shared network":                 {"100.64.0.1", registry.Reach{}, private},
		"a private network by IPv6":        {"fd12::1", registry.Reach{}, private},
		"an API server":                    {"10.96.0.1", registry.Reach{Private: true, Never: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")}}, apiServer},
		"an API server, mapped":            {"::ffff:10.96.0.1", registry.Reach{Private: true, Never: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:0")}}, apiServer},
		"what is denied":                   {"10.96.3.4", registry.Reach{Private: true, Denied: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}, denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := registry.New(registry.Options{Reach: row.reach, Resolver: lies(t, row.address)})
			t.Cleanup(c.Close)
			e := failure(t, c, "registry.example.com/team/gw:1.0", registry.Access{})
			if want := "registry registry.example.com: " + row.text; e.Kind != registry.Forbidden || e.Error() != want || e.Terminal() {
				t.Errorf("got %s: %s\nwant %s", e.Kind, e, want)
			}
		})
	}
}

// A spelling that some resolvers take for an address leads nowhere else than the address does.
func TestASpellingLeadsOnlyWhereReachAllows(t *testing.T) {
	hub := testregistry.Start(t)
	hub.PushImage(t, "team/gw", "1.0")
	_, port, _ := strings.Cut(hub.Host, ":")
	for _, spelling := range []string{"127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001", "[::7f00:1]", "[::ffff:7f00:1]"} {
		for name, resolver := range map[string]*net.Resolver{"looked up": lies(t, "127.0.0.1"), "of the system": nil} {
			c := registry.New(registry.Options{Resolver: resolver})
			t.Cleanup(c.Close)
			e := failure(t, c, spelling+":"+port+"/team/gw:1.0", plain)
			unknown := e.Kind == registry.Unreachable && strings.Contains(e.Error(), "no such host")
			if e.Kind != registry.Forbidden && !unknown {
				t.Errorf("%s, %s: got %s: %s (%s)", spelling, name, e.Kind, e, e.Detail)
			}
		}
	}
	if len(hub.Requests()) != 0 {
		t.Error("it was asked")
	}
}

// Whoever else names an address is held to the same: a redirect, a realm, a
// certificate.
func TestNobodyElseLeadsElsewhereEither(t *testing.T) {
	elsewhere := testregistry.Start(t, testregistry.WithTLS())
	port := netip.MustParseAddrPort(elsewhere.Host)
	reach := registry.Reach{Loopback: true, Never: []netip.AddrPort{port}} // stands for the API server
	c := client(t, registry.Options{Reach: reach})

	redirecting := testregistry.Start(t)
	redirecting.PushImage(t, "team/gw", "1.0")
	redirecting.Break(testregistry.RedirectTo(elsewhere.URL()))

	asking := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("", ""), testregistry.WithRealm(elsewhere.URL()+"/token"))
	asking.PushImage(t, "team/gw", "1.0")

	for name, row := range map[string]struct {
		ref    string
		access registry.Access
	}{
		"a redirect": {redirecting.Reference("team/gw", "1.0"), plain},
		"a realm":    {asking.Reference("team/gw", "1.0"), registry.Access{CABundle: asking.CA}},
	} {
		t.Run(name, func(t *testing.T) {
			if e := failure(t, c, row.ref, row.access); e.Kind != registry.Forbidden {
				t.Errorf("got %s: %s (%s)", e.Kind, e, e.Detail)
			}
		})
	}
	t.Run("a certificate", func(t *testing.T) {
		_, err := c.Anonymous().Get(elsewhere.URL() + "/ocsp")
		if err == nil || !strings.Contains(err.Error(), "the address of an API server") {
			t.Errorf("got %v", err)
		}
	})
	if n := elsewhere.Connections(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A stand-in for the network is held to Reach as the network is.
func TestWhatDialConnectsToIsChecked(t *testing.T) {
	hub := testregistry.Start(t, testregistry.WithTLS("registry.example.com"))
	c := registry.New(registry.Options{Dial: dialTo(map[string]string{"registry.example.com:443": hub.Host})})
	t.Cleanup(c.Close)
	if e := failure(t, c, "registry.example.com/team/gw:1.0", registry.Access{CABundle: hub.CA}); e.Kind != registry.Forbidden {
		t.Errorf("got %s: %s", e.Kind, e)
	}
	if len(hub.Requests()) != 0 {
		t.Error("it was asked")
	}
}

func TestAnAnonymousClientGoesNowhereElse(t *testing.T) {
	mux := http.NewServeMux()
	responder := httptest.NewServer(mux)
	t.Cleanup(responder.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "there") }))
	t.Cleanup(other.Close)
	mux.HandleFunc("/here", func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/there", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "good") })
	mux.HandleFunc("/away", func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, other.URL, http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/round", http.StatusFound) })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 33 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	c := client(t, registry.Options{})
	for path, want := range map[string]string{
		"/here":  "",
		"/away":  "redirects to another host",
		"/round": "redirects too often",
		"/long":  "an answer of more than",
	} {
		resp, err := c.Anonymous().Get(responder.URL + path)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// The proxy that an operator names is dialled wherever it is. Of what is behind it
// only an address that is written out can be refused here.
func TestAProxyIsTheOperatorsChoice(t *testing.T) {
	var through []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		through = append(through, req.URL.Host)
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	c := registry.New(registry.Options{})
	t.Cleanup(c.Close)
	if e := failure(t, c, "registry.example.com/team/gw:1.0", plain); e.Kind != registry.NotFound {
		t.Errorf("got %s: %s (%s)", e.Kind, e, e.Detail)
	}
	for _, host := range []string{"169.254.169.254", "[::ffff:a9fe:a9fe]", "0xa9fea9fe:80", "169.16689662", "0251.254.169.254", "2852039166:80", "127.1", "0x7f.1"} {
		if e := failure(t, c, host+"/team/gw:1.0", plain); e.Kind != registry.Forbidden {
			t.Errorf("%s: got %s: %s (%s)", host, e.Kind, e, e.Detail)
		}
	}
	if len(through) != 1 || through[0] != "registry.example.com" {
		t.Errorf("through the proxy went %q", through)
	}
}
