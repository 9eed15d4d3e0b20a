package outcome

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Logged has the log lines of a controller's passes say which object they are about: under key, as name writes it.
func Logged(logger logr.Logger, key string, name func(types.NamespacedName) string) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		if request == nil {
			return logger
		}
		return logger.WithValues(key, name(request.NamespacedName))
	}
}
