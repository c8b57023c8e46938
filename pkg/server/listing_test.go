package server

import (
	"context"
	"errors"
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
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
)

// metricsOfCluster is a query of the metrics of a cluster's sessions.
const metricsOfCluster = "/namespaces/default/clusters/lab/api/v1/query?query=1"

func metricsServer(t *testing.T, c *catalog.Catalog) *Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := New(Options{
		Catalog: c, PromQL: promapi.New(promapi.Options{MaxSamples: 1000, Concurrent: 1, Wait: time.Second,
			Timeout: time.Minute}),
		Log: silent.Logger(), Registerer: registry, Gatherer: registry,
	})
	must.OK(t, err)
	return s
}

// TestMetricsOfAnOldList: while the store cannot be listed, queries of a cluster go on with the sessions that are
// known.
func TestMetricsOfAnOldList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.New()
		put(t, store, layout.MarkerKey(root, layout.Session{Namespace: "default", Cluster: "lab", Name: name}), "")
		var away atomic.Bool
		store.ListFault = func(string) error {
			if away.Load() {
				return errors.New("the bucket is away")
			}
			return nil
		}
		c := catalog.New(catalog.Options{Store: store, Root: root, Interval: time.Minute, Log: silent.Logger(),
			Registerer: prometheus.NewRegistry()})
		c.Start()
		defer c.Close()
		s := metricsServer(t, c)
		c.List(t.Context())
		away.Store(true)
		time.Sleep(time.Hour)
		if c.Cached().Err == nil {
			t.Fatal("the list is not old")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, metricsOfCluster, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"scalar"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestMetricsWaitForTheList: queries wait for a store that has not answered yet as long as other requests, not as long
// as their clients like.
func TestMetricsWaitForTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unanswering := &storetest.Hooked{Before: storetest.On(storetest.List, storetest.Hang)}
		// it is not started
		s := metricsServer(t, catalog.New(catalog.Options{Store: unanswering, Log: silent.Logger(),
			Registerer: prometheus.NewRegistry()}))
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
