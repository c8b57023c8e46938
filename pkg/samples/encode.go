package samples

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// Label is a name with a value.
type Label struct{ Name, Value string }

func (l Label) bytes() int { return len(l.Name) + len(l.Value) }

// Metric describes all series of one name of a target. Type is a Prometheus metric type, or "" if the target gave none.
type Metric struct{ Name, Type, Help string }

// Encoder turns reads into lines: Start once, then for each read Begin, the metrics and samples, and End. If lines were not stored, later
// lines mean nothing without them, so Start has to be called again.
type Encoder struct {
	targets []targetState
	series  []seriesState // by ID
	present int           // how many series the last reads had
	out     []byte

	// Of the current read:
	at      *targetState
	number  int // of the target
	time    time.Time
	read    uint64
	added   []addedSeries
	changed []change
	metrics []Metric
}

type targetState struct {
	ids   map[string]int32 // by the spelling: the series' name and braces as the target wrote them
	known map[string]bool  // metrics that were written
}

type seriesState struct {
	target int32
	gone   bool
	value  float64
	read   uint64 // that last had the series
}

type addedSeries struct {
	name   string
	labels []Label
}

type change struct {
	id    int32
	value float64
}

// Start begins a new table of series. Each target has these labels.
func (e *Encoder) Start(targets [][]Label) {
	e.series, e.present, e.targets = e.series[:0], 0, make([]targetState, len(targets))
	e.out = append(e.out, `{"start":1,"targets":[`...)
	for i, labels := range targets {
		e.targets[i] = targetState{ids: make(map[string]int32), known: make(map[string]bool)}
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(e.out, '{')
		for j, l := range labels {
			if j > 0 {
				e.out = append(e.out, ',')
			}
			e.out = append(appendString(e.out, l.Name), ':')
			e.out = appendString(e.out, l.Value)
		}
		e.out = append(e.out, '}')
	}
	e.out = append(e.out, "]}\n"...)
}

// Begin begins a read of a target.
func (e *Encoder) Begin(target int, at time.Time) {
	e.at, e.number, e.time = &e.targets[target], target, at
	e.read++
	e.added, e.changed, e.metrics = e.added[:0], e.changed[:0], e.metrics[:0]
}

// Metric adds the description of a metric. Only the first one of a metric counts: added is false for others.
func (e *Encoder) Metric(m Metric) (added bool) {
	if e.at.known[m.Name] {
		return false
	}
	e.at.known[m.Name] = true
	e.metrics = append(e.metrics, m)
	return true
}

// Sample adds the value of a series that the table has, by its spelling. known is false if the table does not have it.
func (e *Encoder) Sample(spelling []byte, value float64) (known bool) {
	id, known := e.at.ids[string(spelling)]
	if known {
		e.sample(id, value)
	}
	return known
}

// Add adds a series to the table, with its value.
func (e *Encoder) Add(spelling []byte, name string, labels []Label, value float64) {
	id := int32(len(e.series))
	e.at.ids[string(spelling)] = id
	e.series = append(e.series, seriesState{target: int32(e.number), gone: true})
	e.added = append(e.added, addedSeries{name, labels})
	e.sample(id, value)
}

// sample records a value if it is not the series' last. If a read has a series twice, the first value counts, as for Prometheus.
func (e *Encoder) sample(id int32, value float64) {
	s := &e.series[id]
	if s.read == e.read {
		return
	}
	s.read = e.read
	if s.gone || math.Float64bits(s.value) != math.Float64bits(value) {
		if s.gone {
			s.gone = false
			e.present++
		}
		s.value = value
		e.changed = append(e.changed, change{id, value})
	}
}

