package metrics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const (
	// maxFigures limits a line of hardware figures, in bytes.
	maxFigures = 64 << 10
	// maxNodes bounds the nodes of an hour of hardware figures.
	maxNodes = 4096
)

// hardware is the data that all hours of hardware figures share.
type hardware struct {
	ref      layout.Session
	machines machines
}

// listHardware lists a session's hours of hardware figures (layout.Series). All of them share one list of the
// dashboard's answers that describe the machines.
func listHardware(ctx context.Context, store blob.Lister, root string, ref layout.Session) ([]Hour, error) {
	hours, err := listKind(ctx, store, layout.SeriesPrefix(root, ref), layout.Series, root, ref)
	if err != nil || len(hours) == 0 {
		return nil, err
	}
	shared := &hardware{ref: ref}
	if shared.machines.snapshots, err = listNodes(ctx, store, root, ref); err != nil {
		return nil, err
	}
	for i := range hours {
		hours[i].hardware = shared
	}
	return hours, nil
}

// visitHardware passes an hour of hardware figures to v as if Ray's exporters had exposed them: each node is a target.
// It reads the hour twice, and reports damage only the second time. work is the memory for this; damaged is called for
// what cannot be read, with its object's key. More than maxNodes nodes are an error.
func (h Hour) visitHardware(
	ctx context.Context, store chunks.Store, v samples.Visitor, work *allowance, damaged func(key string, err error),
) error {
	known, err := h.hardware.machines.read(ctx, store, damaged)
	if err != nil {
		return err
	}
	samplesOf := &hardwareSamples{visitor: v, nodes: make(map[rayid.Node]*nodeSamples)}
	// A table begins with all of its targets, so the nodes are found first.
	targets := make([][]samples.Label, 0, len(known))
	find := sampleReader(func(node rayid.Node, _ layout.Sample) error {
		if samplesOf.nodes[node] != nil {
			return nil
		}
		if len(targets) == maxNodes {
			return fmt.Errorf("hardware figures of more than %d nodes", maxNodes)
		}
		m := known[node]
		samplesOf.nodes[node] = &nodeSamples{target: len(targets), machine: m, labels: m.nodeLabels(h.hardware.ref),
			series: make(map[figureKey]*figureSeries)}
		targets = append(targets, m.targetLabels(node, h.hardware.ref))
		return nil
	})
	unreported := func(string, error) {}
	if err := h.passLines(ctx, store, find, maxFigures, work, unreported); err != nil {
		return err
	}
	v.Start(targets)
	for name, help := range figureHelp {
		v.Metric(samples.Metric{Name: name, Type: "gauge", Help: help})
	}
	return h.passLines(ctx, store, sampleReader(samplesOf.passSample), maxFigures, work, damaged)
}

// sampleReader is a lineReader of hardware figures.
type sampleReader func(node rayid.Node, s layout.Sample) error

// Line implements lineReader.
func (r sampleReader) Line(_ context.Context, line []byte) error {
	var s layout.Sample
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("hardware figures: %w", err)
	}
	node, err := rayid.Parse[rayid.Node](s.Node)
	if err != nil {
		return fmt.Errorf("hardware figures: %w", err)
	}
	return r(node, s)
}

// Lost implements lineReader: each line stands alone.
func (sampleReader) Lost() {}

// hardwareSamples passes samples to a visitor.
type hardwareSamples struct {
	visitor samples.Visitor
	nodes   map[rayid.Node]*nodeSamples
	read    samples.Read
}

// nodeSamples is a node with the series that the visitor knows.
type nodeSamples struct {
	target  int
	machine machine
	labels  []samples.Label
	last    int64
	series  map[figureKey]*figureSeries
}

type figureSeries struct {
	number int   // below 0: the visitor does not want it
	last   int64 // when it had a value last; 0: it has ended
}

var errUnknownNode = errors.New("a node that was not there when the figures were read first")

