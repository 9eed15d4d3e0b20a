// Package controlplane runs etcd and the components of Kubernetes' control
// plane in this process, each by the Run function of its own command with the
// flags a person would give it. There is one control plane per process: the
// components register metrics, feature gates and configuration globally, so it
// cannot be started twice.
package controlplane
