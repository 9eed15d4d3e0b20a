// Package kwokstage decides how the pods of an image behave on devcluster.
//
// The node of devcluster runs no containers: kwok moves its pods from state to
// state by Stage objects, and by default every pod becomes Ready at once. This
// package makes Stages, chosen by the digest a pod's image names, under which
// pods never become ready, crash, flap, or become ready late. That is how bad
// releases are shown and tested: the image is real, only its running is not.
//
// On a cluster with real nodes Stages have no effect and Apply reports that
// the kind is missing.
package kwokstage