// passSample passes the figures of one sample to the visitor as a read of its node, and tells which figures of the read
// before are missing now. A sample that is not newer than the node's last one was stored twice and is left out. A
// figure's series has number -1 if the visitor does not want it, and last 0 while the node does not have it.
func (t *hardwareSamples) passSample(id rayid.Node, s layout.Sample) error {
	node := t.nodes[id]
	if node == nil {
		return errUnknownNode
	}
	if s.Time <= node.last {
		return nil
	}
	node.last = s.Time
	r := &t.read
	*r = samples.Read{Target: node.target, Time: s.Time, Series: r.Series[:0], Values: r.Values[:0], Ended: r.Ended[:0]}
	for _, f := range figuresOf(s, node.machine) {
		series := node.series[f.figureKey]
		if series == nil {
			series = &figureSeries{number: -1}
			if t.visitor.Wants(f.name) {
				series.number = t.visitor.Series(node.target, f.name, slices.Concat(f.labels, node.labels))
			}
			node.series[f.figureKey] = series
		}
		if series.last = s.Time; series.number >= 0 { // wanted
			r.Series, r.Values = append(r.Series, series.number), append(r.Values, f.value)
		}
	}
	for _, series := range node.series {
		if series.last != 0 && series.last != s.Time {
			series.last = 0
			if series.number >= 0 {
				r.Ended = append(r.Ended, series.number)
			}
		}
	}
	t.visitor.Read(r)
	return nil
}

// figure is one value of a sample with the name in Ray's exporter (ray/dashboard/modules/reporter/reporter_agent.py),
// without the node's labels.
type figure struct {
	figureKey
	labels []samples.Label
	value  float64
}

// figureKey distinguishes a node's series: of is a GPU's index, or a state.
type figureKey struct{ name, of string }

// figureHelp are the names and help texts of the metrics that hardware figures become.
var figureHelp = map[string]string{
	"ray_node_cpu_utilization":             "Total CPU usage on a ray node",
	"ray_node_cpu_count":                   "Total CPUs available on a ray node",
	"ray_node_mem_used":                    "Memory usage on a ray node",
	"ray_node_mem_available":               "Memory available on a ray node",
	"ray_node_mem_total":                   "Total memory on a ray node",
	"ray_node_mem_used_host":               "Memory usage of the host of a ray node",
	"ray_node_mem_total_host":              "Total memory of the host of a ray node",
	"ray_node_cgroup_mem_used":             "Memory usage of a ray node's cgroup",
	"ray_node_cgroup_mem_total":            "Memory limit of a ray node's cgroup",
	"ray_node_disk_usage":                  "Total disk usage (bytes) on a ray node",
	"ray_node_disk_free":                   "Disk free (bytes) on a ray node",
	"ray_node_disk_utilization_percentage": "Total disk utilization (percentage) on a ray node",
	"ray_node_disk_io_read_speed":          "Disk read speed", "ray_node_disk_io_write_speed": "Disk write speed",
	"ray_node_network_receive_speed": "Network receive speed", "ray_node_network_send_speed": "Network send speed",
	"ray_node_gpus_available":   "Total GPUs available on a ray node",
	"ray_node_gpus_utilization": "Total GPUs usage on a ray node",
	"ray_node_gram_used":        "Total GPU RAM usage on a ray node",
	"ray_node_gram_available":   "Total GPU RAM available on a ray node",
	"ray_object_store_memory":   "Object store memory by various sub-kinds on this node",
	"ray_resources":             "Logical Ray resources broken per state",
}

