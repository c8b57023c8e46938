package main

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
)

// TestMetrics: the metrics of the collector are those that the documentation, the alerts and the dashboard name.
func TestMetrics(t *testing.T) {
	o, err := parse(t, []string{"--ray-cluster-name=lab", "--role=Head", "--events-port=0", "--metrics-port=0", "--local-dir=" + t.TempDir(), "--ray-tmp-dir=" + t.TempDir(), "--spool-dir=" + t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	registry := metricdocs.NewRegistry()
	c, err := o.open(t.Context(), log, minEventBody, registry)
	if err != nil {
		t.Fatal(err)
	}
	metricdocs.Compare(t, "../..", registry.Names(), "rayhistory_")
	c.Start()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
