package findings

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// The evidence of a failure includes what the node's metrics said at that time. They show whether memory or disk was
// full, even if the error's text does not say so.

const (
	// maxQueries limits the queries of the stored metrics for one report, maxPlaces the nodes that are queried for one
	// finding.
	maxQueries, maxPlaces = 12, 3
	// lookBack is the time before a failure for which metrics are read, lookStep the step between values, less
	// than samples.Interval.
	lookBack, lookStep = 5 * time.Minute, 5 * time.Second
)

// place is a node where the failures of a finding happened, and the time of the first one there (Unix ns).
type place struct {
	node rayid.Node
	at   int64
}

// addPlace adds where and when (Unix ns) a failure happened, at most maxPlaces nodes. It does nothing if the node or
// the time is not known.
func (f *finding) addPlace(node rayid.Node, at int64) {
	if node.Nil() || at <= 0 {
		return
	}
	i := slices.IndexFunc(f.places, func(p place) bool { return p.node == node })
	switch {
	case i >= 0:
		f.places[i].at = min(f.places[i].at, at)
	case len(f.places) < maxPlaces:
		f.places = append(f.places, place{node, at})
	}
}

// figure is an amount that the metrics of a node contain. Each of its queries has one value for a node, or one for each
// of the node's GPUs. $node in a query is replaced by the label matcher of the node.
type figure struct {
	what        string
	used, total string  // queries; total is "" if there is no limit
	unit        float64 // bytes in one unit of the metric
	panel       int     // the number of its panel on Ray's default dashboard
}

var (
	memory = figure{
		"memory", "max by (instance) (ray_node_mem_used{$node})", "max by (instance) (ray_node_mem_total{$node})", 1, 4,
	}
	objectStore = figure{
		"object store", `sum by (instance) (ray_object_store_memory{Location="MMAP_SHM",$node})`,
		`sum by (instance) (ray_resources{Name="object_store_memory",$node})`, 1, 58,
	}
	disk = figure{
		"disk", "max by (instance) (ray_node_disk_usage{$node})",
		"max by (instance) (ray_node_disk_usage{$node}) + max by (instance) (ray_node_disk_free{$node})", 1, 6,
	}
	gpuMemory = figure{
		"GPU memory", "max by (instance, GpuIndex) (ray_node_gram_used{$node})",
		"max by (instance, GpuIndex) (ray_node_gram_used{$node}) + max by (instance, GpuIndex) " +
			"(ray_node_gram_available{$node})", 1 << 20, 18,
	}
)

// gpuFull matches what frameworks (PyTorch, CuPy, XLA) say when the memory of a GPU is full.
var gpuFull = lazyregexp.New(`(?i)(?:cuda|hip|gpu|hbm).{0,100}out of memory|` +
	`out of memory.{0,100}(?:cuda|hip|gpu|hbm)|RESOURCE_EXHAUSTED: `)

// figuresOf returns the figures that may explain a finding: those of what it says was full, or of what may have been.
func (f *finding) figuresOf() []figure {
	switch {
	case gpuFull().MatchString(f.raised.String()):
		return []figure{gpuMemory}
	case f.Kind == ObjectStore:
		return []figure{objectStore, disk}
	case f.Kind == OutOfMemory || f.Kind == NodeDied || f.Kind == GCSDied || f.Kind == WorkerDied ||
		f.Kind == DriverKilled || f.Kind == ActorDied && f.raised.Type == "":
		return []figure{memory}
	}
	return nil
}

// measured holds the values of one node, or of one of its GPUs. A value is 0 if it is not known.
type measured struct {
	instance, gpu            string
	used, peak, total, since float64 // since is when used was read, Unix seconds
}

// showFigures adds to the evidence of errors and warnings what the stored metrics say of their nodes at that time. If
// metrics is nil, it does nothing. If the metrics cannot be read, the report says so and keeps all else: an error is
// returned only if the request has ended.
func (b *builder) showFigures(metrics moment.Metrics, ordered []*finding) error {
	if metrics == nil {
		return nil
	}
	queries := 0
	for _, f := range ordered {
		if f.Severity == Info {
			continue
		}
		var shown []Evidence
		for _, p := range f.places {
			for _, figure := range f.figuresOf() {
				if queries++; queries > maxQueries {
					break
				}
				found, err := b.measure(metrics, figure, p)
				if stop := b.requestErr(); stop != nil {
					return stop
				}
				if err != nil {
					b.moment.Log.WithError(err).WithField("session", b.session.Ref.String()).Warn(
						"cannot read the metrics of the time of a failure")
					b.noteMissing("What the nodes' stored metrics said when it failed could not be " +
						"read; the history server's log says why.")
					b.partial = true
					return nil
				}
				for _, m := range found {
					e := b.figureEvidence(figure, p, m)
					if figure == memory && f.sawMore(m) {
						e.Text += "; less than when Ray’s memory monitor acted, so it rose between two readings"
					}
					shown = append(shown, e)
				}
			}
		}
		shown = shown[:min(len(shown), maxEvidence/2)]
		f.Evidence = append(f.Evidence[:min(len(f.Evidence), maxEvidence-len(shown))], shown...)
	}
	return nil
}

// monitorActs is the share of a node's memory from which Ray's memory monitor kills processes, if nothing else is set.
const monitorActs = 0.95

