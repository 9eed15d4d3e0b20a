package app

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Config is all that a manager can be told from outside.
type Config struct {
	// Kubeconfig is the file that says which API server; empty means the pod's own service account, or what kubectl
	// would use.
	Kubeconfig string
	// Namespace is Gatehouse's own: its lease, its ControllerRevisions, and the Secrets and ConfigMaps that cluster
	// kinds refer to.
	Namespace string
	// Identity names this process in the lease; empty means the pod's name, or one that is made up.
	Identity string
	// Pod is the name of the pod that this process runs in, in Namespace, and PodUID that pod's UID. Without a pod, as out
	// of a cluster, nothing is reported of what this process serves.
	Pod    string
	PodUID string

	// LeaderElect says whether a lease decides who writes. Without it there must be one process only.
	LeaderElect   bool
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	// MetricsAddress, ProbeAddress and ProfileAddress are host:port; "0" serves none.
	MetricsAddress string
	ProbeAddress   string
	ProfileAddress string

	// QPS and Burst bound this process's requests to the API server.
	QPS   float32
	Burst int
	// Workers is how many gateways are passed over at once.
	Workers int
	// Resync is within what time every object is passed over again.
	Resync time.Duration

	// RegistryAllowLoopback and RegistryAllowPrivate say at which addresses, besides public ones, registries, token
	// services and the services that certificates name may be. RegistryDeny lists prefixes at which they may not.
	RegistryAllowLoopback bool
	RegistryAllowPrivate  bool
	RegistryDeny          []string
	// OCILayoutRoot is the folder that the stores of kind ociLayout are under; empty allows none.
	OCILayoutRoot string

	// LogLevel is debug, info, warn or error; LogFormat is json or text.
	LogLevel  string
	LogFormat string
}

// AddFlags binds the configuration to flags, with defaults that suit a fleet of thousands.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file; default: the pod's service account, or what kubectl would use")
	flags.StringVar(&c.Namespace, "namespace", envOr("POD_NAMESPACE", "gatehouse-system"), "Gatehouse's own namespace: its lease, revisions, and the Secrets and ConfigMaps that releases refer to; default: POD_NAMESPACE")
	flags.StringVar(&c.Identity, "identity", "", "name of this process in the lease; default: --pod-name, or the host name and a random part")
	flags.StringVar(&c.Pod, "pod-name", os.Getenv("POD_NAME"), "name of the pod, in --namespace, that this process runs in and reports for; default: POD_NAME; empty out of a cluster: nothing is reported, and there must be one process only")
	flags.StringVar(&c.PodUID, "pod-uid", os.Getenv("POD_UID"), "UID of that pod; default: POD_UID, or that of the pod that has the name")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true, "elect one writer among the replicas; without it there must be one process only")
	flags.DurationVar(&c.LeaseDuration, "lease-duration", 15*time.Second, "how long the others wait for a leader that is not heard of, in whole seconds")
	flags.DurationVar(&c.RenewDeadline, "renew-deadline", 10*time.Second, "how long a leader tries to renew before it stops")
	flags.DurationVar(&c.RetryPeriod, "retry-period", 400*time.Millisecond, "how often the leader renews the lease, and how often the others look at it, up to 2.2 times as rarely: one more look than the lease lasts, and they take over")
	flags.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint; 0 serves none")
	flags.StringVar(&c.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 serves none")
	flags.StringVar(&c.ProfileAddress, "pprof-bind-address", "0", "address of /debug/pprof, which needs no password: a loopback address; 0 serves none")
	flags.Float32Var(&c.QPS, "kube-api-qps", 500, "requests per second to the API server")
	flags.IntVar(&c.Burst, "kube-api-burst", 1000, "requests to the API server at once")
	flags.IntVar(&c.Workers, "workers", 16, "gateways passed over at once")
	flags.DurationVar(&c.Resync, "resync", 10*time.Minute, "within what time every object is passed over again")
	flags.BoolVar(&c.RegistryAllowLoopback, "registry-allow-loopback", false, "let registries be at loopback addresses, which are this process's own machine: for development")
	flags.BoolVar(&c.RegistryAllowPrivate, "registry-allow-private", false, "let registries be at addresses of private networks: 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7")
	flags.StringSliceVar(&c.RegistryDeny, "registry-deny", nil, "prefixes at which nothing is dialled for registries, whatever else is allowed, for example 10.96.0.0/12 for the services of the cluster; link-local, metadata and API server addresses never are")
	flags.StringVar(&c.OCILayoutRoot, "oci-layout-root", "", "absolute path of the folder that Executors' stores of kind ociLayout are under, the same on every replica; without it such a store is refused")
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&c.LogFormat, "log-format", "json", "json or text")
}

// Validate says what is wrong with the configuration, naming the flag.
func (c *Config) Validate() error {
	var errs []error
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", c.Namespace, problems[0]))
	}
	if c.LeaderElect && !(c.LeaseDuration > c.RenewDeadline && c.RenewDeadline > c.RetryPeriod*6/5 && c.RetryPeriod > 0) {
		errs = append(errs, fmt.Errorf("--lease-duration %s must be longer than --renew-deadline %s, and that longer than 1.2 times --retry-period %s", c.LeaseDuration, c.RenewDeadline, c.RetryPeriod))
	}
	if c.LeaderElect && c.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--lease-duration %s must be whole seconds: a Lease is told in seconds, and the others would take over before the leader stops", c.LeaseDuration))
	}
	if problems := validation.IsDNS1123Subdomain(c.Pod); c.Pod != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--pod-name %q: %s", c.Pod, problems[0]))
	}
	if c.PodUID != "" && c.Pod == "" {
		errs = append(errs, fmt.Errorf("--pod-uid %q needs --pod-name: set POD_NAME and POD_UID from the pod's own metadata", c.PodUID))
	}
	if c.QPS <= 0 || c.Burst <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps %v and --kube-api-burst %d must be positive", c.QPS, c.Burst))
	}
	if c.Workers < 1 || c.Workers > 256 {
		errs = append(errs, fmt.Errorf("--workers %d must be from 1 to 256", c.Workers))
	}
	if c.Resync < time.Second {
		errs = append(errs, fmt.Errorf("--resync %s must be at least 1s", c.Resync))
	}
	if c.OCILayoutRoot != "" && !filepath.IsAbs(c.OCILayoutRoot) {
		errs = append(errs, fmt.Errorf("--oci-layout-root %q must be an absolute path", c.OCILayoutRoot))
	}
	for _, text := range c.RegistryDeny {
		if _, err := netip.ParsePrefix(text); err != nil {
			errs = append(errs, fmt.Errorf("--registry-deny %q: write a prefix, for example 10.96.0.0/12", text))
		}
	}
	if _, err := c.logLevel(); err != nil {
		errs = append(errs, err)
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		errs = append(errs, fmt.Errorf("--log-format %q: write json or text", c.LogFormat))
	}
	return errors.Join(errs...)
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}
