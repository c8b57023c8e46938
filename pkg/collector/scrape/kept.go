package scrape

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// table adds the samples of an exposition to the encoder, up to a number of series of all endpoints and of this one.
type table struct {
	encoder *samples.Encoder
	max     int // of all endpoints' series
	share   int // of this one's
	taken   int // of the share
	// bytes that the table's definitions have, and may have: reads that each bring new ones must not add up
	defined, maxDefined int64
	dropped             int
}

const (
	// reserved is the part of a table that is kept free for each endpoint but the one that is read: none takes all.
	reserved = 8
	// maxSeries bounds a series' name and labels, in bytes; Ray's take about 300.
	maxSeries = 4 << 10
	// maxHelp bounds a metric's help, in bytes.
	maxHelp = 1 << 10
)

func (t *table) metric(m samples.Metric) {
	if len(m.Name)+len(m.Type) > maxSeries || t.defined >= t.maxDefined {
		return
	}
	m.Help = strings.ToValidUTF8(m.Help[:min(len(m.Help), maxHelp)], "")
	t.defined += int64(t.encoder.Metric(m))
}

// sample adds a sample of a target. spelling is its name and labels as the endpoint writes them. A sample of a new
// series is dropped and counted if the table or the target has too many series, or if their definitions take too many
// bytes.
func (t *table) sample(spelling []byte, value float64) error {
	if t.encoder.Sample(spelling, value) {
		return nil
	}
	if all, _ := t.encoder.Series(); all >= t.max || t.taken >= t.share || t.defined >= t.maxDefined ||
		len(spelling) > maxSeries {
		t.dropped++
		return nil
	}
	name, labels, err := parseSpelling(spelling)
	if err != nil {
		return err
	}
	t.defined += int64(t.encoder.Add(spelling, name, labels, value))
	t.taken++
	return nil
}
