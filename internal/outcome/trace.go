package outcome

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Traced gives every pass of a controller a span, at the tracer provider that the process has set; without one it
// costs nothing.
func Traced(controller string, next reconcile.Reconciler) reconcile.Reconciler {
	tracer := otel.Tracer("github.com/gatehouse-dev/gatehouse")
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		ctx, span := tracer.Start(ctx, controller+" pass", trace.WithAttributes(
			attribute.String("namespace", request.Namespace), attribute.String("name", request.Name)))
		defer span.End()
		result, err := next.Reconcile(ctx, request)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, "pass failed")
		}
		return result, err
	})
}
