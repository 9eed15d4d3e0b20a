package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/auditlog"
	"github.com/gatehouse-dev/gatehouse/internal/kubelet"
	"github.com/gatehouse-dev/gatehouse/internal/kwokstage"
)

// cleanUpWithin bounds what is done after the end, or after Ctrl-C.
const cleanUpWithin = 5 * time.Minute

// Run runs the demo and tells of it. It returns nil only if every step was seen to hold and nothing was left behind.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	started := time.Now()
	stage := &stage{options: o, scene: &scene{fleet: newFleet(), release: "stable", profile: "edge"}}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWithin)
		defer cancel()
		err = errors.Join(err, stage.strike(ctx))
	}()

	steps := story()
	told := o.Out
	if o.JSON {
		told = o.Err
	}
	var teller teller
	if o.Terminal {
		teller = tellLive(told, stage.scene, steps)
	} else {
		teller = tellLines(ctx, told, stage.scene.fleet)
	}
	r := report{}
	if r.err = stage.set(ctx, teller.say); r.err == nil {
		r.results = play(ctx, stage.scene, steps, teller)
	}
	teller.close()
	r.elapsed = time.Since(started)

	switch {
	case ctx.Err() != nil:
		r.err = ErrInterrupted
		err = r.err
	case r.err != nil:
		err = r.err
	default:
		r.writeText(told)
		if !r.held() {
			err = ErrNotHeld
			stage.explain(told)
		}
	}
	if o.JSON {
		err = errors.Join(err, r.writeJSON(o.Out))
	}
	if o.Keep && r.err == nil {
		stage.keep(ctx, told)
	}
	return err
}

// stage is what is set up around the scene, and taken down again.
type stage struct {
	options Options
	scene   *scene
	dir     string
	store   *store
	// installed is how much of the property belongs to the installation: it goes after the manager has stopped.
	installed int
	unwatch   func()
}

// set brings up everything that the steps need, and says so.
func (st *stage) set(ctx context.Context, say func(string)) (err error) {
	s, o := st.scene, st.options
	if st.dir, err = os.MkdirTemp("", "gatehouse-demo-"); err != nil {
		return err
	}
	if err := st.connect(ctx, say); err != nil {
		return err
	}
	s.pace = pretended
	if s.kubernetes.runsPods {
		s.pace = real
	}
	if s.kubernetes.auditLog != "" {
		s.audit = &auditlog.Log{File: s.kubernetes.auditLog, Config: s.kubernetes.config}
	}

	say("pushing images and signatures to a registry")
	if err := st.push(ctx); err != nil {
		return err
	}

	say("installing Gatehouse: CRDs, roles, policies")
	account, err := install(ctx, s.property)
	st.installed = len(s.property.created)
	if err != nil {
		return err
	}
	s.managerIs = "system:serviceaccount:" + account.Namespace + ":" + account.Name
	say("starting three replicas, each a process with the rights of its pod's ServiceAccount")
	s.manager = &manager{client: s.client, keeps: !s.kubernetes.own, options: kubelet.Options{
		Client: s.client, Config: s.kubernetes.config, Namespace: account.Namespace, Binary: o.Gatehouse, Dir: st.dir,
	}}
	err = s.manager.start(ctx, s.property)
	st.installed = len(s.property.created)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.manager.logs())
	}
	prefix := ""
	if s.kubernetes.own {
		prefix = "gatehouse-demo-"
	}
	s.tenants = tenants(prefix)
	if err := admit(ctx, s.property, s.tenants, s.release); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	wait, err := observe(watching, s.client, s.fleet, s.release)
	st.unwatch = func() { stop(); wait() }
	if err != nil {
		return err
	}
	return nil
}

// connect finds or starts the cluster.
func (st *stage) connect(ctx context.Context, say func(string)) (err error) {
	s, o := st.scene, st.options
	if o.Kubeconfig != "" {
		say("connecting to the cluster of " + o.Kubeconfig)
		s.kubernetes, err = connect(o.Kubeconfig)
	} else {
		say("starting Kubernetes: etcd, API server, controllers, scheduler and a node in one process")
		s.kubernetes, err = startDevcluster(ctx, o.Devcluster, o.Gatehouse, st.dir)
	}
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if s.client, err = client.NewWithWatch(s.kubernetes.config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	s.property = &property{client: s.client}
	if s.kubernetes.own {
		s.kubernetes.runsPods, err = runsPods(ctx, s.client)
	}
	return err
}

// runsPods says whether the nodes run containers. Where kwok's Stages are known, it only pretends to.
func runsPods(ctx context.Context, c client.Client) (bool, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	err := c.Get(ctx, client.ObjectKey{Name: "stages." + kwokstage.GroupVersionKind.Group}, &crd)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reach the cluster: %w", err)
	}
	return err != nil, nil
}

