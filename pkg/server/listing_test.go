package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
)

// brokenStore is a store whose listings fail, from when it is broken on.
type brokenStore struct {
	blob.Store
	broken atomic.Bool
}

func (s *brokenStore) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	if s.broken.Load() {
		return func(yield func(blob.Object, error) bool) { yield(blob.Object{}, errors.New("the bucket is away")) }
	}
	return s.Store.List(ctx, prefix, opts)
}

// silentStore is a store that does not answer.
type silentStore struct{ blob.Store }

func (silentStore) List(ctx context.Context, _ string, _ blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		<-ctx.Done()
		yield(blob.Object{}, context.Cause(ctx))
	}
}

// metricsOfCluster is a query of the metrics of a cluster's sessions.
const metricsOfCluster = "/namespaces/default/clusters/lab/api/v1/query?query=1"

func metricsServer(t *testing.T, c *catalog.Catalog) *Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := New(Options{
		Catalog: c, PromQL: promapi.New(promapi.Options{MaxSamples: 1000, Concurrent: 1, Wait: time.Second, Timeout: time.Minute}),
		Log: silent.Logger(), Registerer: registry, Gatherer: registry,
	})
	must.OK(t, err)
	return s
}

// TestMetricsOfAnOldList: while the store cannot be listed, queries of a cluster go on with the sessions that are known.
func TestMetricsOfAnOldList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := storetest.New()
		put(t, inner, layout.MarkerKey(root, layout.Session{Namespace: "default", Cluster: "lab", Name: name}), "")
		store := &brokenStore{Store: inner}
		c := catalog.New(catalog.Options{Store: store, Root: root, Interval: time.Minute, Log: silent.Logger(), Registerer: prometheus.NewRegistry()})
		c.Start()
		defer c.Close()
		s := metricsServer(t, c)
		c.List(t.Context())
		store.broken.Store(true)
		time.Sleep(time.Hour)
		if c.Known().Err == nil {
			t.Fatal("the list is not old")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, metricsOfCluster, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"scalar"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestMetricsWaitForTheList: queries wait for a store that has not answered yet as long as other requests, not as long as their clients like.
func TestMetricsWaitForTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := metricsServer(t, catalog.New(catalog.Options{Store: silentStore{}, Log: silent.Logger(), Registerer: prometheus.NewRegistry()})) // it is not started
		for _, path := range []string{metricsOfCluster, lab + "latest/api/v1/query?query=1"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || ctx.Err() != nil {
				t.Errorf("%s: %d %v %s", path, w.Code, ctx.Err(), w.Body)
			}
		}
	})
}
