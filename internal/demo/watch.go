package demo

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// observe keeps the fleet up to date until the context ends, and returns when it knows what is there now. Each kind is
// watched in one stream: informers are not used, as they keep the order of changes for each object only.
func observe(ctx context.Context, c client.WithWatch, f *fleet, release string) (wait func(), err error) {
	var streams sync.WaitGroup
	follow := func(list client.ObjectList, apply func(event apiwatch.EventType, object client.Object), options ...client.ListOption) error {
		if err := c.List(ctx, list, options...); err != nil {
			return fmt.Errorf("observe the fleet: %w", err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			f.update(func() { apply(apiwatch.Added, item.(client.Object)) })
			return nil
		})
		if err != nil {
			return err
		}
		w, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), source{client: c, list: list, options: options})
		if err != nil {
			return fmt.Errorf("observe the fleet: %w", err)
		}
		streams.Go(func() {
			for event := range w.ResultChan() {
				switch event.Type {
				case apiwatch.Added, apiwatch.Modified, apiwatch.Deleted:
					f.update(func() { apply(event.Type, event.Object.(client.Object)) })
				case apiwatch.Error:
					f.update(func() { f.broken = fmt.Errorf("%w: %v", errUnobserved, event.Object) })
				}
			}
		})
		return nil
	}

	err = follow(&appsv1.DeploymentList{}, func(event apiwatch.EventType, object client.Object) {
		put(f.workloads, event, object, workloadOf(object.(*appsv1.Deployment)))
	}, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	if err != nil {
		return nil, err
	}
	err = follow(&v1alpha1.GatewayInstanceList{}, func(event apiwatch.EventType, object client.Object) {
		put(f.gateways, event, object, object.(*v1alpha1.GatewayInstance))
	})
	if err != nil {
		return nil, err
	}
	err = follow(&v1alpha1.GatewayReleaseList{}, func(_ apiwatch.EventType, object client.Object) {
		if object.GetName() == release {
			f.release = object.(*v1alpha1.GatewayRelease)
		}
	})
	if err != nil {
		return nil, err
	}
	err = follow(&v1alpha1.ExecutorList{}, func(_ apiwatch.EventType, object client.Object) {
		if object.GetName() == executorName {
			f.executor = object.(*v1alpha1.Executor)
		}
	})
	return streams.Wait, err
}

func put[T any](known map[types.NamespacedName]T, event apiwatch.EventType, object client.Object, value T) {
	name := client.ObjectKeyFromObject(object)
	if event == apiwatch.Deleted {
		delete(known, name)
		return
	}
	known[name] = value
}

// source is where a watch that was cut begins again.
type source struct {
	client  client.WithWatch
	list    client.ObjectList
	options []client.ListOption
}

func (s source) WatchWithContext(ctx context.Context, raw metav1.ListOptions) (apiwatch.Interface, error) {
	empty := s.list.DeepCopyObject().(client.ObjectList)
	return s.client.Watch(ctx, empty, append(s.options[:len(s.options):len(s.options)], &client.ListOptions{Raw: &raw})...)
}
