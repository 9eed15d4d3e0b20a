package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// annotationLimit is how long an object's annotations may be altogether. A client-side apply stores the whole object in
// one of them.
const annotationLimit = 262144

// Fails when `kubectl apply -k config/default` would fail: a folder that does not build, an object that the API server
// refuses or that is too large, or a manager that restricted pod security does not let run.
func TestTheKustomizeBaseAppliesAndItsManagerIsLetRun(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config/default"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, object := range rendered.Resources() {
		kinds[object.GetKind()]++
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > annotationLimit {
			t.Errorf("%s %s has %d bytes: a client-side apply, which stores it in an annotation, fails beyond %d", object.GetKind(), object.GetName(), len(text), annotationLimit)
		}
	}
	for kind, want := range map[string]int{"CustomResourceDefinition": 6, "Deployment": 1, "ServiceAccount": 1, "Namespace": 1, "PodDisruptionBudget": 1} {
		if kinds[kind] != want {
			t.Errorf("%d objects of kind %s, want %d", kinds[kind], kind, want)
		}
	}
	for _, resource := range rendered.Resources() {
		text, err := resource.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		err = product.Client.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, text),
			client.DryRunAll, client.ForceOwnership, client.FieldOwner("kubectl"), client.FieldValidation(metav1.FieldValidationStrict))
		if err != nil {
			t.Errorf("kubectl apply --server-side --dry-run=server: %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	text, err := rendered.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	if err := product.ApplyText(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}

	namespace := &corev1.Namespace{}
	if err := product.Client.Get(t.Context(), client.ObjectKey{Name: fleet.Namespace}, namespace); err != nil {
		t.Fatal(err)
	}
	if level := namespace.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Errorf("the namespace enforces the pod security level %q", level)
	}
	// Pods that are Ready and run no Gatehouse are not for those who count replicas.
	defer awayWithTheManager(t)
	// The node of the test cluster runs no containers: what is shown is that the API server lets the pods be.
	deployment := &appsv1.Deployment{}
	eventually.Succeeds(t, fleet.Patience, func() error {
		if err := product.Client.Get(t.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: "gatehouse"}, deployment); err != nil {
			return err
		}
		if deployment.Status.AvailableReplicas != 3 {
			return fmt.Errorf("the manager's Deployment has %d available replicas, want 3: %s", deployment.Status.AvailableReplicas, asJSON(t, deployment.Status.Conditions))
		}
		return nil
	})
	eventually.Succeeds(t, fleet.Patience, func() error {
		budget := &policyv1.PodDisruptionBudget{}
		if err := product.Client.Get(t.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: "gatehouse"}, budget); err != nil {
			return err
		}
		if s := budget.Status; s.ExpectedPods != 3 || s.CurrentHealthy != 3 || s.DisruptionsAllowed != 1 {
			return fmt.Errorf("of 3 replicas the PodDisruptionBudget knows %d, holds %d for healthy and lets %d go", s.ExpectedPods, s.CurrentHealthy, s.DisruptionsAllowed)
		}
		return nil
	})
	pods := replicaPods(t)
	if len(pods) != 3 {
		t.Errorf("%d pods carry the labels by which Gatehouse knows its replicas, want 3", len(pods))
	}
	for _, pod := range pods {
		told := map[string]string{}
		for _, variable := range pod.Spec.Containers[0].Env {
			told[variable.Name] = variable.ValueFrom.FieldRef.FieldPath
		}
		if want := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}; !maps.Equal(told, want) {
			t.Errorf("the replica is told %v, want %v", told, want)
		}
	}
	// An upgrade takes no replica away before another serves, and one that is asked to stop has the time it needs.
	if rolling := deployment.Spec.Strategy.RollingUpdate; rolling == nil || rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
		t.Errorf("the manager is upgraded by %s", asJSON(t, deployment.Spec.Strategy))
	}
	var spread []string
	for _, constraint := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.ScheduleAnyway {
			t.Errorf("with fewer of %s than replicas, some wait for ever", constraint.TopologyKey)
		}
		spread = append(spread, constraint.TopologyKey)
	}
	if want := []string{corev1.LabelHostname, corev1.LabelTopologyZone}; !slices.Equal(spread, want) {
		t.Errorf("replicas are spread over %v, want %v", spread, want)
	}
}

// replicaPods are the pods that Gatehouse takes for its replicas.
func replicaPods(t *testing.T) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	err := product.Client.List(t.Context(), pods, client.InNamespace(fleet.Namespace), client.MatchingLabels{
		v1alpha1.LabelApplication: v1alpha1.Application, v1alpha1.LabelComponent: v1alpha1.ComponentManager,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// awayWithTheManager deletes the manager's Deployment, and returns when its pods are gone.
func awayWithTheManager(t *testing.T) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: "gatehouse"}}
	if err := client.IgnoreNotFound(product.Client.Delete(t.Context(), deployment)); err != nil {
		t.Error(err)
	}
	eventually.Succeeds(t, fleet.Patience, func() error {
		if pods := replicaPods(t); len(pods) > 0 {
			return fmt.Errorf("%d pods of the manager are still there", len(pods))
		}
		return nil
	})
}

