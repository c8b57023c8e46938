package dashboard

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestNodeWithoutSnapshot: a bucket without answers of the dashboard still tells who a node's processes were.
func TestNodeWithoutSnapshot(t *testing.T) {
	rec := recording.Open(t)
	ref := rec.Session
	ref.Version, ref.OwnerKind = layout.V17, "raycluster"
	a := newAsker(t, load(t, rec.Bucket("kuberay-1.7"), ref), Options{})
	head := rec.NodeID(recording.Head).String()
	body := must.Get(pyjson.ParseObject(a.get("/nodes/" + head).Body.Bytes()))(t)
	detail := body.Object("data").Object("detail")
	raylet := detail.Object("raylet")
	for field, want := range map[string]int64{
		"nodeManagerPort": 37683, "objectManagerPort": 42519, "metricsAgentPort": 41911,
		"dashboardAgentListenPort": 52365, "runtimeEnvAgentPort": 39427,
	} {
		says.Equal(t, raylet.Int(field), want, field)
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
		says.Equal(t, titles[title], pid, "process %d of %s, want %d", titles[title], title, pid)
	}
	actor := "92a8dd2da7c2010daedd899b07000000"
	stats := detail.Object("actors").Object(actor).Object("processStats")
	says.True(t, stats.Int("pid") == 24317 && len(stats.List("cmdline")) == 1,
		"statistics of a living actor's process: %s", pyjson.Append(nil, stats))
}

func TestWithoutNulls(t *testing.T) {
	node := pyjson.Obj("mem", nil, "networkSpeed", []any{nil, 1.0}, "raylet", pyjson.Obj("objectStoreUsedMemory", nil),
		"workers", []any{
			nil, pyjson.Obj("pid", 7, "memoryInfo", nil, "coreWorkerStats", nil, "cmdline", nil),
			pyjson.Obj("memoryInfo", pyjson.Obj("rss", 1.0, "pfaults", nil), "coreWorkerStats", []any{}, "cmdline",
				[]any{"x"}),
			pyjson.Obj("pid", 8, "coreWorkerStats", []any{}, "cmdline", []any{}),
		}, "actors", pyjson.Obj("ab", pyjson.Obj("pid", 8, "jobId", "01", "address",
			pyjson.Obj("workerId", "cd", "ipAddress", "10.0.0.1"))))
	before := string(pyjson.Append(nil, node))
	want := `{"networkSpeed": [0.0, 1.0], "raylet": {"objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0}, "workers": [` +
		`{"pid": 7, "memoryInfo": {}, "coreWorkerStats": [], "cmdline": []}, {"memoryInfo": {"rss": 1.0}, "coreWorkerStats": [], "cmdline": ["x"]}, ` +
		`{"pid": 8, "coreWorkerStats": [{"workerId": "cd", "pid": 8, "ipAddress": "10.0.0.1", "jobId": "01"}], "cmdline": [], "memoryInfo": {}}], ` +
		`"actors": {"ab": {"pid": 8, "jobId": "01", "address": {"workerId": "cd", "ipAddress": "10.0.0.1"}}}, ` +
		`"diskIoSpeed": [0.0, 0.0, 0.0, 0.0]}`
	says.Equal(t, string(pyjson.Append(nil, withoutNulls(node))), want)
	says.Equal(t, string(pyjson.Append(nil, node)), before, "the stored answer was changed")
}

// TestFiguresOfAMoment: what the only snapshots, of the session's end, say of the use of nodes and processes is not
// shown of a moment before.
func TestFiguresOfAMoment(t *testing.T) {
	a := recorded(t)
	checked := 0
	for _, when := range []string{"", "23:20:28"} {
		a.at = 0
		if when != "" {
			a.at = at(when)
		}
		measured := func(what string, is bool) {
			t.Helper()
			if checked++; is != (when == "") {
				t.Errorf("at %q: %s is shown: %t", when, what, is)
			}
		}
		for _, row := range moment.Objects(a.data("/nodes?view=summary").List("summary")) {
			_, mem := row.Lookup("mem")
			measured("memory", mem)
			measured("CPU", figure(row.Get("cpu")) != 0)
			measured("disk", row.Object("disk").Len() > 0)
			measured("object store", row.Object("raylet").Int("objectStoreUsedMemory") != 0)
			detail := a.data("/nodes/" + row.Object("raylet").String("nodeId")).Object("detail")
			_, mem = detail.Lookup("mem")
			measured("memory in the details", mem)
			measured("the agent's memory", figure(detail.Object("agent").Object("memoryInfo").Get("rss")) != 0)
			for _, w := range detail.List("workers") {
				process := w.(*pyjson.Object)
				measured("a worker's memory", figure(process.Object("memoryInfo").Get("rss")) != 0)
			}
		}
		for _, v := range a.data("/logical/actors").Object("actors").All() {
			if stats := v.(*pyjson.Object).Object("processStats"); stats != nil {
				measured("an actor's memory", figure(stats.Object("memoryInfo").Get("rss")) != 0)
			}
		}
	}
	says.True(t, checked >= 40, "only %d figures were there", checked)
}

// figure is a number as it was encoded.
func figure(v any) float64 {
	text, _ := v.(pyjson.Number)
	f, _ := strconv.ParseFloat(string(text), 64)
	return f
}

// TestNodeProcessesAt: the page of a node lists the workers that lived at the requested moment, whenever its snapshot
// was taken.
func TestNodeProcessesAt(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	a := newAsker(t, load(t, rec.Store(), rec.Session), Options{})
	head := rec.NodeID(recording.Head).String()
	counts := []int{}
	for _, after := range []time.Duration{45 * time.Second, 150 * time.Second} {
		a.at = a.session.Start + int64(after)
		var want, got []string
		for i := range a.session.Workers {
			w := &a.session.Workers[i]
			if state, existed := moment.WorkerAt(w, a.at); existed && state.Alive && w.Node.String() == head {
				want = append(want, w.ID.String())
			}
		}
		for _, v := range a.data("/nodes/" + head).Object("detail").List("workers") {
			for _, s := range v.(*pyjson.Object).List("coreWorkerStats") {
				id := s.(*pyjson.Object).String("workerId")
				if worker, err := rayid.Parse[rayid.Worker](id); err == nil && a.session.Worker(worker) != nil {
					got = append(got, id)
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		says.True(t, len(want) != 0 && slices.Equal(got, want), "after %v: %d workers, want %d", after, len(got),
			len(want))
		counts = append(counts, len(got))
	}
	says.True(t, counts[0] != counts[1], "%d workers at both moments: the test tells nothing", counts[0])
}
