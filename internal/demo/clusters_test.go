package main

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// The clusters that the demo adds have ended, as long after their start as they ran. The picture of the list shows one
// that runs and has failed jobs.
func TestClusters(t *testing.T) {
	data := t.TempDir()
	must.OK(t, addClusters(data))
	listing := list(t, data)
	must.True(t, listing.Len() >= 10, "%d sessions", listing.Len())
	for e := range listing.All() {
		d := e.Duration(time.Now())
		says.True(t, !e.Running && d >= 10*time.Second && d <= time.Hour, "%s: running %t, %s", e.Ref, e.Running, d)
	}
	must.OK(t, showRunning(data, "even260"))
	for e := range list(t, data).All() {
		if shown := e.Ref.Cluster == "even260"; e.Running != shown || e.FailedJobs > 0 != shown {
			t.Errorf("%s: running %t, %d failed jobs", e.Ref, e.Running, e.FailedJobs)
		}
	}
}

func list(t *testing.T, data string) catalog.Listing {
	t.Helper()
	store, err := local.Open(data)
	must.OK(t, err)
	listing, err := catalog.New(catalog.Options{Store: store, Root: layout.DefaultRoot, Quiet: 10 * time.Minute,
		Log: silent.Logger(), Registerer: prometheus.NewRegistry()}).ReadAll(t.Context())
	must.OK(t, err)
	return listing
}
