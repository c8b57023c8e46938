package metrics

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/value"

	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

var errTooManyReads = errors.New("more reads of a target than an hour can have")

// builder makes a block from the lines of an hour. What one line says may be about a million series, and an hour may
// have a million tables: the work is linear in the bytes of the lines, and memory is taken before it is used.
//
// A series has a number in the dictionary, which is the same in all hours, a place in the builder's series, and an
// index in each table of the lines that has it, by which reads name it. Several series of a table may be one of the
// builder's (exposedSeries).
type builder struct {
	names        *dictionary
	selects      func(name string) bool  // whether metrics of this name are wanted
	changeMemory *allowance              // for changes
	workMemory   *allowance              // for what is needed until the block is complete
	stop         context.CancelCauseFunc // ends the reading, for the given reason

	err         error         // why the rest is not taken
	table       []tableTarget // those of the table that is read, by their index in it
	targets     []builderTarget
	ofID        map[uint32]int // index of a target in these, by its id
	series      []builderSeries
	place       map[uint32]int  // of a series in these, by its number
	tableSeries []exposedSeries // those of the table that is read, by their index in it
	changes     []change

	lastPeriod int
	reads      int   // so far; the one under way has this number
	working    int64 // bytes taken from workMemory
}

// tableTarget is a target of the table that is being read.
type tableTarget struct {
	labels []samples.Label
	target int  // its index in the builder's targets; -1 if the reading has failed
	read   bool // the table had a read of it
}

type builderTarget struct {
	blockTarget
	// period is from a new table, or a read that failed, to the next. What a series of a table exposed before counts no
	// more.
	period int
	// current are the places of series whose last change is not a stale marker.
	current []int32
}

type builderSeries struct {
	number  uint32
	target  int
	current int32 // its index in the target's list of current ones, -1: it is not there
	up      bool  // it is samples.Up, which says whether reads of the target succeed
	value   float64
	last    int // index of its last change, -1 if there is none
	read    int // number of the last read that had it
	// period is the one in which exposed was set: the series of the table that is this one and got its value last.
	// Others that are the same and exposed follow in older.
	period  int
	exposed int32
}

type change struct {
	series int32
	at     uint16
	value  float64
}

const (
	// changeBytes is what a change takes until the block is complete.
	changeBytes = 40
	// tableSeriesBytes is what a series of a table takes here and in the decoder, seriesBytes what a series of the
	// block takes besides its changes.
	tableSeriesBytes, seriesBytes = 120, 130
	// tableBytes is what a target of a table takes besides its labels.
	tableBytes = 100
)

func newBuilder(names *dictionary, wants func(string) bool, changeMemory, workMemory *allowance) *builder {
	return &builder{names: names, selects: wants, changeMemory: changeMemory, workMemory: workMemory,
		stop: func(error) {}, ofID: make(map[uint32]int), place: make(map[uint32]int)}
}

// fail ends the reading.
func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
		b.stop(err)
	}
}

// takeMemory takes memory until the block is complete. False: there is not enough.
func (b *builder) takeMemory(bytes int64) bool {
	if b.workMemory.take(bytes) != nil {
		b.fail(errLargeHour)
		return false
	}
	b.working += bytes
	return true
}

func (b *builder) giveBack(bytes int64) {
	b.workMemory.giveBack(bytes)
	b.working -= bytes
}

// giveBackWorking gives back the memory that the builder took, but that of the changes, which the block has.
func (b *builder) giveBackWorking() { b.giveBack(b.working) }

// Start implements samples.Visitor.
func (b *builder) Start(targets [][]samples.Label) {
	b.giveBack(tableSeriesBytes * int64(len(b.tableSeries)))
	b.table, b.tableSeries = b.table[:0], b.tableSeries[:0]
	for _, labels := range targets {
		target := b.addTarget(labels)
		if target >= 0 {
			b.beginPeriod(target)
		}
		b.table = append(b.table, tableTarget{labels: labels, target: target})
	}
}

// addTarget returns the index of a target in b.targets, and adds it if it is new; -1 if the reading has failed, now or
// before.
func (b *builder) addTarget(labels []samples.Label) int {
	id, err := b.names.numberTarget(labels)
	if err != nil {
		b.fail(err)
		return -1
	}
	if i, known := b.ofID[id]; known {
		return i
	}
	if b.err != nil || !b.takeMemory(tableBytes) {
		return -1
	}
	i := len(b.targets)
	b.ofID[id] = i
	b.targets = append(b.targets, builderTarget{blockTarget: blockTarget{id: id}})
	return i
}

func (b *builder) beginPeriod(target int) {
	b.lastPeriod++
	b.targets[target].period = b.lastPeriod
}

// Wants implements samples.Visitor.
func (b *builder) Wants(name string) bool { return b.err == nil && b.selects(name) }

// Metric implements samples.Visitor.
func (b *builder) Metric(m samples.Metric) { b.names.describeMetric(m) }

