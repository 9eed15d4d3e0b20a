package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// APIVersion and ListKind mark a List in JSON and YAML. Fields are added to this version, and neither removed nor given
// another meaning.
const (
	APIVersion = "cli.gatehouse.dev/v1"
	ListKind   = "ExecutorReplicasList"
)

// List is what a question came to. All its texts are fit for a terminal: what cannot be printed is escaped.
type List struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Ready says that every Executor that was asked about is: those in Items, and there are no Errors.
	Ready bool `json:"ready"`
	// Items are the cluster's Executors, by name, and then NamespacedExecutors, by namespace and name.
	Items []Executor `json:"items"`
	// Notes say what was left out because it may not be read, that there is nothing to tell of, or that no replica serves.
	Notes []string `json:"notes,omitempty"`
	// Errors say what was asked for and cannot be told.
	Errors []string `json:"errors,omitempty"`
}

// Executor is one Executor or NamespacedExecutor, and who serves it.
type Executor struct {
	Kind      v1alpha1.ExecutorKind `json:"kind"`
	Namespace string                `json:"namespace,omitempty"`
	Name      string                `json:"name"`
	UID       types.UID             `json:"uid"`
	Mode      v1alpha1.Mode         `json:"mode,omitempty"`
	// Generation is that of the spec; ObservedGeneration is the one that the status is about.
	Generation         int64 `json:"generation"`
	ObservedGeneration int64 `json:"observedGeneration"`
	// Ready says that the condition Ready is True, of the present generation.
	Ready bool `json:"ready"`
	// Since is when the condition Ready last changed.
	Since *metav1.Time `json:"since,omitempty"`
	// BriefError says why it is not ready, in a line; Error in full, in lines.
	BriefError string `json:"briefError,omitempty"`
	Error      string `json:"error,omitempty"`
	// Counts are of all replicas, also of those that Replicas leaves out.
	Counts v1alpha1.ReplicaCounts `json:"replicas"`
	// Replicas are those with trouble first, then by name, and last those that do not serve.
	Replicas []Replica `json:"byPod"`

	listed int // by the status itself
}

// Replica is one pod of the installation, and what it serves of an Executor.
type Replica struct {
	Pod    string    `json:"pod"`
	PodUID types.UID `json:"podUID,omitempty"`
	// Serving says that the pod is Ready and so gets requests. The others count for nothing.
	Serving bool `json:"serving"`
	// ObservedGeneration was attempted last; ServingGeneration answers; Inputs is a hash of what answers. Zero and
	// empty: nothing was reported, or the report was not read.
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	ServingGeneration  int64  `json:"servingGeneration,omitempty"`
	Inputs             string `json:"inputs,omitempty"`
	// Succeeded says that it serves the present generation and trusts what the leader trusts.
	Succeeded bool `json:"succeeded"`
	// Reason is one of those of an Executor's conditions. It and Error, in full, come from the replica's own report.
	Reason     string `json:"reason,omitempty"`
	BriefError string `json:"briefError,omitempty"`
	Error      string `json:"error,omitempty"`
	// Since is when what the replica reports last changed; of a pod that does not serve, when it came to that.
	Since *metav1.Time `json:"since,omitempty"`
}

// Answer is the short form of a List.
type Answer int

// The answers.
const (
	// AllReady: every Executor that was asked about is Ready.
	AllReady Answer = iota
	// NotReady: at least one is not.
	NotReady
	// CannotTell: something that was asked about could not be read, or is not there.
	CannotTell
)

// Answer is what the list says in short.
func (l *List) Answer() Answer {
	switch {
	case len(l.Errors) > 0:
		return CannotTell
	case !l.Ready:
		return NotReady
	default:
		return AllReady
	}
}
