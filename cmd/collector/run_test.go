package main

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/sink"

	logtest "github.com/sirupsen/logrus/hooks/test"
)

// TestMetrics: the metrics of the collector are those that the documentation, the alerts and the dashboard name.
func TestMetrics(t *testing.T) {
	o, _, err := read([]string{"--ray-cluster-name=lab", "--role=Head", "--ray-tmp-dir=" + t.TempDir(), "--spool-dir=" + t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := local.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log, _ := logtest.NewNullLogger()
	servers := collector.NewServers(collector.Listeners{EventsAddress: collector.Loopback, MetricsAddress: collector.Loopback}, log)
	if err := servers.Open(); err != nil {
		t.Fatal(err)
	}
	registry := metricdocs.NewRegistry()
	c, err := o.open(store, collector.Options{Log: log, Servers: servers, Refused: &sink.Refused{}, EventBodyBytes: minEventBody}, registry)
	if err != nil {
		t.Fatal(err)
	}
	metricdocs.Compare(t, "../..", registry.Names(), "rayhistory_")
	c.Start()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
