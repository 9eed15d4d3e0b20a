package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

// apiServer is a configured kube-apiserver that does not run yet.
type apiServer struct {
	options options.CompletedOptions
	url     string
}

// newAPIServer binds a free port of the loopback address and makes the serving
// certificate, so that a kubeconfig can be written before the server runs.
func newAPIServer(ctx context.Context, dir *workdir.Dir, audit bool) (*apiServer, error) {
	s := options.NewServerRunOptions()
	args := []string{
		"--etcd-servers=unix://" + dir.Socket(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--cert-dir=" + dir.File(pkiDir),
		"--token-auth-file=" + dir.File(tokensFile),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + dir.File(serviceAccountKeyFile),
		"--service-account-signing-key-file=" + dir.File(serviceAccountKeyFile),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--endpoint-reconciler-type=none",
		"--allow-privileged",
		"--max-requests-inflight=1000",
		"--max-mutating-requests-inflight=500",
	}
	if audit {
		args = append(args,
			"--audit-policy-file="+dir.File(auditPolicyFile),
			"--audit-log-path="+dir.File(AuditLog),
			// A count must be complete the moment a request has been answered.
			"--audit-log-mode=blocking",
			"--audit-log-maxsize=1000",
		)
	}
	if err := parse(s.Flags(), args...); err != nil {
		return nil, err
	}
	// A listener of our own rather than a free port found and let go: nobody
	// can take it in between.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.SecureServing.Listener = listener
	s.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return &apiServer{options: completed, url: "https://" + listener.Addr().String()}, nil
}

func (s *apiServer) run(ctx context.Context) error {
	return app.Run(ctx, s.options)
}

// waitReady returns when the API server says that it is ready. The controllers
// exit if they start before it.
func waitReady(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		code := 0
		last = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code).Error()
		return last == nil && code == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver is not ready: %w (last answer: %v)", err, last)
	}
	return nil
}
