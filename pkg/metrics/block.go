package metrics

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/rayhistory/historyserver/pkg/samples"
)

// block is one hour of a node's metrics in memory: for each series the values that changed, and the read of its target at which each changed. When
// a series is no longer exposed, its value is the one that Prometheus calls a stale marker.
type block struct {
	targets []blockTarget
	series  []uint32 // numbers of the dictionary, ascending
	first   []uint32 // the changes of series i are [first[i], first[i+1])
	at      []uint16 // index of a change's read among its target's
	values  []float64
}

// blockTarget is the reads of a target, in order of time.
type blockTarget struct {
	id    uint32 // of the dictionary
	times []int64
}

// staleMarker is the value of a series that is no longer exposed.
var staleMarker = math.Float64frombits(value.StaleNaN)

// maxReads bounds the reads of one target in an hour: one every 55 ms.
const maxReads = math.MaxUint16

func (b *block) target(id uint32) *blockTarget {
	for i := range b.targets {
		if b.targets[i].id == id {
			return &b.targets[i]
		}
	}
	return nil
}

// changes returns the changes of a series: the reads that had a new value, and the values. There are none if the block does not have the series.
func (b *block) changes(series uint32) (at []uint16, values []float64) {
	i, found := slices.BinarySearch(b.series, series)
	if !found {
		return nil, nil
	}
	from, to := b.first[i], b.first[i+1]
	return b.at[from:to], b.values[from:to]
}

// bytes returns how much memory the block takes.
func (b *block) bytes() int64 {
	n := int64(len(b.series))*8 + int64(len(b.at))*10 + 256
	for _, t := range b.targets {
		n += int64(len(t.times)) * 8
	}
	return n
}

var errTooManyReads = errors.New("more reads of a target than an hour can have")

// builder makes a block from the lines of an hour.
type builder struct {
	names *dictionary
	wants func(name string) bool
	left  *changeLimit // of changes
	// only, if set, says which of the wanted series are kept.
	only func(labels.Labels) bool

	err     error // why the rest is not taken
	table   []builderTable
	targets []blockTarget
	series  []builderSeries
	place   map[uint32]int // of a series in these, by its number
	told    []toldSeries   // those of the table that is read
	changes []change
}

// builderTable is a target of the table that is being read: its index in the block, and whether the table had a read of it.
type builderTable struct {
	labels []samples.Label
	target int
	read   bool
}

type builderSeries struct {
	number  uint32
	target  int
	up      bool
	value   float64
	last    int // its last change, -1 if there is none
	exposed int // how many of the table's series are this one and exposed
}

// toldSeries is a series of a table. Several of them may be the same series for Prometheus, which treats a label with an empty value as missing:
// when a metric gets a new label, Ray exposes the series that do not have it with an empty value.
type toldSeries struct {
	place   int // of the series that it is
	exposed bool
	value   float64
}

type change struct {
	series int
	at     uint16
	value  float64
}

func newBuilder(names *dictionary, wants func(string) bool, left *changeLimit) *builder {
	return &builder{names: names, wants: wants, left: left, place: make(map[uint32]int)}
}

// Start implements samples.Visitor.
func (b *builder) Start(targets [][]samples.Label) {
	b.table, b.told = b.table[:0], b.told[:0]
	for i := range b.series {
		b.series[i].exposed = 0
	}
	for _, labels := range targets {
		id := b.names.target(labels)
		place := slices.IndexFunc(b.targets, func(t blockTarget) bool { return t.id == id })
		if place < 0 {
			place = len(b.targets)
			b.targets = append(b.targets, blockTarget{id: id})
		}
		b.table = append(b.table, builderTable{labels: labels, target: place})
	}
}

// Wants implements samples.Visitor.
func (b *builder) Wants(name string) bool { return b.err == nil && b.wants(name) }

// Metric implements samples.Visitor.
func (b *builder) Metric(m samples.Metric) { b.names.describe(m) }

