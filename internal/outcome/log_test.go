package outcome_test

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

func TestLogLinesSayWhichObjectTheyAreAbout(t *testing.T) {
	var line string
	logger := funcr.New(func(_, arguments string) { line = arguments }, funcr.Options{})
	logged := outcome.Logged(logger, "gateway", types.NamespacedName.String)
	logged(&reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: "edge"}}).Info("a pass")
	if want := `"level"=0 "msg"="a pass" "gateway"="tenant/edge"`; line != want {
		t.Errorf("logged %s, want %s", line, want)
	}
	if logged(nil).Info("a start"); line != `"level"=0 "msg"="a start"` {
		t.Errorf("logged %s", line)
	}
}