// End completes the read.
func (e *Encoder) End() {
	e.defineMetrics()
	e.defineSeries()
	slices.SortFunc(e.changed, func(a, b change) int { return cmp.Compare(a.id, b.id) })
	e.beginRead()
	e.out = append(e.out, `,"i":[`...)
	ids := idList{out: e.out}
	for _, c := range e.changed {
		ids.add(c.id)
	}
	e.out = append(ids.out, `],"v":[`...)
	for i, c := range e.changed {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = appendValue(e.out, c.value)
	}
	e.out = append(e.out, ']')
	e.leaveOut()
	e.out = append(e.out, "}\n"...)
}

// Fail adds a read that failed: no series of the target has a value any more.
func (e *Encoder) Fail(target int, at time.Time) {
	e.Begin(target, at)
	e.beginRead()
	e.out = append(e.out, ",\"failed\":1}\n"...)
	for i := range e.series {
		if s := &e.series[i]; s.target == int32(target) && !s.gone {
			s.gone = true
			e.present--
		}
	}
}

// leaveOut writes which of the target's series this read did not have.
func (e *Encoder) leaveOut() {
	ids := idList{}
	for i := range e.series {
		s := &e.series[i]
		if s.target != int32(e.number) || s.gone || s.read == e.read {
			continue
		}
		if ids.out == nil {
			ids.out = append(e.out, `,"gone":[`...)
		}
		s.gone = true
		e.present--
		ids.add(int32(i))
	}
	if ids.out != nil {
		e.out = append(ids.out, ']')
	}
}

func (e *Encoder) beginRead() {
	e.out = append(e.out, `{"t":`...)
	e.out = strconv.AppendInt(e.out, e.time.UnixMilli(), 10)
	e.out = append(e.out, `,"target":`...)
	e.out = strconv.AppendInt(e.out, int64(e.number), 10)
}

func (e *Encoder) defineMetrics() {
	if len(e.metrics) == 0 {
		return
	}
	e.out = append(e.out, `{"metrics":[`...)
	for i, m := range e.metrics {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = appendStrings(e.out, m.Name, m.Type, m.Help)
	}
	e.out = append(e.out, "]}\n"...)
}

func (e *Encoder) defineSeries() {
	if len(e.added) == 0 {
		return
	}
	e.out = append(e.out, `{"from":`...)
	e.out = strconv.AppendInt(e.out, int64(len(e.series)-len(e.added)), 10)
	e.out = append(e.out, `,"target":`...)
	e.out = strconv.AppendInt(e.out, int64(e.number), 10)
	e.out = append(e.out, `,"series":[`...)
	var words []string
	for i, s := range e.added {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		words = append(words[:0], s.name)
		for _, l := range s.labels {
			words = append(words, l.Name, l.Value)
		}
		e.out = appendStrings(e.out, words...)
	}
	e.out = append(e.out, "]}\n"...)
}

// Lines returns what was written since the last call. It is valid until the next call of another method.
func (e *Encoder) Lines() []byte {
	lines := e.out
	e.out = e.out[:0]
	return lines
}

// Series is how many series the table has, and how many of them the targets' last reads had.
func (e *Encoder) Series() (all, present int) { return len(e.series), e.present }

// idList writes IDs in rising order, each as the number of IDs between it and the one before.
type idList struct {
	out  []byte
	next int32
	more bool
}

func (l *idList) add(id int32) {
	if l.more {
		l.out = append(l.out, ',')
	}
	l.out = strconv.AppendInt(l.out, int64(id-l.next), 10)
	l.next, l.more = id+1, true
}

func appendStrings(out []byte, words ...string) []byte {
	out = append(out, '[')
	for i, w := range words {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(out, w)
	}
	return append(out, ']')
}

func appendString(out []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // every string has a form in JSON
	}
	return append(out, quoted...)
}

func appendValue(out []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(out, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(out, `"+Inf"`...)
	case math.IsInf(v, -1):
		return append(out, `"-Inf"`...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15 && !(v == 0 && math.Signbit(v)):
		return strconv.AppendInt(out, int64(v), 10)
	}
	return strconv.AppendFloat(out, v, 'g', -1, 64)
}