// figuresOf returns the values of a sample of a machine under the names of Ray's metrics, without those that were not
// known when it was taken.
func figuresOf(s layout.Sample, m machine) []figure {
	list := make([]figure, 0, 24)
	add := func(name string, value float64) {
		list = append(list, figure{figureKey: figureKey{name: name}, value: value})
	}
	add("ray_node_cpu_utilization", s.CPU)
	if m.cpus > 0 {
		add("ray_node_cpu_count", m.cpus)
	}
	if used, total := float64(s.Mem[0]), float64(s.Mem[1]); total > 0 {
		add("ray_node_mem_used", used)
		add("ray_node_mem_available", total-used)
		add("ray_node_mem_total", total)
		switch m.memory { // Ray 2.60's dashboards query these instead
		case ofHost:
			add("ray_node_mem_used_host", used)
			add("ray_node_mem_total_host", total)
		case ofCgroup:
			add("ray_node_cgroup_mem_used", used)
			add("ray_node_cgroup_mem_total", total)
		}
	}
	if used, total := float64(s.Disk[0]), float64(s.Disk[1]); total > 0 {
		add("ray_node_disk_usage", used)
		add("ray_node_disk_free", total-used)
		add("ray_node_disk_utilization_percentage", 100*used/total)
	}
	// Of these pairs the first is what was read or received, the second what was written or sent, in bytes a second.
	add("ray_node_disk_io_read_speed", float64(s.DiskIO[0]))
	add("ray_node_disk_io_write_speed", float64(s.DiskIO[1]))
	add("ray_node_network_receive_speed", float64(s.Net[0]))
	add("ray_node_network_send_speed", float64(s.Net[1]))

	addLabeled := func(name, which string, value float64, labels ...samples.Label) {
		list = append(list, figure{figureKey{name, which}, labels, value})
	}
	if used, total := float64(s.Store[0]), float64(s.Store[1]); total > 0 {
		addLabeled("ray_object_store_memory", "", used, samples.Label{Name: "Location", Value: "MMAP_SHM"})
		resource := samples.Label{Name: "Name", Value: "object_store_memory"}
		addLabeled("ray_resources", "USED", used, resource, samples.Label{Name: "State", Value: "USED"})
		addLabeled("ray_resources", "AVAILABLE", total-used, resource, samples.Label{Name: "State", Value: "AVAILABLE"})
	}
	for i, gpu := range s.GPUs {
		index := strconv.Itoa(i)
		labels := []samples.Label{{Name: "GpuIndex", Value: index}}
		if i < len(m.gpus) {
			labels = append(labels, samples.Label{Name: "GpuDeviceName", Value: m.gpus[i]})
		}
		const oneGPU = 1
		addLabeled("ray_node_gpus_available", index, oneGPU, labels...)
		addLabeled("ray_node_gpus_utilization", index, gpu.Util, labels...)
		addLabeled("ray_node_gram_used", index, float64(gpu.Used), labels...)
		addLabeled("ray_node_gram_available", index, float64(gpu.Total-gpu.Used), labels...)
	}
	return list
}

// targetLabels returns the labels that a Prometheus would set for a node's exporter.
func (m machine) targetLabels(node rayid.Node, ref layout.Session) []samples.Label {
	instance := cmp.Or(m.ip, node.String())
	if m.ip != "" && m.port != 0 {
		instance += ":" + strconv.Itoa(m.port)
	}
	return []samples.Label{
		{Name: "instance", Value: instance}, {Name: "job", Value: "ray"},
		{Name: "ray_io_cluster", Value: ref.Cluster}, {Name: "namespace", Value: ref.Namespace},
	}
}

// nodeLabels returns the labels that all series of a node have besides their own: the session's, and the node's if the
// machine is known.
func (m machine) nodeLabels(ref layout.Session) []samples.Label {
	labels := []samples.Label{{Name: "SessionName", Value: ref.Name}}
	if m.ip == "" {
		return labels
	}
	kind := "worker"
	if m.head {
		kind = "head"
	}
	return append(labels, samples.Label{Name: "ip", Value: m.ip}, samples.Label{Name: "RayNodeType", Value: kind},
		samples.Label{Name: "IsHeadNode", Value: strconv.FormatBool(m.head)})
}
