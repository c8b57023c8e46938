package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// dictionary numbers the series and the targets of a session, which are the same from hour to hour. Safe for concurrent
// use.
type dictionary struct {
	maxBytes int64
	only     func(labels.Labels) bool // nil: it takes all series

	mu      sync.RWMutex
	bytes   int64
	numbers map[labels.Labels]uint32
	series  []numbered
	named   map[string][]uint32 // series by name
	targets map[string]uint32   // by the labels, spelled
	metrics map[string]samples.Metric
}

type numbered struct {
	labels labels.Labels
	target uint32
}

const (
	// numberedBytes is about what a series takes besides its labels, targetBytes what a target takes.
	numberedBytes = 120
	targetBytes   = 100
)

var errTooManySeries = fmt.Errorf("too many series: %w", ErrTooMuch)

func newDictionary(maxBytes int64) *dictionary {
	return &dictionary{
		maxBytes: maxBytes, numbers: make(map[labels.Labels]uint32), named: make(map[string][]uint32),
		targets: make(map[string]uint32),
		metrics: make(map[string]samples.Metric),
	}
}

// numberTarget returns the number of a target, by its labels, which are sorted, and numbers it if it is new. Its key
// spells them with a byte between that no UTF-8 has. The error says that there is no memory for it.
func (d *dictionary) numberTarget(targetLabels []samples.Label) (uint32, error) {
	var s strings.Builder
	for _, l := range targetLabels {
		s.WriteString(l.Name)
		s.WriteByte(0xff)
		s.WriteString(l.Value)
		s.WriteByte(0xff)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id, known := d.targets[s.String()]
	if known {
		return id, nil
	}
	size := int64(s.Len()) + targetBytes
	if d.bytes+size > d.maxBytes {
		return 0, errTooManySeries
	}
	d.bytes += size
	id = uint32(len(d.targets))
	d.targets[s.String()] = id
	return id, nil
}

// numberSeries returns the number of a series of a target, by its name and labels, its own and the target's, and
// numbers it if it is new. wanted is false if it is none of d.only. The error says that there is no memory for it.
func (d *dictionary) numberSeries(
	target uint32, targetLabels []samples.Label, name string, own []samples.Label,
) (number uint32, wanted bool, err error) {
	all := make([]labels.Label, 0, 1+len(targetLabels)+len(own))
	all = append(all, labels.Label{Name: model.MetricNameLabel, Value: name})
	for _, l := range mergeLabels(targetLabels, own) {
		if l.Name != model.MetricNameLabel {
			all = append(all, labels.Label{Name: l.Name, Value: l.Value})
		}
	}
	spelled := labels.New(all...)

	d.mu.Lock()
	defer d.mu.Unlock()
	number, known := d.numbers[spelled]
	switch size := int64(spelled.ByteSize()) + numberedBytes; {
	case known:
		return number, true, nil
	case d.only != nil && !d.only(spelled):
		return 0, false, nil
	case d.bytes+size > d.maxBytes:
		return 0, false, errTooManySeries
	default:
		d.bytes += size
	}
	number = uint32(len(d.series))
	d.numbers[spelled] = number
	d.series = append(d.series, numbered{spelled, target})
	d.named[name] = append(d.named[name], number)
	return number, true, nil
}

// describeMetric keeps the first description of a metric.
func (d *dictionary) describeMetric(m samples.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size := int64(len(m.Name)+len(m.Type)+len(m.Help)) + targetBytes; d.metrics[m.Name].Name == "" &&
		d.bytes+size <= d.maxBytes {
		d.metrics[m.Name] = m
		d.bytes += size
	}
}

// findNumbers returns the numbers of the series that a selection matches, in no order. Matching one series against a
// large regular expression may take long, so it looks at ctx before each.
func (d *dictionary) findNumbers(ctx context.Context, s Selection) (found []uint32, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	named := d.named
	if name, only := onlyName(s.Matchers); only {
		named = map[string][]uint32{name: d.named[name]}
	}
	for name, numbers := range named {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if matches, err := s.matchesName(name); err != nil {
			return nil, err
		} else if !matches {
			continue
		}
		for _, n := range numbers {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if matches, err := s.matches(d.series[n].labels); err != nil {
				return nil, err
			} else if matches {
				found = append(found, n)
			}
		}
	}
	return found, nil
}

func (d *dictionary) seriesOf(number uint32) numbered {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.series[number]
}

func (d *dictionary) memoryBytes() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.bytes
}

// onlyName returns the name that series need to have, if matchers say one.
func onlyName(matchers []*labels.Matcher) (name string, only bool) {
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value, true
		}
	}
	return "", false
}

// mergeLabels returns a target's labels and those of a series of it, sorted by name. If both have a label of one name,
// the series' is renamed exported_{name}, as Prometheus does unless honor_labels is set. A series' label without a
// value is left out; it is the same as none.
func mergeLabels(target, labels []samples.Label) []samples.Label {
	merged := make([]samples.Label, 0, len(target)+len(labels))
	inTarget := make(map[string]bool, len(target))
	for _, l := range target {
		inTarget[l.Name] = true
		merged = append(merged, l)
	}
	for _, l := range labels {
		if l.Value == "" {
			continue
		}
		if inTarget[l.Name] {
			l.Name = "exported_" + l.Name
		}
		merged = append(merged, l)
	}
	slices.SortStableFunc(merged, func(a, b samples.Label) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(merged, func(a, b samples.Label) bool { return a.Name == b.Name })
}
