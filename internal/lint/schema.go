package lint

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	machinery "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/config"
)

// definition is one version of one kind, as the API server would check it.
type definition struct {
	namespaced bool
	schema     *structural.Structural
	openAPI    validation.SchemaValidator
	rules      func() *cel.Validator // compiled when first used
}

// definitions reads the kinds of an installation.
func definitions() (map[schema.GroupVersionKind]*definition, error) {
	found := map[schema.GroupVersionKind]*definition{}
	files, err := fs.Glob(config.Manifests, "crd/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := config.Manifests.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			made, err := define(crd.Spec.Scope, version)
			if err != nil {
				return nil, fmt.Errorf("%s: version %s: %w", file, version.Name, err)
			}
			found[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = made
		}
	}
	return found, nil
}

func define(scope apiextensionsv1.ResourceScope, version *apiextensionsv1.CustomResourceDefinitionVersion) (*definition, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return nil, err
	}
	made := &definition{namespaced: scope == apiextensionsv1.NamespaceScoped}
	var err error
	if made.schema, err = structural.NewStructural(internal); err != nil {
		return nil, err
	}
	if made.openAPI, _, err = validation.NewSchemaValidator(internal); err != nil {
		return nil, err
	}
	made.rules = sync.OnceValue(func() *cel.Validator {
		return cel.NewValidator(made.schema, true, celconfig.PerCallLimit)
	})
	return made, nil
}

// check puts an object to the schema, as a create with strict field validation
// would, and leaves it with its defaults.
func (d *definition) check(ctx context.Context, object map[string]any) field.ErrorList {
	var faults field.ErrorList
	for _, path := range pruning.PruneWithOptions(object, d.schema, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		faults = append(faults, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field; correct its spelling or remove it"})
	}
	faults = append(faults, d.checkMetadata(object)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.schema)
	defaulting.Default(object, d.schema)
	shape := validation.ValidateCustomResource(nil, object, d.openAPI)
	shape = append(shape, listtype.ValidateListSetsAndMaps(nil, d.schema, object)...)
	faults = append(faults, shape...)
	if rules := d.rules(); len(shape) == 0 && rules != nil { // the rules presume the shape
		broken, _ := rules.Validate(ctx, nil, d.schema, object, nil, celconfig.RuntimeCELCostBudget)
		faults = append(faults, broken...)
	}
	return faults
}

func (d *definition) checkMetadata(object map[string]any) field.ErrorList {
	path := field.NewPath("metadata")
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return field.ErrorList{{Type: field.ErrorTypeRequired, Field: "metadata", Detail: "write metadata with a name"}}
	}
	var faults field.ErrorList
	name, _ := metadata["name"].(string)
	generated, _ := metadata["generateName"].(string)
	switch {
	case name == "" && generated == "":
		faults = append(faults, field.Required(path.Child("name"), "write a name"))
	case name != "":
		for _, message := range machinery.NameIsDNSSubdomain(name, false) {
			faults = append(faults, field.Invalid(path.Child("name"), name, message))
		}
	}
	if namespace, ok := metadata["namespace"].(string); ok && namespace != "" && !d.namespaced {
		faults = append(faults, field.Forbidden(path.Child("namespace"), "the kind belongs to the cluster; remove the namespace"))
	}
	return faults
}

// words are what a fault says, without its field, which stands apart.
func words(fault *field.Error) string {
	if fault.Type == field.ErrorTypeForbidden {
		return fault.Detail
	}
	return strings.TrimPrefix(fault.Error(), fault.Field+": ")
}
