package main

import (
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// The clusters that the demo adds have ended, as long after their start as they ran.
func TestAddClusters(t *testing.T) {
	data := t.TempDir()
	if err := addClusters(data); err != nil {
		t.Fatal(err)
	}
	store, err := local.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	listing, err := catalog.New(catalog.Options{Store: store, Root: layout.DefaultRoot, Quiet: 10 * time.Minute, Log: log, Registerer: prometheus.NewRegistry()}).Look(t.Context())
	if err != nil || listing.Len() < 10 {
		t.Fatalf("%d sessions, %v", listing.Len(), err)
	}
	for e := range listing.All() {
		if d := e.Duration(time.Now()); e.Running || d < 10*time.Second || d > time.Hour {
			t.Errorf("%s: running %t, %s", e.Ref, e.Running, d)
		}
	}
}
