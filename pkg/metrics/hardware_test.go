package metrics

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// put stores an object.
func (b *bucket) put(key, text string) {
	b.t.Helper()
	must.OK(b.t, b.store.Create(b.t.Context(), key, strings.NewReader(text)))
}

// figuresOf are the lines of a head with a GPU and a worker of which the dashboard said nothing but its address.
func (b *bucket) figuresOf(head, worker rayid.Node, begin time.Time) {
	b.t.Helper()
	nodes := layout.SnapshotKey("log", ref, nodesURL)
	b.put(nodes, fmt.Sprintf(`{"result":true,"data":{"other":{"a":[1]},"summary":[
		{"cpus":[8,4],"hostMem":[1,100],"cgroupMem":[1,50],"gpus":[{"name":"A100"}],"raylet":{"nodeId":"%s","nodeManagerAddress":"10.0.0.1","metricsExportPort":8080,"isHeadNode":true}},
		{"cpus":"odd","raylet":{"nodeId":"ff"}}]}}`, head))
	b.put(layout.SnapshotVersionKey(nodes, begin), fmt.Sprintf(
		`{"data":{"summary":[{"raylet":{"nodeId":"%s","nodeManagerAddress":"10.0.0.1","isHeadNode":true,"metricsExportPort":8080}},
		{"raylet":{"nodeId":"%s","nodeManagerAddress":"10.0.0.2"}}]}}`, head, worker))
	b.put(layout.SnapshotVersionKey(nodes, begin.Add(time.Minute)), `{"data":{"summary":[{"raylet"`)
	line := func(node rayid.Node, after time.Duration, cpu float64, more string) string {
		return fmt.Sprintf(`{"t":%d,"node":"%s","cpu":%v,"mem":[20,50],"disk":[30,40],"diskIO":[1,2],"net":[3,4]%s,"workers":1}`+"\n",
			begin.Add(after).UnixMilli(), node, cpu, more)
	}
	gpu := `,"store":[5,10],"gpus":[{"util":70,"used":300,"total":1000}]`
	first := line(head, 0, 10, gpu) + line(worker, time.Second, 20, "") + "broken\n" +
		line(head, 30*time.Second, 12.5, gpu) + line(head, 30*time.Second, 99, gpu)
	key := layout.SeriesKey("log", ref, begin)
	b.put(key, first)
	b.put(layout.ChunkKey(key, int64(len(first)), layout.Plain), line(head, time.Minute, 10, ""))
}