// push makes the images and puts them where Gatehouse and the nodes find them.
func (st *stage) push(ctx context.Context) (err error) {
	s, o := st.scene, st.options
	switch {
	case o.Registry != "":
		architecture, err := nodeArchitecture(ctx, s.client)
		if err != nil {
			return err
		}
		if st.store, err = useRegistry(ctx, o, architecture); err != nil {
			return err
		}
	case s.kubernetes.runsPods:
		return errors.New("the nodes of this cluster really run pods and cannot pull from a registry inside the demo: name one that you can push to and they can pull from without credentials, with --registry HOST/PATH")
	default:
		if st.store, err = serveRegistry(); err != nil {
			return err
		}
	}
	s.plainHTTP = st.store.plainHTTP
	s.repository = st.store.repository
	if s.signers, err = newSigners(); err != nil {
		return err
	}
	s.versions = map[string]version{}
	for _, name := range slices.Concat(goodVersions, []string{unsignedVersion, copiedVersion, badVersion}) {
		made, err := st.store.push(ctx, name, name == badVersion)
		if err != nil {
			return err
		}
		s.versions[name] = made
		signed := made
		switch name {
		case unsignedVersion:
			continue
		case copiedVersion:
			signed = s.versions["v2"]
		}
		if err := st.store.sign(ctx, s.signers, signed, made); err != nil {
			return err
		}
	}
	return nil
}

func nodeArchitecture(ctx context.Context, c client.Client) (string, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.Limit(1)); err != nil {
		return "", fmt.Errorf("nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return "", errors.New("the cluster has no node")
	}
	return nodes.Items[0].Status.NodeInfo.Architecture, nil
}

// explain tells what there is to know about a step that did not hold.
func (st *stage) explain(out io.Writer) {
	s := st.scene
	s.fleet.look(func() {
		if s.fleet.release == nil {
			return
		}
		status := s.fleet.release.Status
		fmt.Fprintf(out, "\nRelease %s, generation %d (observed %d): %s\n", s.release, s.fleet.release.Generation, status.ObservedGeneration, status.Summary)
		if ro := status.Rollout; ro != nil {
			fmt.Fprintf(out, "  attempt %d is %s; fleet %+v; %d in flight\n  %s\n", ro.Attempt, ro.State, ro.Fleet, len(ro.InFlight), ro.Message)
		}
		for _, c := range status.Conditions {
			fmt.Fprintf(out, "  %s=%s (%s)\n", c.Type, c.Status, c.Reason)
		}
	})
	if executor := s.fleet.executor; executor != nil {
		fmt.Fprintf(out, "\nExecutor %s: %s\n", executor.Name, saysOf(executor))
	}
	if logs := s.manager.logs(); logs != "" {
		fmt.Fprintf(out, "\nThe ends of the replicas' logs:\n%s\n", logs)
	}
}

// keep leaves everything running until the context ends, and tells how to look around.
func (st *stage) keep(ctx context.Context, out io.Writer) {
	s := st.scene
	fmt.Fprintf(out, `
It all goes on running. Look around from another terminal:

  export KUBECONFIG=%[1]s
  kubectl get gatewayreleases
  kubectl get gatewayinstances --all-namespaces
  kubectl get gatewayrelease %[2]s -o yaml
  gatehouse status
  kubectl get executors,executorpodstatuses --all-namespaces
  kubectl get controllerrevisions -n %[3]s
  kubectl get deployments,pods -n %[4]s

and edit the release yourself, to any of v1 to %[5]s:

  %[6]s

The replicas are processes that log to %[7]s; scale or restart deployment/gatehouse in %[3]s, delete a pod or kill a
process, and they follow. Ctrl-C ends it all and cleans up.
`, s.kubernetes.kubeconfig, s.release, systemNamespace, s.tenants[0].namespace, badVersion,
		imageEdit(s.release, s.versions["v2"].image), filepath.Join(st.dir, "gatehouse-*.log"))
	<-ctx.Done()
}

// strike takes everything down, in the order in which it can be.
func (st *stage) strike(ctx context.Context) error {
	s := st.scene
	var errs []error
	own := s.kubernetes != nil && s.kubernetes.own && s.property != nil
	if own {
		// While the manager still runs, as for anyone who deletes gateways.
		errs = append(errs, s.property.remove(ctx, min(st.installed, len(s.property.created))))
	}
	if st.unwatch != nil {
		st.unwatch()
	}
	if s.manager != nil {
		errs = append(errs, s.manager.stop(ctx))
	}
	if own {
		errs = append(errs, s.property.remove(ctx, 0))
	}
	if s.kubernetes != nil {
		errs = append(errs, s.kubernetes.stop(ctx))
	}
	if st.store != nil {
		errs = append(errs, st.store.close())
	}
	if st.dir != "" {
		errs = append(errs, os.RemoveAll(st.dir))
	}
	return errors.Join(errs...)
}
