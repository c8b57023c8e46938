package findings

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// TestMeasure: each figure is read by the name that Ray gives it, only for the requested node, with its last value, its
// maximum and its limit.
func TestMeasure(t *testing.T) {
	store := must.Get(local.Open(t.TempDir()))(t)
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	begin := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	const gib = 1 << 30
	for i, node := range []rayid.Node{{1}, {2}} {
		var e samples.Encoder
		e.Start([][]samples.Label{{{Name: "instance", Value: node.String() + ":8080"}, {Name: "job", Value: "ray"}}})
		for read, used := range []float64{1, 3, 2} {
			e.Begin(0, begin.Add(time.Duration(read)*15*time.Second))
			add := func(name string, v float64, l ...samples.Label) {
				if spelled := []byte(name + l[0].Value); !e.Sample(spelled, v) {
					e.Add(spelled, name, l, v)
				}
			}
			label := func(name, value string) samples.Label { return samples.Label{Name: name, Value: value} }
			ip, far := label("ip", "10.0.0.1"), float64(100*i)
			add("ray_node_mem_used", (used+far)*gib, ip)
			add("ray_node_mem_total", 4*gib, ip)
			add("ray_node_disk_usage", (used+far)*gib, ip)
			add("ray_node_disk_free", (4-used)*gib, ip)
			add("ray_object_store_memory", (used+far)*gib, label("Location", "MMAP_SHM"))
			add("ray_object_store_memory", 50*gib, label("Location", "SPILLED"))
			add("ray_resources", used*gib, label("State", "USED"), label("Name", "object_store_memory"))
			add("ray_resources", (4-used)*gib, label("State", "AVAILABLE"), label("Name", "object_store_memory"))
			add("ray_node_gram_used", 1024*(used+far), label("GpuIndex", "0"))
			add("ray_node_gram_available", 1024*(4-used), label("GpuIndex", "0"))
			e.End()
		}
		w := must.Get(zstd.NewWriter(nil))(t)
		key := layout.ChunkKey(layout.MetricsKey(layout.DefaultRoot, ref, node, begin), 0, layout.Zstd)
		must.OK(t, store.Create(t.Context(), key, bytes.NewReader(w.EncodeAll(e.Lines(), nil))))
	}
	stored := &promapi.Stored{
		API: promapi.New(promapi.Options{MaxSamples: 100_000, Timeout: time.Minute, Concurrent: 1,
			Wait: time.Minute}),
		Databases: metrics.NewDatabases(store, layout.DefaultRoot, 1<<20, nil),
	}
	of, err := session.Load(t.Context(), store, layout.DefaultRoot, ref, session.Options{Log: logrus.New()})
	must.OK(t, err)
	b := &builder{ctx: t.Context(), session: of, base: "/"}
	if b.nodes, err = (&moment.Moment{Env: moment.NewEnv(logrus.New(), nil),
		Session: of}).Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := place{rayid.Node{1}, begin.Add(40 * time.Second).UnixNano()}
	for _, f := range []figure{memory, disk, objectStore, gpuMemory} {
		found, err := b.measure(stored, f, p)
		must.True(t, err == nil && len(found) == 1, "%s: %d found, %v", f.what, len(found), err)
		e := b.figureEvidence(f, p, found[0])
		const want = ": 2.00 GiB of 4.00 GiB (50 %) used 10s before it failed; at most 3.00 GiB of 4.00 GiB (75 %) in the 5 minutes before"
		says.True(t, strings.HasSuffix(e.Text, want) && strings.HasPrefix(e.Text, f.what) &&
			e.Time == "2026-11-20T23:00:30.000Z", "%s at %s, want …%s", e.Text, e.Time, want)
	}
	if found, err := b.measure(stored, memory, place{rayid.Node{3}, p.at}); err != nil ||
		len(found) > 0 {
		t.Errorf("of a node without metrics: %d found, %v", len(found), err)
	}
	for text, want := range map[string]bool{
		"OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has": true,
		"XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate":  true,
		"MemoryError: out of memory": false,
	} {
		says.Equal(t, gpuFull().MatchString(text), want, "%q is told of a GPU: %v", text, !want)
	}
}
