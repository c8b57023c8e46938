package main

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

// TestMetrics: the metrics of the collector are those that the documentation, the alerts and the dashboard name.
func TestMetrics(t *testing.T) {
	o, _, err := read([]string{"--ray-cluster-name=lab", "--role=Head", "--ray-tmp-dir=" + t.TempDir(),
		"--spool-dir=" + t.TempDir(), "--redact=secret"}, nil)
	must.OK(t, err)
	store := storetest.New()
	log := silent.Logger()
	servers := collector.NewServers(collector.Listeners{EventsAddress: collector.Loopback,
		MetricsAddress: collector.Loopback}, log)
	must.OK(t, servers.Open())
	registry := metricdocs.NewRegistry()
	o.Log, o.Servers, o.Refused, o.EventBodyBytes = log, servers, &sink.Refused{}, minEventBody
	c, err := o.open(store, registry)
	must.OK(t, err)
	metricdocs.Compare(t, "../..", registry.Names(), "rayhistory_")
	c.Start()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
