// Package config carries the manifests of an installation inside the binary, so that they can be applied without a
// checkout and without kustomize.
package config

import "embed"

// Manifests holds the files of crd, rbac, policy and manager. Each folder has the kustomization.yaml by which it is applied
// from a checkout; it is no manifest.
//
//go:embed crd/*.yaml rbac/*.yaml policy/*.yaml manager/*.yaml
var Manifests embed.FS
