// Package samples is the stored form of a node's metrics: what its Prometheus endpoints answered, read every few
// seconds.
//
// An hour of one node is a stream of lines, each a JSON object of one of these kinds:
//
//	{"start":1,"targets":[{"instance":"10.0.0.7:8080","job":"ray"}]}   a new table begins: all series before it are forgotten
//	{"metrics":[["ray_tasks","gauge","Current number of tasks …"]]}    name, type and help of metrics
//	{"from":120,"target":0,"series":[["ray_tasks","State","RUNNING"]]} series 120, 121, …: name, then each label's name and value
//	{"t":1764000000123,"target":0,"i":[0,0,3],"v":[17,0.5,"NaN"],"gone":[4]}
//
// The last kind is one read of one target at t (Unix milliseconds). It has only what changed since the target's last
// read: v has the new values, i the series they belong to. Each number in i says how many series lie between its series
// and the one before (0: none). A series that is not mentioned still has its last value; those in gone (encoded like i)
// are no longer exposed. A read that failed is {"t":…,"target":0,"failed":1}: all series of the target are gone.
// Numbers have the fewest digits that read back equal; those that JSON does not have are the strings "NaN", "+Inf" and
// "-Inf".
//
// A line may be stored twice. A reader skips a series line that it has (by from), and a read that is not newer than the
// target's last. If a series line leaves a gap, or bytes are missing, the reader cannot trust what follows until the
// next start.
package samples

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Interval is the time between two reads by default, from which readers choose the distance of the points they draw.
const Interval = 15 * time.Second

// Label is a name with a value.
type Label struct{ Name, Value string }

func (l Label) bytes() int { return len(l.Name) + len(l.Value) }

// Metric describes all series of one name of a target. Type is a Prometheus metric type, or "" if the target gave none.
type Metric struct{ Name, Type, Help string }

// Encoder turns reads into lines: Start once, then for each read Begin, the metrics and samples, and End; Fail instead
// of End if there were no samples. If lines were not stored, later lines mean nothing without them, so Start has to be
// called again.
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
	changed []change
	metrics list // lines that describe metrics
	added   list // lines that define series
}

// list is a list in JSON, written as lines of at most some lineBytes.
type list struct {
	out   []byte
	begin int // of the current line; it is open if it is before the end of out
}

// lineBytes is about how long a line of definitions is: readers and the spool handle lines whole.
const lineBytes = 128 << 10

// addArray adds an array of words to the list, and returns how many bytes it has written. If the list has no line to
// continue, head begins one; a line that is long enough is ended.
func (l *list) addArray(head func(out []byte) []byte, words ...string) (written int) {
	before := len(l.out)
	if l.begin < len(l.out) {
		l.out = append(l.out, ',')
	} else {
		l.out = head(l.out)
	}
	l.out = appendStrings(l.out, words...)
	if len(l.out)-l.begin >= lineBytes {
		l.endLine()
	}
	return len(l.out) - before
}

func (l *list) endLine() {
	if l.begin < len(l.out) {
		l.out = append(l.out, "]}\n"...)
		l.begin = len(l.out)
	}
}

func (l *list) reset() { l.out, l.begin = reuse(l.out), 0 }

// keptBytes is how long a buffer may be that is used again.
const keptBytes = 1 << 20

func reuse(buffer []byte) []byte {
	if cap(buffer) > keptBytes {
		return nil
	}
	return buffer[:0]
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

type change struct {
	id    int32
	value float64
}

// Start begins a new table of series. targets has the labels of each target.
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
	e.changed = e.changed[:0]
	e.added.reset()
	e.metrics.reset()
}

// Metric adds the description of a metric, and returns its bytes: 0 but for the first one of a metric.
func (e *Encoder) Metric(m Metric) (written int) {
	if e.at.known[m.Name] {
		return 0
	}
	e.at.known[m.Name] = true
	return e.metrics.addArray(func(out []byte) []byte { return append(out, `{"metrics":[`...) }, m.Name, m.Type, m.Help)
}

// Sample adds the value of a series that the table has, by its spelling. known is false if the table does not have it.
func (e *Encoder) Sample(spelling []byte, value float64) (known bool) {
	id, known := e.at.ids[string(spelling)]
	if known {
		e.recordSample(id, value)
	}
	return known
}

// Add adds a series of the target that is being read to the table, with its value, and returns how many bytes its
// definition takes. spelling is how the target writes the series, by which Sample finds it.
func (e *Encoder) Add(spelling []byte, name string, labels []Label, value float64) (written int) {
	id := int32(len(e.series))
	e.at.ids[string(spelling)] = id
	e.series = append(e.series, seriesState{target: int32(e.number), gone: true}) // until it has its first value
	words := append(make([]string, 0, 16), name)
	for _, l := range labels {
		words = append(words, l.Name, l.Value)
	}
	written = e.added.addArray(func(out []byte) []byte {
		out = append(out, `{"from":`...)
		out = strconv.AppendInt(out, int64(id), 10)
		out = append(out, `,"target":`...)
		out = strconv.AppendInt(out, int64(e.number), 10)
		return append(out, `,"series":[`...)
	}, words...)
	e.recordSample(id, value)
	return written
}

// recordSample records a value of the present read, unless it equals the series' last one. If a read has a series
// twice, the first value counts, as for Prometheus.
func (e *Encoder) recordSample(id int32, value float64) {
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

// End completes the read of a target: it writes the definitions of new series, and one line with the values that
// changed and the series that are gone.
func (e *Encoder) End() {
	e.writeDefinitions()
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
	e.writeGone()
	e.out = append(e.out, "}\n"...)
}

// Fail completes a read that failed: no series of the target has a value any more.
func (e *Encoder) Fail() {
	e.writeDefinitions()
	e.beginRead()
	e.out = append(e.out, ",\"failed\":1}\n"...)
	for i := range e.series {
		if s := &e.series[i]; s.target == int32(e.number) && !s.gone {
			s.gone = true
			e.present--
		}
	}
}

// writeDefinitions writes the metrics and series that are new in the read.
func (e *Encoder) writeDefinitions() {
	e.metrics.endLine()
	e.added.endLine()
	e.out = append(append(e.out, e.metrics.out...), e.added.out...)
	e.metrics.reset()
	e.added.reset()
}

// writeGone writes the list "gone" of the target's series that the last read had and this one has not; nothing if there
// are none.
func (e *Encoder) writeGone() {
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

// Lines returns what was written since the last call. It is valid until the next call of another method.
func (e *Encoder) Lines() []byte {
	lines := e.out
	e.out = reuse(e.out)
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

// appendString writes a string in JSON. Only what must be escaped is: users' labels may have any character thousands of
// times.
func appendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for _, r := range s { // what is no UTF-8 becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, '\\', 'n')
		case r < ' ':
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

// appendValue appends a value as JSON. NaN and infinities, which JSON lacks, are strings. Whole numbers that float64
// has exactly are written without an exponent, except -0, which would lose its sign.
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