// Fails when the samples and the documents show what does not apply.
func TestSamplesAndExamplesInTheDocumentsApply(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	examples, err := examples(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(examples) < 4 {
		t.Fatalf("%d examples found", len(examples))
	}
	if !slices.ContainsFunc(examples, func(e example) bool {
		return strings.HasPrefix(e.where, "README.md") && e.object.GetKind() == "ClusterRoleBinding"
	}) {
		t.Error("README.md does not show how a tenant is let use a release, or its step is not read")
	}
	for _, e := range examples {
		t.Run(e.where, func(t *testing.T) {
			if namespace := e.object.GetNamespace(); namespace != "" {
				ns := &corev1.Namespace{}
				ns.Name = namespace
				if err := product.Client.Create(t.Context(), ns); client.IgnoreAlreadyExists(err) != nil {
					t.Fatal(err)
				}
			}
			err := product.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(e.object.DeepCopy()),
				client.DryRunAll, client.ForceOwnership, client.FieldOwner("a-reader"))
			if err != nil {
				t.Errorf("%v in\n%s", err, asJSON(t, e.object))
			}
		})
	}
}

// Fails when `kubectl explain` has nothing to say about a field that a person may write.
func TestEveryFieldIsExplained(t *testing.T) {
	for _, plural := range []string{"gatewayreleases", "gatewayinstances", "gatewayprofiles"} {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := product.Client.Get(t.Context(), client.ObjectKey{Name: plural + ".gatehouse.dev"}, definition); err != nil {
			t.Fatal(err)
		}
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		if schema.Description == "" {
			t.Errorf("%s is not explained", plural)
		}
		fields := 0
		unexplained(definition.Spec.Names.Singular, schema, &fields, func(path string) {
			// apiVersion, kind and metadata are everybody's.
			t.Errorf("%s is not explained", path)
		})
		if fields < 10 {
			t.Errorf("%s: %d fields found", plural, fields)
		}
	}
	// And that is what the API server publishes, for kubectl.
	published, err := raw(t, "/openapi/v3/apis/gatehouse.dev/v1alpha1", "application/json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(published), "How many gateways of the fleet may be under way at once") {
		t.Error("the API server does not publish what maxUnavailable is")
	}
}

func unexplained(path string, schema *apiextensionsv1.JSONSchemaProps, fields *int, report func(string)) {
	for name, field := range schema.Properties {
		*fields++
		inner := path + "." + name
		if field.Description == "" && name != "metadata" {
			report(inner)
		}
		unexplained(inner, &field, fields, report)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		unexplained(path+"[]", schema.Items.Schema, fields, report)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		unexplained(path+"{}", schema.AdditionalProperties.Schema, fields, report)
	}
}

// columns asks for an object as kubectl does for a table, and returns its cells by the names of their columns.
func columns(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := raw(t, path, "application/json;as=Table;v=v1;g=meta.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		ColumnDefinitions []struct {
			Name     string `json:"name"`
			Priority int    `json:"priority"`
		} `json:"columnDefinitions"`
		Rows []struct {
			Cells []any `json:"cells"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows of %s", len(table.Rows), path)
	}
	cells := map[string]any{}
	for n, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			cells[strings.ToUpper(column.Name)] = table.Rows[0].Cells[n]
		}
	}
	return cells
}

// Fails when a column is missing, empty, or shows something else than a person asks for.
func TestColumnsAnswerWhatAPersonAsks(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	check := func(path string, want map[string]any) error {
		got := columns(t, path)
		var wrong []error
		for name, value := range want {
			if fmt.Sprint(got[name]) != fmt.Sprint(value) {
				wrong = append(wrong, fmt.Errorf("column %s is %v, want %v", name, got[name], value))
			}
		}
		if age, _ := got["AGE"].(string); age == "" || len(got) != len(want)+2 { // and NAME
			wrong = append(wrong, fmt.Errorf("the columns are %v", got))
		}
		return errors.Join(wrong...)
	}
	releases := "/apis/gatehouse.dev/v1alpha1/gatewayreleases/" + f.Name
	gateways := "/apis/gatehouse.dev/v1alpha1/namespaces/" + f.Gateways[0].Namespace + "/gatewayinstances/" + f.Gateways[0].Name
	err := errors.Join(
		check(releases, map[string]any{"STATUS": "Available", "IMAGE": f.Pinned(f.V1), "UPDATED": 2, "READY": 2, "TOTAL": 2}),
		check(gateways, map[string]any{"RELEASE": f.Name, "PHASE": "Running", "READY": "1/1", "IMAGE": f.Name + "@" + strings.TrimPrefix(f.V1.Short(), "sha256:")}),
	)
	if err != nil {
		t.Error(err)
	}

	f.SetImage(t, "no tag")
	eventually.Succeeds(t, soon, func() error {
		if status, _ := columns(t, releases)["STATUS"].(string); !strings.HasPrefix(status, "Invalid: ") {
			return fmt.Errorf("column STATUS is %q", status)
		}
		return nil
	})
}