// Series implements samples.Visitor: it adds a series of the table's target to the table, and returns its index there,
// by which reads name it; -1 if the series is not wanted, if another target has the same one, or if the reading has
// failed. The memory for it is given back if it is not added.
func (b *builder) Series(target int, name string, labels []samples.Label) int {
	t := b.table[target]
	if b.err != nil || !b.takeMemory(tableSeriesBytes) {
		return -1
	}
	number, wanted, err := b.names.numberSeries(b.targets[t.target].id, t.labels, name, labels)
	if err != nil {
		b.fail(err)
		return -1
	}
	if !wanted {
		b.giveBack(tableSeriesBytes)
		return -1
	}
	place, known := b.place[number]
	if !known {
		if !b.takeMemory(seriesBytes) {
			return -1
		}
		place = len(b.series)
		b.place[number] = place
		b.series = append(b.series, builderSeries{number: number, target: t.target, current: -1, up: name == samples.Up,
			last: -1})
	}
	if b.series[place].target != t.target {
		b.giveBack(tableSeriesBytes)
		return -1 // two targets have series with the same labels: those of the first target count
	}
	b.tableSeries = append(b.tableSeries, exposedSeries{place: int32(place)})
	return len(b.tableSeries) - 1
}

// Read implements samples.Visitor: it adds a read of a target to the block, with the values that have changed and the
// series that the target exposes no more: those that the lines name, after a failed read all but up, and at the first
// read of a table all that this read does not have. After an error (b.err) it does nothing.
func (b *builder) Read(r *samples.Read) {
	if b.err != nil {
		return
	}
	inTable := &b.table[r.Target]
	target := &b.targets[inTable.target]
	at := uint16(len(target.times)) // the number of this read, below maxReads
	switch {
	case len(target.times) == maxReads:
		b.fail(errTooManyReads)
		return
	case len(target.times) == 0 || r.Time > target.times[len(target.times)-1]:
		if !b.takeMemory(timeBytes) {
			return
		}
		if n := len(target.times); n > 0 {
			target.pause = max(target.pause, r.Time-target.times[n-1]) // the longest time between two reads
		}
		target.times = append(target.times, r.Time)
	default:
		// Lines that are stored twice, a clock that was set back, or a second writer: the changes count from the next
		// read on.
	}
	b.reads++
	for i, series := range r.Series {
		b.exposeSeries(int32(series), at, r.Values[i])
	}
	for _, series := range r.Ended {
		b.hideSeries(int32(series), at)
	}
	if r.Failed || !inTable.read {
		b.endOthers(target, r.Failed, at)
	}
	if r.Failed {
		b.beginPeriod(inTable.target)
	}
	inTable.read = true
}

// recordChange records the value v of a series at a read, unless it is the value before. Of several values at one read
// the last one counts. place is the series' place in b.series.
func (b *builder) recordChange(place int32, at uint16, v float64) {
	s := &b.series[place]
	switch {
	case s.last >= 0 && math.Float64bits(s.value) == math.Float64bits(v):
		return
	case s.last >= 0 && b.changes[s.last].at == at:
		b.changes[s.last].value = v
	case b.changeMemory.take(changeBytes) != nil:
		b.fail(errTooManySamples)
		return // without the value: the block is not used
	default:
		s.last = len(b.changes)
		b.changes = append(b.changes, change{place, at, v})
	}
	s.value = v
	b.setCurrent(place, !value.IsStaleNaN(v))
}

// setCurrent puts a series among its target's current ones, those that have a value, or removes it from them. Their
// order has no meaning: the last one takes the place of one that is removed.
func (b *builder) setCurrent(place int32, current bool) {
	s := &b.series[place]
	list := &b.targets[s.target].current
	switch {
	case current && s.current < 0:
		s.current = int32(len(*list))
		*list = append(*list, place)
	case !current && s.current >= 0:
		last := (*list)[len(*list)-1]
		(*list)[s.current], b.series[last].current = last, s.current
		*list, s.current = (*list)[:len(*list)-1], -1
	}
}

// buildBlock returns the block of what was read: targets by their numbers, series by theirs, and the changes of each
// series next to each other.
func (b *builder) buildBlock() (*block, error) {
	if b.err != nil {
		return nil, b.err
	}
	order := make([]int32, len(b.series)) // places, by number
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(b.series[i].number, b.series[j].number) })
	out := &block{
		targets: make([]blockTarget, len(b.targets)), series: make([]uint32, len(order)),
		first: make([]uint32, len(order)+1),
		at:    make([]uint16, len(b.changes)), values: make([]float64, len(b.changes)),
	}
	for i, t := range b.targets {
		out.targets[i] = t.blockTarget
	}
	slices.SortFunc(out.targets, func(a, b blockTarget) int { return cmp.Compare(a.id, b.id) })
	counts := make([]uint32, len(order)) // changes of each place
	for _, c := range b.changes {
		counts[c.series]++
	}
	next := make([]uint32, len(order)) // where the next change of each place goes
	total := uint32(0)
	for i, place := range order {
		out.series[i], out.first[i], next[place] = b.series[place].number, total, total
		total += counts[place]
	}
	out.first[len(order)] = total
	for _, c := range b.changes {
		i := next[c.series]
		out.at[i], out.values[i] = c.at, c.value
		next[c.series]++
	}
	return out, nil
}
