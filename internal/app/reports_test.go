package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// A replica is not ready before it has reported what it serves; without a pod there is nothing to wait for.
func TestAReplicaIsReadyOnceItHasReported(t *testing.T) {
	for pod, want := range map[string]struct {
		code int
		body string
	}{
		"gatehouse-0": {http.StatusServiceUnavailable, "reports of what this replica serves: those of before are not listed yet\n"},
		"":            {http.StatusOK, "ok\n"},
	} {
		watches, _, _ := newTestWatches(t)
		p := &process{config: Config{Namespace: "gatehouse-system", Pod: pod, Resync: time.Minute}, rest: &rest.Config{Host: "127.0.0.1:1"}}
		p.ready.watches = watches
		mgr, err := ctrl.NewManager(p.rest, ctrl.Options{Scheme: newScheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			t.Fatal(err)
		}
		live := executor.NewLive(clock.RealClock{})
		live.Expect(nil)
		p.ready.live.Store(live)
		if err := p.reports(mgr, executor.NewBoard(), live); err != nil {
			t.Fatal(err)
		}
		p.ready.synced.Store(true)
		answer := httptest.NewRecorder()
		p.ready.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if answer.Code != want.code || answer.Body.String() != want.body {
			t.Errorf("pod %q: %d %q, want %d %q", pod, answer.Code, answer.Body, want.code, want.body)
		}
	}
}

// By their labels the pods of Gatehouse's own namespace are known as its replicas; the rest of them costs no memory.
func TestPodsOfGatehousesNamespaceKeepTheirLabels(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelApplication: v1alpha1.Application, v1alpha1.LabelComponent: v1alpha1.ComponentManager}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "gatehouse-0", UID: "1", Labels: labels, Annotations: map[string]string{"large": "text"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for range 2 { // what is transformed already stays as it is
		if _, err := labelled(pod); err != nil {
			t.Fatal(err)
		}
		if len(pod.Labels) != 2 || pod.UID != "1" || len(pod.Status.Conditions) != 1 || pod.Annotations != nil || pod.Spec.Containers != nil {
			t.Errorf("%+v", pod)
		}
	}
}
