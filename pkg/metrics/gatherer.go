package metrics

import (
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
)

// gatherer makes series from rows. It keeps of a series what blocks keep: the times, which the series of a target
// share, and the changes.
type gatherer struct {
	mint, maxt int64
	free       *allowance
	known      [][]int64 // times of the series before
	times      []int64
	at         []int32
	values     []float64
}

var errOrder = errors.New("samples are not in order of time")

// timeBytes and indexedChangeBytes are what a time and a change take.
const timeBytes, indexedChangeBytes = 8, 16

// addRows adds rows to the current series: those from g.mint to g.maxt, with memory from g.free. Rows that are not in
// the order of time are errOrder.
func (g *gatherer) addRows(times []int64, values []float64) error {
	// If the times are not in order, the loop below finds that out.
	from := sort.Search(len(times), func(i int) bool { return times[i] >= g.mint })
	to := sort.Search(len(times), func(i int) bool { return times[i] > g.maxt })
	if err := g.free.take(timeBytes * int64(max(0, to-from))); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		t, v := times[i], values[i]
		if n := len(g.times); n > 0 && t <= g.times[n-1] {
			return errOrder
		}
		if n := len(g.values); n == 0 || math.Float64bits(v) != math.Float64bits(g.values[n-1]) ||
			len(g.times)%maxReads == 0 { // finishSeries begins a part here, which needs a value
			if err := g.free.take(indexedChangeBytes); err != nil {
				return err
			}
			g.at, g.values = append(g.at, int32(len(g.times))), append(g.values, v)
		}
		g.times = append(g.times, t)
	}
	return nil
}

// maxKnownTimes is how many lists of times are compared with those of a series, because there are few targets.
const maxKnownTimes = 64

// sharedTimes returns the times of the current series. If an earlier series has the same ones, as series of one target
// have, it returns those, and the memory for the others is given back.
func (g *gatherer) sharedTimes() []int64 {
	i := slices.IndexFunc(g.known, func(times []int64) bool { return slices.Equal(times, g.times) })
	if i >= 0 {
		g.free.giveBack(timeBytes * int64(len(g.times)))
		return g.known[i]
	}
	if len(g.known) == maxKnownTimes {
		g.known = g.known[:0]
	}
	times := slices.Clone(g.times)
	g.known = append(g.known, times)
	return times
}

// finishSeries completes the current series, in parts of at most maxReads times; nil if it has no samples.
func (g *gatherer) finishSeries(l labels.Labels) *Series {
	if len(g.times) == 0 {
		return nil
	}
	s := &Series{labels: l}
	times, values := g.sharedTimes(), slices.Clone(g.values)
	// Each part begins with a change, see addRows.
	for from, change := 0, 0; from < len(times); from += maxReads {
		p := part{times: times[from:min(from+maxReads, len(times))]}
		first := change
		for ; change < len(g.at) && int(g.at[change]) < from+len(p.times); change++ {
			p.at = append(p.at, uint16(int(g.at[change])-from))
		}
		p.values = values[first:change]
		s.parts = append(s.parts, p)
	}
	g.times, g.at, g.values = g.times[:0], g.at[:0], g.values[:0]
	return s
}