// TestHardware: a session that has only hardware figures answers under the names and labels of Ray's metrics.
func TestHardware(t *testing.T) {
	b := newBucket(t)
	head, worker := rayid.Node{0xaa}, rayid.Node{0xbb}
	begin := time.Date(2026, 11, 20, 23, 0, 10, 0, time.UTC)
	b.figuresOf(head, worker, begin)
	sample := func(after time.Duration, v float64) string { return spelled(begin.Add(after).UnixMilli(), v) }
	of := func(name, node string, more ...string) string {
		own := []string{"__name__", name, "job", "ray", "namespace", "default", "ray_io_cluster", "lab", "SessionName",
			ref.Name}
		if node == "head" {
			own = append(own, "ip", "10.0.0.1", "instance", "10.0.0.1:8080", "IsHeadNode", "true", "RayNodeType",
				"head")
		} else {
			own = append(own, "ip", "10.0.0.2", "instance", "10.0.0.2", "IsHeadNode", "false", "RayNodeType", "worker")
		}
		return labels.FromStrings(append(own, more...)...).String()
	}
	three := func(a, b, c float64) []string {
		return []string{sample(0, a), sample(30*time.Second, b), sample(time.Minute, c)}
	}
	all := func(v float64) []string { return three(v, v, v) }
	gone := func(v float64) []string { return three(v, v, staleMarker) }
	once := func(v float64) []string { return []string{sample(time.Second, v)} }
	device := []string{"GpuIndex", "0", "GpuDeviceName", "A100"}
	want := map[string]map[string][]string{
		"ray_node_cpu_utilization": {
			of("ray_node_cpu_utilization", "head"):   three(10, 12.5, 10),
			of("ray_node_cpu_utilization", "worker"): once(20),
		},
		"ray_node_cpu_count":       {of("ray_node_cpu_count", "head"): all(8)},
		"ray_node_cgroup_mem_used": {of("ray_node_cgroup_mem_used", "head"): all(20)},
		"ray_node_mem_used_host":   {},
		"ray_node_network_receive_speed": {of("ray_node_network_receive_speed", "head"): all(3),
			of("ray_node_network_receive_speed", "worker"): once(3)},
		"ray_node_disk_io_write_speed": {of("ray_node_disk_io_write_speed", "head"): all(2),
			of("ray_node_disk_io_write_speed", "worker"): once(2)},
		"ray_node_gpus_utilization": {of("ray_node_gpus_utilization", "head", device...): gone(70)},
		"ray_node_gram_available":   {of("ray_node_gram_available", "head", device...): gone(700)},
		"ray_resources": {
			of("ray_resources", "head", "Name", "object_store_memory", "State", "USED"):      gone(5),
			of("ray_resources", "head", "Name", "object_store_memory", "State", "AVAILABLE"): gone(5),
		},
	}
	for what, d := range map[string]*Database{"kept": b.database(0, 64<<20), "not kept": b.database(0, 80<<10)} {
		for name, series := range want {
			found, damaged, err := selectFrom(t, d, 0, math.MaxInt64, named(t, name))
			must.OK(t, err, what)
			text := fmt.Sprint(damaged)
			says.True(t, strings.Contains(text, "2026-11-20-23"), "%s: damaged: %s", what, text)
			got := make(map[string][]string)
			for _, s := range found {
				got[s.Labels().String()] = read1(s, 0, math.MaxInt64)
			}
			says.Equal(t, len(got), len(series), "%s: %s: %d series %v", what, name, len(got), got)
			for l, values := range series {
				says.EqualSlices(t, got[l], values, "%s: %s", what, l)
			}
		}
		help := must.Get(d.Metrics(t.Context()))(t)["ray_node_gpus_utilization"]
		says.True(t, help.Type == "gauge", "%s: metadata %+v", what, help)
	}
	if text, damaged := b.export(); !strings.Contains(text, "ray_node_gram_used{") || len(damaged) != 2 {
		t.Errorf("damaged %q, export %s", damaged, text)
	}

	// Metrics say the same, and more.
	hour := begin.Truncate(time.Hour)
	b.hour(head, hour, read(begin, map[string]float64{"ray_a": 1}))
	if found, _, err := selectFrom(t, b.database(0, 1<<20), 0, math.MaxInt64,
		named(t, "ray_node_mem_used")); err != nil || len(found) > 0 {
		t.Errorf("beside metrics: %d series, %v", len(found), err)
	}
}

// TestUnknownMachine: figures of which no list of nodes is stored have the node's ID.
func TestUnknownMachine(t *testing.T) {
	b := newBucket(t)
	node := rayid.Node{0xaa}
	b.put(layout.SeriesKey("log", ref, time.Unix(0, 0)),
		fmt.Sprintf(`{"t":1000,"node":"%s","cpu":5,"mem":[1,2],"workers":0}`+"\n", node))
	found, damaged, err := selectFrom(t, b.database(0, 1<<20), 0, math.MaxInt64, named(t, "ray_node_mem_used"))
	says.True(t, err == nil && len(damaged) == 0 && len(found) == 1 &&
		found[0].Labels().Get("instance") == node.String(), "%v %v %v", found, damaged, err)
}

// TestHostileNodes: a list of nodes that is larger than memory allows for one is damage.
func TestHostileNodes(t *testing.T) {
	var large []string
	for i := range maxMachines/60_000 + 2 {
		large = append(large, fmt.Sprintf(`{"raylet":{"nodeId":"%s"},"gpus":[{"name":"%s"}]}`,
			rayid.Node{2, byte(i >> 8), byte(i)}, strings.Repeat("a", 60_000)))
	}
	for what, text := range map[string]string{
		"a long row":   `{"data":{"summary":[{"raylet":{"nodeId":"` + strings.Repeat("a", maxNodeRow+1),
		"a long field": `{"other":"` + strings.Repeat("a", maxNodeRow+1),
		"no list":      `{"data":{"summary":7}}`,
		"no object":    `[]`,
		"large names":  `{"data":{"summary":[` + strings.Join(large, ",") + `]}}`,
	} {
		b := newBucket(t)
		b.put(layout.SnapshotKey("log", ref, nodesURL), text)
		b.put(layout.SeriesKey("log", ref, time.Unix(0, 0)),
			fmt.Sprintf(`{"t":1000,"node":"%s","cpu":5,"workers":0}`+"\n", rayid.Node{1}))
		found, damaged, err := selectFrom(t, b.database(0, 1<<20), 0, math.MaxInt64,
			named(t, "ray_node_cpu_utilization"))
		says.True(t, err == nil && len(damaged) == 1 && len(found) == 1, "%s: %v %v %v", what, found, damaged, err)
	}
}
