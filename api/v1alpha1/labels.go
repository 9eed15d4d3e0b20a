package v1alpha1

const (
	// LabelManagedBy with the value ManagedBy is on every object that Gatehouse creates for a gateway; the caches of
	// workloads hold nothing else.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "gatehouse"
	// LabelGateway names the gateway that an object or a pod belongs to. It selects the pods of a gateway.
	LabelGateway = "gatehouse.dev/gateway"
	// LabelRelease names the release that a ControllerRevision is a revision of.
	LabelRelease = "gatehouse.dev/release"
	// LabelExecutorUID is, on a ControllerRevision, the UID of the Executor whose last good spec it stores; on an
	// ExecutorPodStatus, the UID of the Executor that it reports on.
	LabelExecutorUID = "gatehouse.dev/executor-uid"
	// LabelPodUID is, on an ExecutorPodStatus, the UID of the pod that reports.
	LabelPodUID = "gatehouse.dev/pod-uid"
	// LabelApplication and LabelComponent with the values Application and ComponentManager are on every pod that is a
	// replica of this installation, in Gatehouse's namespace.
	LabelApplication = "app.kubernetes.io/name"
	// Application is the value of LabelApplication.
	Application = "gatehouse"
	// LabelComponent tells the parts of an installation apart.
	LabelComponent = "app.kubernetes.io/component"
	// ComponentManager is the value of LabelComponent on a replica.
	ComponentManager = "manager"
	// AnnotationExecutor names, on a ControllerRevision, that Executor: namespace/name, with nothing before the slash for the cluster's kind.
	AnnotationExecutor = "gatehouse.dev/executor"

	// AnnotationReconcileRequestedAt asks for a pass now; any new value counts. It is the only annotation whose change
	// wakes a controller.
	AnnotationReconcileRequestedAt = "gatehouse.dev/reconcile-requested-at"
	// AnnotationAdopt, set by a person to "true" on an object that Gatehouse did not create, lets the gateway of the
	// same name take it over.
	AnnotationAdopt = "gatehouse.dev/adopt"
	// AnnotationInputs is, on an owned object, the hash of what it was rendered from: the recorded revision and the
	// gateway's own spec.
	AnnotationInputs = "gatehouse.dev/inputs"
	// AnnotationRevision, AnnotationRevisionRelease, AnnotationAttempt and AnnotationImage are, on a Deployment, the
	// marks from which a gateway that has lost its status is adopted; AnnotationImage keeps repository@digest.
	AnnotationRevision        = "gatehouse.dev/revision"
	AnnotationRevisionRelease = "gatehouse.dev/revision-release"
	AnnotationAttempt         = "gatehouse.dev/attempt"
	AnnotationImage           = "gatehouse.dev/image"
	// AnnotationTag keeps, for people, the tag that a digest was resolved from.
	AnnotationTag = "gatehouse.dev/tag"
	// AnnotationConfigHash is, on a pod template, the hash of the gateway's configuration files: a change rolls the pods.
	AnnotationConfigHash = "gatehouse.dev/config-hash"
)

const (
	// FieldOwnerGateway owns the fields of what the gateway controller applies.
	FieldOwnerGateway = "gatehouse-gateway"
	// FieldOwnerRelease owns what the release controller writes.
	FieldOwnerRelease = "gatehouse-release"
	// FieldOwnerExecutor owns what the executor controller writes.
	FieldOwnerExecutor = "gatehouse-executor"
	// FieldOwnerReplica owns a replica's reports.
	FieldOwnerReplica = "gatehouse-replica"
	// GatewayContainer is the name of the container of a profile's pod template that gets the release's image.
	GatewayContainer = "gateway"
	// ConfigVolume is the name of the volume that holds the files of a gateway's spec.config.
	ConfigVolume = "gatehouse-config"
)