// sawMore reports whether Ray's memory monitor saw clearly more used memory than m, so that m would contradict it.
// Metrics are read less often.
func (f *finding) sawMore(m *measured) bool {
	if f.Kind != OutOfMemory {
		return false
	}
	const much = 0.9 // the share of what the monitor saw from which metrics agree with it
	saw := monitorActs * m.total
	said, _, _ := strings.Cut(f.memory, " ") // "3.61 of 4.00 GB were used"
	if gb, err := strconv.ParseFloat(said, 64); err == nil {
		saw = gb * (1 << 30)
	}
	return max(m.used, m.peak) < much*saw
}

// measure reads a figure of a place's node, and of each of its GPUs, with one query for the lookBack before the place's
// time. Values that are no amounts are left out.
func (b *builder) measure(metrics moment.Metrics, f figure, p place) ([]*measured, error) {
	byPart := map[[2]string]*measured{} // by instance and GPU
	var order []*measured
	since := map[string]float64{} // when the node was read last, by its instance
	see := func(label func(string) string, v float64) {
		if math.IsNaN(v) || v < 0 || v > 1e18 {
			return
		}
		instance := label("instance")
		if label("is") == "since" {
			since[instance] = v
			return
		}
		key := [2]string{instance, label("GpuIndex")}
		m := byPart[key]
		if m == nil {
			m = &measured{instance: key[0], gpu: key[1]}
			byPart[key], order = m, append(order, m)
		}
		switch v *= f.unit; label("is") {
		case "used":
			m.used = v
		case "peak":
			m.peak = v
		case "total":
			m.total = v
		}
	}
	err := metrics.Values(b.ctx, b.session.Ref, b.running, time.Unix(0, p.at), b.figureQuery(f, p.node), see)
	order = slices.DeleteFunc(order, func(m *measured) bool { return m.peak == 0 })
	for _, m := range order {
		m.since = since[m.instance]
	}
	slices.SortFunc(order, func(a, c *measured) int {
		return strings.Compare(a.instance+" "+a.gpu, c.instance+" "+c.gpu)
	})
	return order, err
}

// figureQuery returns the query for a figure of a node. Its series have a label "is" that says what their value is:
// used, peak, total, or since, the time of the reading.
func (b *builder) figureQuery(f figure, node rayid.Node) string {
	hosts := []string{node.String()} // the instance of hardware figures if the node's address is not known
	if ip := b.nodes.IP(node.String()); ip != "" {
		hosts = append(hosts, regexp.QuoteMeta(ip), `\[`+regexp.QuoteMeta(ip)+`\]`)
	}
	window := fmt.Sprintf("[%ds:%ds]", int(lookBack.Seconds()), int(lookStep.Seconds()))
	part := func(name, function, query string) string {
		return fmt.Sprintf(`label_replace(%s((%s)%s), "is", "%s", "", "")`, function, query, window, name)
	}
	parts := []string{part("used", "last_over_time", f.used), part("peak", "max_over_time", f.used),
		part("since", "max_over_time", readAt)}
	if f.total != "" {
		parts = append(parts, part("total", "last_over_time", f.total))
	}
	return strings.ReplaceAll(strings.Join(parts, " or "), "$node",
		fmt.Sprintf("instance=~%q", "(?:"+strings.Join(hosts, "|")+")(?::[0-9]+)?"))
}

// readAt is the query for the time when a node's exporter was read. Every read contains this metric.
const readAt = "max by (instance) (timestamp(ray_node_mem_used{$node}))"

// figureEvidence says how much a node had used of what a figure is about when something failed there.
func (b *builder) figureEvidence(f figure, p place, m *measured) Evidence {
	at := p.at
	if m.since > 0 {
		at = int64(m.since * 1e9)
	}
	name := f.what
	if m.gpu != "" {
		name += " of GPU " + output.Clip(m.gpu, 20)
	}
	text := fmt.Sprintf("%s of node %s: %s used", name, b.nodeName(p.node), amountOf(m.used, m.total))
	if ago := time.Duration(p.at - at); m.since > 0 && ago >= time.Second {
		text += " " + human.Duration(ago) + " before it failed"
	}
	if m.peak > m.used {
		text += fmt.Sprintf("; at most %s in the %d minutes before", amountOf(m.peak, m.total), int(lookBack.Minutes()))
	}
	from, to := time.Unix(0, p.at).Add(-2*lookBack).UnixMilli(), time.Unix(0, p.at).Add(lookBack).UnixMilli()
	return Evidence{
		Source: "metric", NodeID: p.node.String(), Time: timestamp(at), Text: text,
		Link: b.link("grafana/d-solo/rayDefaultDashboard/default-dashboard?panelId=%d&var-Instance=%s&from=%d&to=%d",
			f.panel, url.QueryEscape(m.instance), from, to),
	}
}

// amountOf returns amounts in bytes as a text such as "3.61 GiB of 4.00 GiB (90 %)". total is 0 if it is not known.
func amountOf(used, total float64) string {
	if total <= 0 {
		return human.Bytes(int64(used))
	}
	return fmt.Sprintf("%s of %s (%.0f %%)", human.Bytes(int64(used)), human.Bytes(int64(total)), 100*used/total)
}
