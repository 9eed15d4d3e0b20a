package controlplane

import (
	"context"

	"k8s.io/client-go/tools/cache"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

func runControllerManager(ctx context.Context, dir *workdir.Dir, noGC bool) error {
	s, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	sets := s.Flags(known, disabled, aliases)
	s.ParsedFlags = &sets
	controllers := "*"
	if noGC {
		controllers += ",-garbage-collector-controller"
	}
	err = parse(sets,
		"--kubeconfig="+dir.File(KubeconfigFile),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file="+dir.File(serviceAccountKeyFile),
		"--root-ca-file="+dir.File(caFile),
		"--controllers="+controllers,
		// Fleets of hundreds are common here, and nobody shares this server.
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--concurrent-gc-syncs=20",
		"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
		// The machine may be too busy for a heartbeat; the node is not.
		"--node-monitor-grace-period=10m",
	)
	if err != nil {
		return err
	}
	c, err := s.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	return controllermanager.Run(ctx, c.Complete())
}

func runScheduler(ctx context.Context, dir *workdir.Dir) error {
	o := scheduleroptions.NewOptions()
	err := parse(*o.Flags,
		"--kubeconfig="+dir.File(KubeconfigFile),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
	)
	if err != nil {
		return err
	}
	if o.InformerName, err = cache.NewInformerName("kube-scheduler"); err != nil {
		return err
	}
	config, sched, err := scheduler.Setup(ctx, o)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, config, sched)
}
