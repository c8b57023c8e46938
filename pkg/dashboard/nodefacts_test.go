package dashboard

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestNodeWithoutSnapshot: a bucket without answers of the dashboard still tells who a node's processes were.
func TestNodeWithoutSnapshot(t *testing.T) {
	rec := recording.Open(t)
	ref := rec.Session
	ref.Version, ref.OwnerKind = layout.V17, "raycluster"
	a := newAsker(t, load(t, rec.Bucket("kuberay-1.7"), ref), Options{})
	head := rec.NodeID(recording.Head).String()
	body, err := pyjson.ParseObject(a.get("/nodes/" + head).Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	detail := body.Object("data").Object("detail")
	raylet := detail.Object("raylet")
	for field, want := range map[string]int64{
		"nodeManagerPort": 37683, "objectManagerPort": 42519, "metricsAgentPort": 41911,
		"dashboardAgentListenPort": 52365, "runtimeEnvAgentPort": 39427,
	} {
		if got := raylet.Int(field); got != want {
			t.Errorf("%s %d, want %d", field, got, want)
		}
	}
	titles := map[string]int64{}
	for _, v := range detail.List("workers") {
		w := v.(*pyjson.Object)
		if cmdline := w.List("cmdline"); len(cmdline) > 0 {
			titles[cmdline[0].(string)] = w.Int("pid")
		}
	}
	for title, pid := range map[string]int64{"ray::RuntimeEnvAgent": 22576, "ray::ProxyActor": 24317,
		"ray::_StatsActor": 23716} {
		if titles[title] != pid {
			t.Errorf("process %d of %s, want %d", titles[title], title, pid)
		}
	}
	actor := "92a8dd2da7c2010daedd899b07000000"
	stats := detail.Object("actors").Object(actor).Object("processStats")
	if stats.Int("pid") != 24317 || len(stats.List("cmdline")) != 1 {
		t.Errorf("statistics of a living actor's process: %s", pyjson.Append(nil, stats))
	}
}
