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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// pageSize is how many clusters are listed by one request.
const pageSize = 500

// watcher keeps the RayClusters of one namespace, or of all, up to date by a watch. Unlike client-go's Reflector it
// says when the list is old, and why.
type watcher struct {
	client    client.WithWatch
	namespace string // empty: all
	selector  labels.Selector
	log       logrus.FieldLogger
	version   string // up to which changes are applied; empty: the clusters must be listed

	mu       sync.Mutex
	clusters map[types.NamespacedName]*rayv1.RayCluster
	at       time.Time     // when the clusters were last up to date; zero before the first listing
	err      error         // why they may be out of date
	first    chan struct{} // closed when listing was first tried; whether that failed says err
	tried    sync.Once     // closes first
}

func newWatcher(c client.WithWatch, namespace string, selector labels.Selector, log logrus.FieldLogger) *watcher {
	return &watcher{client: c, namespace: namespace, selector: selector, log: log, first: make(chan struct{})}
}

// run follows the clusters until ctx ends. When a watch ends it goes on after a pause, which grows with errors.
func (w *watcher) run(ctx context.Context) {
	retry := backoff.Backoff{Min: time.Second, Max: time.Minute}
	for ctx.Err() == nil {
		err := w.followOnce(ctx)
		w.recordError(ctx, err)
		if err == nil {
			retry.Reset() // API servers end watches now and then
		}
		_ = backoff.Sleep(ctx, retry.Next())
	}
}

// followOnce follows the changes of the clusters until the API server ends the watch, or ctx ends. It continues where
// the last watch ended: thousands of clusters are listed only at first, and after an error that the API server
// answered.
func (w *watcher) followOnce(ctx context.Context) error {
	if w.version == "" {
		if err := w.list(ctx); err != nil {
			return fmt.Errorf("list RayClusters: %w", withAdvice(err))
		}
	}
	err := w.follow(ctx)
	if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		// If the API server has forgotten the changes since w.version, follow has cleared it: the next call lists.
		return nil
	}
	return fmt.Errorf("watch RayClusters: %w", withAdvice(err))
}

// follow watches the clusters and applies their changes until the watch ends. The error says why the clusters may be
// out of date; if the API server answered with it, the version is cleared, so that they are listed again.
func (w *watcher) follow(ctx context.Context) error {
	changes, err := w.client.Watch(ctx, &rayv1.RayClusterList{}, client.InNamespace(w.namespace),
		client.MatchingLabelsSelector{Selector: w.selector},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: w.version, AllowWatchBookmarks: true}})
	if err != nil {
		// An API server that cannot be reached, or has too much to do, has forgotten nothing.
		var answer apierrors.APIStatus
		if errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) {
			w.version = ""
		}
		return err
	}
	defer changes.Stop()
	w.clearError()
	for {
		select {
		case <-ctx.Done():
			return nil
		case change, ok := <-changes.ResultChan():
			if !ok {
				return nil
			}
			if change.Type == watch.Error { // the API server need not end the watch
				w.version = ""
				return apierrors.FromObject(change.Object)
			}
			w.apply(change)
		}
	}
}

// list replaces what is known by a list of all clusters, from which the next watch continues.
func (w *watcher) list(ctx context.Context) error {
	clusters := map[types.NamespacedName]*rayv1.RayCluster{}
	var page rayv1.RayClusterList
	for more := true; more; more = page.Continue != "" {
		next := page.Continue
		page = rayv1.RayClusterList{}
		if err := w.client.List(ctx, &page, client.InNamespace(w.namespace), client.Limit(pageSize),
			client.Continue(next), client.MatchingLabelsSelector{Selector: w.selector}); err != nil {
			return err
		}
		for i := range page.Items {
			clusters[client.ObjectKeyFromObject(&page.Items[i])] = trimCluster(&page.Items[i])
		}
	}
	w.version = page.ResourceVersion
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clusters, w.at = clusters, time.Now()
	w.markTried()
	return nil
}

// trimCluster is a cluster without what takes most of its memory and nobody reads.
func trimCluster(c *rayv1.RayCluster) *rayv1.RayCluster {
	c.Annotations, c.ManagedFields = nil, nil
	return c
}

// clearError records that watching works again. Listing alone does not show it: who may list need not have the right to
// watch.
func (w *watcher) clearError() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		w.log.Info("running clusters can be watched again")
	}
	w.err, w.at = nil, time.Now()
}

// apply records a change of one cluster. A bookmark changes no cluster: it only says up to where the changes are known.
func (w *watcher) apply(change watch.Event) {
	cluster, ok := change.Object.(*rayv1.RayCluster)
	if !ok {
		return
	}
	w.version = cluster.ResourceVersion
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = time.Now()
	switch key := client.ObjectKeyFromObject(cluster); change.Type {
	case watch.Added, watch.Modified:
		w.clusters[key] = trimCluster(cluster)
	case watch.Deleted:
		delete(w.clusters, key)
	}
}

// recordError keeps an error for listings, and logs the first of several in a row. nil, and errors after ctx has ended,
// are ignored.
func (w *watcher) recordError(ctx context.Context, err error) {
	if ctx.Err() != nil || err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.log.WithError(err).Warn("running clusters cannot be watched; stored sessions are not affected")
	}
	w.err = err
	w.markTried()
}

// markTried ends the wait for the first answer.
func (w *watcher) markTried() { w.tried.Do(func() { close(w.first) }) }

// errNoKubeRay is an API server without KubeRay's types.
var errNoKubeRay = errors.New(
	"this Kubernetes has no RayClusters: KubeRay is not installed; install it or set --live=off")

// withAdvice adds what to do to the errors that people meet.
func withAdvice(err error) error {
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return errNoKubeRay
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; apply config/rbac/service_account.yaml, or set --live=off", err)
	}
	return err
}
