package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/dashboard"
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
		Notes: notes.NewBook(notes.BookOptions{}), Log: silent.Logger(), Registerer: registry, Gatherer: registry,
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
		must.True(t, c.Cached().Err != nil, "the list is not old")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, metricsOfCluster, nil))
		response.Is(t, w, http.StatusOK, `"scalar"`)
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

// TestBeginning: while older sessions are still read, no answer lets a part of the sessions pass for all of them.
func TestBeginning(t *testing.T) {
	store := storetest.New()
	newest := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var days []time.Time
	for n, of := range []int{1, 10_000} {
		start := newest.AddDate(0, 0, n-1)
		all := make([]packs.Facts, of)
		for i := range all {
			at := start.Add(time.Duration(i) * time.Second)
			all[i] = packs.Facts{Ref: layout.Session{Namespace: "default", Cluster: "lab",
				Name: at.Format("session_2006-01-02_15-04-05_000000_1")}, Seen: at, Start: at, End: at, LastWrite: at,
				Summary: packs.Summary{Objects: 1}}
		}
		days = append(days, layout.PackDay(all[0].Ref))
		must.OK(t, packs.Packs{Store: store, Root: root}.Append(t.Context(), days[n], nil, all))
	}
	slow := &storetest.Hooked{Store: store, Before: storetest.On(storetest.Get,
		func(ctx context.Context, key string) error {
			if key == layout.PackKey(root, days[0], 1) {
				return storetest.Hang(ctx, key)
			}
			return nil
		})}
	c := catalog.New(catalog.Options{Store: slow, Root: root, Packs: &packs.Packs{Store: slow, Root: root},
		Log: silent.Logger(), Registerer: prometheus.NewRegistry()})
	c.Start()
	defer c.Close()
	s := metricsServer(t, c)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	first := get("/clusters?limit=9990")
	next, _, ok := strings.Cut(strings.TrimPrefix(first.Header().Get("Link"), "<"), ">")
	if first.Code != http.StatusOK || !ok || !strings.Contains(first.Header().Get("Warning"), "sessions are missing") {
		t.Fatalf("the first part: %d %v", first.Code, first.Header())
	}
	for _, path := range []string{"/clusters" + next, "/api/history/fleet"} {
		if w := get(path); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
}

// TestRunsBeforeItIsDescribed: whether a session runs is told by its objects before the list has looked at them, too:
// its marker is as old as the session.
func TestRunsBeforeItIsDescribed(t *testing.T) {
	gate := make(chan struct{})
	f := start(t, func(o *Options, store *gatedStore) {
		store.gate = gate
		store.ListFault = func(prefix string) error {
			select {
			case <-gate:
				return nil
			default:
			}
			if strings.Contains(prefix, "lab_default/session_") {
				return errors.New("the store is slow")
			}
			return nil
		}
		o.Routes = []dashboard.Route{{Method: http.MethodGet, Path: "/api/runs",
			Serve: func(w http.ResponseWriter, r *dashboard.Request) { _, _ = fmt.Fprint(w, r.Runs(r.Context())) }}}
	})
	for strings.Count(f.log.String(), "cannot list the objects of a session") < 2 {
		time.Sleep(time.Millisecond)
	}
	close(gate)
	response := must.Get(http.Get(f.URL + lab + name + "/api/runs"))(t)
	defer response.Body.Close()
	says.Equal(t, string(must.Get(io.ReadAll(response.Body))(t)), "false", "it runs")
	says.None(t, f.ask(t, http.MethodGet, lab+name+"/overview", asBrowser).body, ">running<", "Running for")
}
