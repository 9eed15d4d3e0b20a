package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus: Ready is always present, the other two only while
// they are true.
const (
	// ConditionReady of a release means that its rollout is complete; of a gateway, that it runs what it was given and
	// all its replicas are available; of an Executor, that its present spec serves, with everything that it names.
	ConditionReady = "Ready"
	// ConditionReconciling is True while work is under way.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while only a person can bring the object further.
	ConditionStalled = "Stalled"

	// ConditionAccepted of a release says whether its spec and its profile are well-formed.
	ConditionAccepted = "Accepted"
	// ConditionResolved of a release says whether its image has been resolved to a digest.
	ConditionResolved = "Resolved"
	// ConditionVerified of a release says by whom its images are vouched for, or why not. It is absent when verification
	// is Disabled.
	ConditionVerified = "Verified"

	// ConditionSharedScope of an Executor is True while another of its kind has one of its scopes too.
	ConditionSharedScope = "SharedScope"
)

// Reasons of conditions and events.
const (
	// Of a release.
	ReasonAccepted            = "Accepted"
	ReasonInvalidImage        = "InvalidImage"
	ReasonProfileNotFound     = "ProfileNotFound"
	ReasonInvalidProfile      = "InvalidProfile"
	ReasonInvalidAccess       = "InvalidRegistryAccess"
	ReasonResolving           = "Resolving"
	ReasonResolved            = "Resolved"
	ReasonRegistryUnavailable = "RegistryUnavailable"
	ReasonNotAccepted         = "NotAccepted"
	ReasonForeignRevision     = "ForeignRevision"
	ReasonVerified            = "Verified"
	ReasonNoExecutor          = "NoExecutor"
	ReasonNoLongerVerified    = "NoLongerVerified"
	ReasonNotRequired         = "NotRequired"
	ReasonRolloutStarted      = "RolloutStarted"
	ReasonRolloutProgressing  = "RolloutProgressing"
	ReasonRolloutPaused       = "RolloutPaused"
	ReasonRolloutFailed       = "RolloutFailed"
	ReasonRolloutComplete     = "RolloutComplete"

	// Of either.
	ReasonForbidden          = "Forbidden"
	ReasonVerifying          = "Verifying"
	ReasonVerificationFailed = "VerificationFailed"
	ReasonCannotVerify       = "CannotVerify"

	// Of an Executor.
	ReasonServing         = "Serving"
	ReasonMaterialMissing = "MaterialMissing"
	ReasonUnreadable      = "Unreadable"
	ReasonNotCompiled     = "NotCompiled"
	ReasonEqualScope      = "EqualScope"
	ReasonNotReported     = "NotReported"
	ReasonTrustDiffers    = "TrustDiffers"
	ReasonNoReplica       = "NoReplica"

	// Of a gateway.
	ReasonReleaseNotFound     = "ReleaseNotFound"
	ReasonRevisionNotFound    = "RevisionNotFound"
	ReasonWaitingForRelease   = "WaitingForRelease"
	ReasonNotAdopted          = "NotAdopted"
	ReasonWaitingForWindow    = "WaitingForWindow"
	ReasonWithheld            = "RevisionWithheld"
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	ReasonForeignObject       = "ForeignObject"
	ReasonInvalidSpec         = "InvalidSpec"
	ReasonApplyFailed         = "ApplyFailed"
	ReasonAdopted             = "Adopted"
	ReasonProgressing         = "Progressing"
	ReasonNotProgressing      = "NotProgressing"
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	ReasonReplicasAvailable   = "ReplicasAvailable"
	ReasonDriftRepaired       = "DriftRepaired"
)
