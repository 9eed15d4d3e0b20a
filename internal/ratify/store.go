package ratify

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The types of stores.
const (
	registryStore = "registry-store"
	layoutStore   = "filesystem-oci-store"
)

func (c *converter) stores() {
	for i, store := range c.from.Spec.Stores {
		field := fmt.Sprintf("spec.stores[%d]", i)
		name := fmt.Sprintf("store-%d", i+1)
		switch store.Type {
		case registryStore:
			c.registryStore(field+".parameters", name, store.Parameters)
		case layoutStore:
			c.layoutStore(field+".parameters", name, store.Parameters)
		default:
			c.fail(field+".type", "Gatehouse has no stores of type %q; use %s or %s", store.Type, registryStore, layoutStore)
		}
	}
	if len(c.spec.Stores) == 0 && !c.result.Failed() {
		c.fail("spec.stores", "none of them can be carried over, and Gatehouse would look into the image's registry instead; add a %s if that is meant", registryStore)
	}
}

func (c *converter) registryStore(field, name string, raw json.RawMessage) {
	parameters, err := read[registryParameters](raw)
	if err != nil {
		c.fail(field, "%v", err)
		return
	}
	if !c.sameScopes(parameters.Scopes) {
		c.fail(field+".scopes", splitRemedy)
	}
	access := v1alpha1.RegistryAccess{PlainHTTP: parameters.PlainHTTP}
	if parameters.UserAgent != "" {
		c.warn(field+".userAgent", "is not carried over: Gatehouse introduces itself as gatehouse")
	}
	if parameters.MaxBlobBytes != 0 || parameters.MaxManifestBytes != 0 {
		c.warn(field, "maxBlobBytes and maxManifestBytes are not carried over: Gatehouse has bounds of its own")
	}
	if !parameters.AllowCosignTag {
		c.warn(field+".allowCosignTag", "Gatehouse looks for cosign signatures under their tag, too; who must have signed stays the same")
	}
	if credential := parameters.Credential; credential != nil {
		access.Credentials = c.credentials(field+".credential", name, parameters)
	}
	c.spec.Stores = append(c.spec.Stores, v1alpha1.Store{Name: name, Registry: &v1alpha1.RegistryStore{RegistryAccess: access}})
}

// credentials makes the Secret that holds a user name and a password.
func (c *converter) credentials(field, name string, parameters registryParameters) *v1alpha1.RegistryCredentials {
	credential := parameters.Credential
	switch {
	case credential.Provider != "static" && credential.Provider != "":
		c.warn(field+".provider", "credentials of provider %q are not carried over, signatures are looked for anonymously; put credentials into a Secret of type %s and name it in spec.stores", credential.Provider, corev1.SecretTypeDockerConfigJson)
		return nil
	case credential.Username == "" && credential.Password == "":
		return nil // anonymous, as Ratify was
	case parameters.PlainHTTP:
		c.warn(field, "is not carried over: Gatehouse sends no credentials over plain HTTP; set plainHTTP to false to use them")
		return nil
	}
	type login struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	logins := map[string]login{}
	for _, scope := range c.from.Spec.Scopes {
		host, _, _ := strings.Cut(scope, "/")
		if strings.HasPrefix(host, "*") {
			c.warn(field, "the Secret does not hold the credentials for %s: they are given for each registry by name; add those that you use", host)
			continue
		}
		logins[host] = login{credential.Username, credential.Password}
	}
	if len(logins) == 0 {
		return nil
	}
	content, err := json.Marshal(map[string]any{"auths": logins})
	if err != nil {
		c.fail(field, "cannot be written as JSON: %v", err)
		return nil
	}
	secret := label(c.from.Metadata.Name + "-" + name)
	c.result.Secrets = append(c.result.Secrets, &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: secret, Namespace: c.namespace()},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: content},
	})
	return &v1alpha1.RegistryCredentials{SecretRef: v1alpha1.LocalObjectReference{Name: secret}}
}

func (c *converter) layoutStore(field, name string, raw json.RawMessage) {
	parameters, err := read[layoutParameters](raw)
	switch {
	case err != nil:
		c.fail(field, "%v", err)
		return
	case !c.sameScopes(parameters.Scopes):
		c.fail(field+".scopes", splitRemedy)
		return
	case c.namespaced():
		c.warn(field, "is not carried over: a NamespacedExecutor reads no folders of the replicas")
		return
	}
	below := strings.TrimPrefix(path.Clean("/"+parameters.Path), "/")
	if below == "" {
		c.fail(field+".path", "is missing; name the folder with the OCI image layout")
		return
	}
	c.warn(field+".path", "the folder %s is looked for as %s below the folder that --oci-layout-root names; mount it there", parameters.Path, below)
	c.spec.Stores = append(c.spec.Stores, v1alpha1.Store{Name: name, OCILayout: &v1alpha1.OCILayoutStore{Path: below}})
}
