// Package metricsgen generates stored metrics of sessions of any size, from what real exporters of Ray exposed.
package metricsgen

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// testdata holds what a busy node of Ray 2.60 exported, three times, 13 s apart.
//
//go:embed testdata
var testdata embed.FS

var names = []string{"ray-2.60-1.txt.zst", "ray-2.60-2.txt.zst", "ray-2.60-3.txt.zst"}

// Recorded returns one of the recorded texts.
func Recorded(name string) ([]byte, error) {
	data, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		return nil, err
	}
	in, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.DecodeAll(data, nil)
}

// Session says what is made: Nodes nodes with Series series each, read every Interval for Hours hours from Begin, and
// stored as chunks of ChunkReads reads.
type Session struct {
	Ref           layout.Session
	Begin         time.Time
	Nodes, Series int
	Hours         int
	Interval      time.Duration
	ChunkReads    int
}

// series is one series with what was exported of it; later reads repeat that, counters growing by as much each time.
type series struct {
	spelled []byte
	name    string
	labels  []samples.Label
	values  [3]float64
	counts  bool
}

// at is the value at a read. What did not change in the recording never does.
func (s *series) at(read int) float64 {
	v := s.values[read%len(s.values)]
	if s.counts {
		v += float64(read/len(s.values)) * (s.values[2] - s.values[0])
	}
	return v
}

// Store makes the session's chunks under a root of a store, and says how many samples they hold.
func (g Session) Store(ctx context.Context, store blob.Creator, root string) (count int64, err error) {
	all, err := g.series()
	if err != nil {
		return 0, err
	}
	writer, err := zstd.NewWriter(nil)
	if err != nil {
		return 0, err
	}
	perHour := int(time.Hour / g.Interval)
	for node := range g.Nodes {
		target := []samples.Label{
			{Name: "instance", Value: fmt.Sprintf("10.0.%d.%d:8080", node/250, node%250)}, {Name: "job", Value: "ray"},
			{Name: "ray_io_cluster", Value: g.Ref.Cluster}, {Name: "namespace", Value: g.Ref.Namespace},
		}
		for hour := range g.Hours {
			var e samples.Encoder
			e.Start([][]samples.Label{target})
			var offset int64
			key := layout.MetricsKey(root, g.Ref, rayid.Node{byte(node >> 8), byte(node), 1},
				g.Begin.Add(time.Duration(hour)*time.Hour))
			for i := range perHour {
				read := hour*perHour + i
				e.Begin(0, g.Begin.Add(time.Duration(read)*g.Interval))
				for _, s := range all {
					if v := s.at(read + node); !e.Sample(s.spelled, v) {
						e.Add(s.spelled, s.name, s.labels, v)
					}
				}
				e.End()
				count += int64(len(all)) + 1 // and up
				if (i+1)%g.ChunkReads == 0 || i == perHour-1 {
					lines := e.Lines()
					chunk := layout.ChunkKey(key, offset, layout.Zstd)
					if err := store.Create(ctx, chunk, bytes.NewReader(writer.EncodeAll(lines, nil))); err != nil {
						return 0, err
					}
					offset += int64(len(lines))
				}
			}
		}
	}
	return count, nil
}

// series returns g.Series series: those recorded, again and again with another label.
func (g Session) series() ([]*series, error) {
	known := make(map[string]*series)
	var recorded []*series
	for i, name := range names {
		text, err := Recorded(name)
		if err != nil {
			return nil, err
		}
		families, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		for _, s := range families {
			k := known[string(s.spelled)]
			if k == nil {
				k = s
				for j := range k.values {
					k.values[j] = s.values[0]
				}
				known[string(s.spelled)] = k
				recorded = append(recorded, k)
			}
			for j := i; j < len(k.values); j++ {
				k.values[j] = s.values[0]
			}
		}
	}
	all := make([]*series, g.Series)
	for i := range all {
		s := *recorded[i%len(recorded)]
		s.labels = slices.Clone(s.labels)
		for j, l := range s.labels {
			if l.Name == "SessionName" {
				s.labels[j].Value = g.Ref.Name
			}
		}
		if again := i / len(recorded); again > 0 {
			s.labels = append(s.labels, samples.Label{Name: "again", Value: fmt.Sprint(again)})
			s.spelled = fmt.Append(s.spelled[:len(s.spelled):len(s.spelled)], again)
		}
		all[i] = &s
	}
	return all, nil
}

func parse(text []byte) ([]*series, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	extracted, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	if err != nil {
		return nil, err
	}
	var all []*series
	for _, s := range extracted {
		of := &series{spelled: []byte(s.Metric.String()), name: string(s.Metric[model.MetricNameLabel])}
		of.values[0] = float64(s.Value)
		of.counts = strings.HasSuffix(of.name, "_total") || strings.HasSuffix(of.name, "_count") ||
			strings.HasSuffix(of.name, "_sum") || strings.HasSuffix(of.name, "_bucket")
		for name, value := range s.Metric {
			if name != model.MetricNameLabel {
				of.labels = append(of.labels, samples.Label{Name: string(name), Value: string(value)})
			}
		}
		slices.SortFunc(of.labels, func(a, b samples.Label) int { return strings.Compare(a.Name, b.Name) })
		if !math.IsNaN(of.values[0]) {
			all = append(all, of)
		}
	}
	slices.SortFunc(all, func(a, b *series) int { return bytes.Compare(a.spelled, b.spelled) })
	return all, nil
}