// Series implements samples.Visitor.
func (b *builder) Series(target int, name string, labels []samples.Label) int {
	t := b.table[target]
	number, err := b.names.add(b.targets[t.target].id, t.labels, name, labels)
	if err != nil {
		b.err = err
		return -1
	}
	if b.only != nil && !b.only(b.names.of(number).labels) {
		return -1
	}
	place, known := b.place[number]
	if !known {
		place = len(b.series)
		b.place[number] = place
		b.series = append(b.series, builderSeries{number: number, target: t.target, up: name == samples.Up, last: -1})
	}
	if b.series[place].target != t.target {
		return -1 // two targets have series with the same labels: those of the first target count
	}
	b.told = append(b.told, toldSeries{place: place})
	return len(b.told) - 1
}

// Read implements samples.Visitor.
func (b *builder) Read(r *samples.Read) {
	if b.err != nil {
		return
	}
	table := &b.table[r.Target]
	times := b.targets[table.target].times
	at := uint16(len(times))
	switch {
	case len(times) == maxReads:
		b.err = errTooManyReads
		return
	case len(times) == 0 || r.Time > times[len(times)-1]:
		b.targets[table.target].times = append(times, r.Time)
	default:
		// Lines that are stored twice, a clock that was set back, or a second writer: the changes count from the next read on.
	}
	for i, told := range r.Series {
		b.expose(&b.told[told], at, r.Values[i])
	}
	for _, told := range r.Gone {
		b.hide(&b.told[told], at)
	}
	if r.Failed || !table.read {
		told := make(map[int]bool, len(r.Series))
		for _, i := range r.Series {
			told[b.told[i].place] = true
		}
		for place, s := range b.series {
			if s.target == table.target && !told[place] && (!r.Failed || !s.up) {
				b.end(place, at)
			}
		}
	}
	if r.Failed {
		b.hideAll(table.target)
	}
	table.read = true
}

// expose gives a series of the table a value.
func (b *builder) expose(t *toldSeries, at uint16, v float64) {
	if !t.exposed {
		t.exposed = true
		b.series[t.place].exposed++
	}
	t.value = v
	b.change(t.place, at, v)
}

// hide says that a series of the table is no longer exposed. Another series of the table that is the same for Prometheus may still expose it.
func (b *builder) hide(t *toldSeries, at uint16) {
	if !t.exposed {
		return
	}
	t.exposed = false
	s := &b.series[t.place]
	if s.exposed--; s.exposed == 0 {
		b.end(t.place, at)
		return
	}
	for _, other := range b.told {
		if other.place == t.place && other.exposed {
			b.change(t.place, at, other.value)
			return
		}
	}
}

// hideAll says that a target exposes none of the table's series; later lines say which it has again.
func (b *builder) hideAll(target int) {
	for i := range b.told {
		if t := &b.told[i]; t.exposed && b.series[t.place].target == target {
			t.exposed = false
			b.series[t.place].exposed--
		}
	}
}

// end says that a series is no longer exposed.
func (b *builder) end(place int, at uint16) {
	if s := b.series[place]; s.last >= 0 && !value.IsStaleNaN(s.value) {
		b.change(place, at, staleMarker)
	}
}

func (b *builder) change(place int, at uint16, v float64) {
	s := &b.series[place]
	switch {
	case s.last >= 0 && math.Float64bits(s.value) == math.Float64bits(v):
		return
	case s.last >= 0 && b.changes[s.last].at == at:
		b.changes[s.last].value = v
	case !b.left.take():
		b.err = errTooManySamples
		return
	default:
		s.last = len(b.changes)
		b.changes = append(b.changes, change{place, at, v})
	}
	s.value = v
}

// block returns the finished block.
func (b *builder) block() (*block, error) {
	if b.err != nil {
		return nil, b.err
	}
	order := make([]int, len(b.series)) // places, by number
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(b.series[i].number, b.series[j].number) })
	out := &block{
		targets: b.targets, series: make([]uint32, len(order)), first: make([]uint32, len(order)+1),
		at: make([]uint16, len(b.changes)), values: make([]float64, len(b.changes)),
	}
	count := make([]uint32, len(order)) // of each place's changes, then where the next goes
	for _, c := range b.changes {
		count[c.series]++
	}
	next := uint32(0)
	for i, place := range order {
		out.series[i], out.first[i] = b.series[place].number, next
		next, count[place] = next+count[place], next
	}
	out.first[len(order)] = next
	for _, c := range b.changes {
		i := count[c.series]
		out.at[i], out.values[i] = c.at, c.value
		count[c.series]++
	}
	return out, nil
}
