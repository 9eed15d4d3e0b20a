package app

// What the manager may do, and nothing beyond it. `make generate` turns these lines into config/rbac/role.yaml.
//
// People own specs: of its own kinds the manager writes status alone.
// +kubebuilder:rbac:groups=gatehouse.dev,resources=gatewayreleases;gatewayinstances;gatewayprofiles;executors;namespacedexecutors,verbs=get;list;watch
// +kubebuilder:rbac:groups=gatehouse.dev,resources=gatewayreleases/status;gatewayinstances/status;executors/status;namespacedexecutors/status,verbs=get;patch
//
// What a gateway consists of.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch;delete
//
// Why a gateway's pods are not ready, and which namespaces a profile allows.
// +kubebuilder:rbac:groups="",resources=pods;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
//
// In Gatehouse's own namespace: credentials and trust that releases and Executors refer to, revisions, and the lease.
// +kubebuilder:rbac:groups="",namespace=gatehouse-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,namespace=gatehouse-system,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gatehouse-system,resources=leases,verbs=get;create;update
//
// What each replica serves: every one writes its own reports there, and the leader sweeps those of pods that are gone.
// +kubebuilder:rbac:groups=gatehouse.dev,namespace=gatehouse-system,resources=executorpodstatuses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gatehouse.dev,namespace=gatehouse-system,resources=executorpodstatuses/status,verbs=get;patch
//
// Dry runs of pod templates, before a revision of them is stored.
// +kubebuilder:rbac:groups="",namespace=gatehouse-system,resources=podtemplates,verbs=create
