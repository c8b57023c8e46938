package metrics

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// changeCounter is a visitor that counts the values of each name that has any.
type changeCounter struct {
	work    *allowance
	stop    context.CancelCauseFunc
	taken   int64 // of work
	ofTable int64 // of these for the table's series
	series  []countedSeries
	changes map[string]int64
	metrics map[string]samples.Metric
}

type countedSeries struct {
	name    string
	counted bool // in this table
}

const (
	// nameBytes is what a name takes besides its letters, countedBytes what a series of a table takes here and in the
	// decoder.
	nameBytes, countedBytes = 100, 100
)

func metricBytes(m samples.Metric) int64 {
	return int64(2*len(m.Name)+len(m.Type)+len(m.Help)) + nameBytes
}

// takeMemory takes memory until the hour is counted. False: there is not enough.
func (c *changeCounter) takeMemory(bytes int64) bool {
	if c.work.take(bytes) != nil {
		c.stop(errLargeHour)
		return false
	}
	c.taken += bytes
	return true
}

func (c *changeCounter) Start([][]samples.Label) {
	c.work.giveBack(c.ofTable)
	c.taken, c.ofTable, c.series = c.taken-c.ofTable, 0, c.series[:0]
}

func (c *changeCounter) Wants(string) bool { return true }

func (c *changeCounter) Metric(m samples.Metric) {
	if c.metrics[m.Name].Name == "" && c.takeMemory(metricBytes(m)) {
		c.metrics[m.Name] = m
	}
}

// Series implements samples.Visitor.
func (c *changeCounter) Series(_ int, name string, _ []samples.Label) int {
	bytes := int64(countedBytes + len(name))
	if !c.takeMemory(bytes) {
		return -1
	}
	c.ofTable += bytes
	c.series = append(c.series, countedSeries{name: name})
	return len(c.series) - 1
}

// Read implements samples.Visitor: it counts, by name, the most changes that the series can have in this table.
func (c *changeCounter) Read(r *samples.Read) {
	for _, n := range r.Series {
		s := &c.series[n]
		if !s.counted {
			s.counted = true
			if _, known := c.changes[s.name]; !known && !c.takeMemory(int64(len(s.name))+nameBytes) {
				return
			}
			const unnamed = 2 // stale markers that no line names: after a failed read, and before the next table
			c.changes[s.name] += unnamed
		}
		c.changes[s.name]++
	}
	for _, n := range r.Ended {
		if s := c.series[n]; s.counted {
			c.changes[s.name]++
		}
	}
}
