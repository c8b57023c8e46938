package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/pkg/kube/rayv1"
)

// watcher keeps the RayClusters of one namespace, or of all, as the API server tells of them.
type watcher struct {
	client    client.WithWatch
	namespace string // empty: all
	selector  labels.Selector
	log       logrus.FieldLogger

	mu       sync.Mutex
	clusters map[types.NamespacedName]*rayv1.RayCluster
	at       time.Time // when the clusters were last known to be right; zero before the first listing
	err      error     // why they may not be right now
	first    chan struct{}
	tried    bool
}

func newWatcher(c client.WithWatch, namespace string, selector labels.Selector, log logrus.FieldLogger) *watcher {
	return &watcher{client: c, namespace: namespace, selector: selector, log: log, first: make(chan struct{})}
}

// run follows the clusters until ctx ends. A watch that ends is begun anew with a listing; after errors ever more rarely.
func (w *watcher) run(ctx context.Context) {
	fresh := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 7, Cap: time.Minute}
	backoff := fresh
	for ctx.Err() == nil {
		err := w.followOnce(ctx)
		w.note(ctx, err)
		if err == nil {
			backoff = fresh // API servers end watches now and then
		}
		pause := backoff.Step()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// followOnce lists the clusters and follows what happens to them until the API server ends the watch.
func (w *watcher) followOnce(ctx context.Context) error {
	var list rayv1.RayClusterList
	if err := w.client.List(ctx, &list, client.InNamespace(w.namespace), client.MatchingLabelsSelector{Selector: w.selector}); err != nil {
		return fmt.Errorf("list RayClusters: %w", explain(err))
	}
	w.replace(list.Items)
	changes, err := w.client.Watch(ctx, &rayv1.RayClusterList{}, client.InNamespace(w.namespace), client.MatchingLabelsSelector{Selector: w.selector},
		&client.ListOptions{Raw: listOptions(list.ResourceVersion)})
	if err != nil {
		return fmt.Errorf("watch RayClusters: %w", explain(err))
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case change, ok := <-changes.ResultChan():
			if !ok {
				return nil
			}
			if err := w.apply(change); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) replace(items []rayv1.RayCluster) {
	clusters := make(map[types.NamespacedName]*rayv1.RayCluster, len(items))
	for i := range items {
		clusters[client.ObjectKeyFromObject(&items[i])] = &items[i]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		w.log.Info("running clusters can be listed again")
	}
	w.clusters, w.at, w.err = clusters, time.Now(), nil
	w.answered()
}

func (w *watcher) apply(change watch.Event) error {
	if change.Type == watch.Error {
		err := apierrors.FromObject(change.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return nil // the listing begins anew
		}
		return fmt.Errorf("watch RayClusters: %w", err)
	}
	cluster, ok := change.Object.(*rayv1.RayCluster)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = time.Now()
	switch key := client.ObjectKeyFromObject(cluster); change.Type {
	case watch.Added, watch.Modified:
		w.clusters[key] = cluster
	case watch.Deleted:
		delete(w.clusters, key)
	}
	return nil
}

// note remembers an error and logs the first of a row.
func (w *watcher) note(ctx context.Context, err error) {
	if ctx.Err() != nil || err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.log.WithError(err).Warn("running clusters cannot be followed; stored sessions are not concerned")
	}
	w.err = err
	w.answered()
}

// answered lets those go on who wait for the first answer.
func (w *watcher) answered() {
	if !w.tried {
		w.tried = true
		close(w.first)
	}
}

// errNoKubeRay is an API server without KubeRay's types.
var errNoKubeRay = errors.New("this Kubernetes has no RayClusters: KubeRay is not installed; install it or set --live=off")

// explain adds what to do to the errors that people meet.
func explain(err error) error {
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return errNoKubeRay
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; apply config/service_account.yaml, or set --live=off", err)
	}
	return err
}
