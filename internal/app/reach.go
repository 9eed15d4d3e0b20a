package app

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// reach is which addresses registries may be at. The API server is at none of them: whoever can name an image must
// not be able to point this process, which may write to it, at it.
func (c *Config) reach(ctx context.Context, base *rest.Config, log logr.Logger) registry.Reach {
	reach := registry.Reach{Loopback: c.RegistryAllowLoopback, Private: c.RegistryAllowPrivate}
	for _, text := range c.RegistryDeny {
		if prefix, err := netip.ParsePrefix(text); err == nil { // Validate has told
			reach.Denied = append(reach.Denied, prefix)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, address := range apiServers(ctx, base, log) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			continue
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			log.Error(err, "look up the API server, to keep image references from leading to it", "host", host)
			continue
		}
		for _, ip := range ips {
			reach.Never = append(reach.Never, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
		}
	}
	return reach
}

// apiServers are the addresses that this process knows of: the one it uses, the one every pod is told, and the one
// behind those, as the server itself says.
func apiServers(ctx context.Context, base *rest.Config, log logr.Logger) []string {
	var addresses []string
	if u, err := url.Parse(base.Host); err == nil && u.Host != "" {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80"}[u.Scheme]
			if port == "" {
				port = "443"
			}
		}
		addresses = append(addresses, net.JoinHostPort(u.Hostname(), port))
	} else {
		addresses = append(addresses, base.Host)
	}
	if host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"); host != "" && port != "" {
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	client, err := kubernetes.NewForConfig(base)
	if err != nil {
		log.Error(err, "ask the API server for its address")
		return addresses
	}
	answer, err := client.Discovery().RESTClient().Get().AbsPath("/api").SetHeader("Accept", "application/json").DoRaw(ctx)
	var versions metav1.APIVersions
	if err == nil {
		err = json.Unmarshal(answer, &versions)
	}
	if err != nil {
		log.Error(err, "ask the API server for its address")
	}
	for _, server := range versions.ServerAddressByClientCIDRs {
		addresses = append(addresses, server.ServerAddress)
	}
	return addresses
}
