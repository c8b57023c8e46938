package samples

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
)

// Visitor receives the content of a stream.
type Visitor interface {
	// Start begins a new table with these targets. The slices must not be changed.
	Start(targets [][]Label)
	// Wants says whether to decode series of this name; others are skipped.
	Wants(name string) bool
	// Series is called once for each series of a target in each table. It returns the number that stands for the series
	// in Read; below 0 the series is skipped. The slice must not be kept or changed.
	Series(target int, name string, labels []Label) int
	// Metric passes the type and the help of a target's metric.
	Metric(m Metric)
	// Read passes one read. It and its slices must not be kept.
	Read(r *Read)
}

// Read is one read of a target, with the series that the Visitor wants.
type Read struct {
	Target int
	Time   int64 // Unix milliseconds
	// Failed: the target did not answer; all its series but Up are gone.
	Failed bool
	// Series are the numbers of those with a new value, and of all that the target has in its first read of a table;
	// Values are these.
	Series []int
	Values []float64
	// Ended are the numbers of series that the target no longer has.
	Ended []int
}

// Up is the name of a series that every target has: 1 if the target was read, 0 if that failed. It is not stored.
const Up = "up"

// maxTargets and MaxSeries bound a table, maxLabels the names and values of a series or target, in bytes: collectors
// read lines of half of that, in which they may replace bytes. A stream beyond them is damaged.
const (
	maxTargets = 64
	MaxSeries  = 1 << 20
	maxLabels  = 128 << 10
)

// errUntrusted is a line that cannot be understood because lines before it are missing or damaged.
var errUntrusted = errors.New("lines before it are missing or damaged")

// Decoder reads the lines of one stream, in order.
type Decoder struct {
	visitor Visitor
	trusted bool
	series  int // in the table
	targets []targetSeries

	// Of the current line:
	name   string
	wants  bool
	found  []found
	out    Read
	labels []Label
}

// targetSeries is a target and its wanted series, in order of their IDs.
type targetSeries struct {
	up      int     // number of the series Up, below 0 if it is not wanted
	upValue float64 // its value; -1 before the first read
	last    int64
	wanted  []wantedSeries
}

type wantedSeries struct {
	id     int
	number int
}

// seekWanted returns the place of the first wanted series from a place on whose ID is id or greater. A line may name
// one series of a million, so it takes time by the logarithm of how many lie between.
func (t *targetSeries) seekWanted(from, id int) int {
	step := 1
	for from+step <= len(t.wanted) && t.wanted[from+step-1].id < id {
		from += step
		step *= 2
	}
	rest := t.wanted[from:min(from+step, len(t.wanted))]
	return from + sort.Search(len(rest), func(i int) bool { return rest[i].id >= id })
}

// found is a changed value that is wanted: its place among the values, and the place of its series among the wanted
// ones.
type found struct{ place, wanted int }

func NewDecoder(v Visitor) *Decoder { return &Decoder{visitor: v} }

// Lost says that bytes before the next line are missing.
func (d *Decoder) Lost() { d.trusted = false }

// Line reads one line and hands its contents on to the visitor. It takes time that grows with the line's length alone,
// and ends with ctx. After an error the lines that follow cannot be trusted: each returns errUntrusted until a new
// table begins.
func (d *Decoder) Line(ctx context.Context, line []byte) error {
	in := scanner{data: line, ctx: ctx}
	in.expect('{')
	in.inside = false
	key := in.text() // it says what the line is
	in.expect(':')
	if in.err == nil && key != "start" && !d.trusted {
		return errUntrusted
	}
	switch key {
	case "start":
		d.readTable(&in)
	case "metrics":
		d.readMetrics(&in)
	case "from":
		d.readSeries(&in)
	case "t":
		d.readValues(&in)
	default:
		in.fail("unknown kind of line")
	}
	if in.err != nil {
		d.trusted = false
		return fmt.Errorf("line of metrics, byte %d: %w", in.at, in.err)
	}
	return nil
}

// readTable reads the line that begins a table, after its first key: `1,"targets":[{"instance":"…"}…]}`. It also makes
// each target's series Up, which is not stored, if it is wanted.
func (d *Decoder) readTable(in *scanner) {
	if version := in.integer(); version != 1 {
		in.fail("a newer form than this program reads")
		return
	}
	d.series, d.targets = 0, d.targets[:0]
	var targets [][]Label
	in.key("targets")
	in.expect('[')
	for in.more(']') {
		if len(targets) == maxTargets {
			in.fail("too many targets")
			return
		}
		var labels []Label
		bytes := 0
		in.expect('{')
		for in.more('}') {
			name := in.text()
			in.expect(':')
			labels = append(labels, Label{name, in.text()})
			if bytes += labels[len(labels)-1].bytes(); bytes > maxLabels {
				in.fail("labels too long")
			}
		}
		targets = append(targets, labels)
	}
	in.expectEnd()
	if in.err != nil {
		return
	}
	d.trusted = true
	d.visitor.Start(targets)
	wantsUp := d.visitor.Wants(Up)
	for i := range targets {
		t := targetSeries{up: -1, upValue: -1, last: math.MinInt64}
		if wantsUp {
			t.up = d.visitor.Series(i, Up, nil) // it has only the target's labels
		}
		d.targets = append(d.targets, t)
	}
}

// readMetrics reads a line of metrics' descriptions, after its first key: `[["name","type","help"]…]}`.
func (d *Decoder) readMetrics(in *scanner) {
	in.expect('[')
	for in.more(']') {
		in.expect('[')
		var m Metric
		for i := 0; in.more(']'); i++ {
			switch word := in.text(); i {
			case 0:
				m.Name = word
			case 1:
				m.Type = word
			case 2:
				m.Help = word
			}
		}
		if in.err == nil {
			d.visitor.Metric(m)
		}
	}
	in.expectEnd()
}

// readSeries reads a line that defines series, after its first key:
// `120,"target":0,"series":[["name","label","value"…]…]}`. Their IDs count up from the first number.
func (d *Decoder) readSeries(in *scanner) {
	from := in.integer()
	target, t := d.targetOf(in)
	in.key("series")
	if in.err != nil {
		return
	}
	if from > d.series { // the series between are missing
		in.err = errUntrusted
		return
	}
	id := from
	in.expect('[')
	for ; in.more(']'); id++ {
		if id == MaxSeries {
			in.fail("too many series")
			return
		}
		in.expect('[')
		// Series of one name follow each other, and a table may have thousands that nobody wants.
		if name := in.textBytes(); string(name) != d.name {
			d.name = string(name)
			d.wants = d.visitor.Wants(d.name)
		}
		if id < d.series || !d.wants { // a line may be stored twice
			for in.more(']') {
				in.textBytes()
			}
			continue
		}
		d.labels = d.labels[:0]
		bytes := len(d.name)
		for in.more(']') {
			label := in.text()
			in.expect(',')
			d.labels = append(d.labels, Label{label, in.text()})
			if bytes += d.labels[len(d.labels)-1].bytes(); bytes > maxLabels {
				in.fail("labels too long")
			}
		}
		if in.err != nil {
			return
		}
		if number := d.visitor.Series(target, d.name, d.labels); number >= 0 { // else the visitor does not want it
			t.wanted = append(t.wanted, wantedSeries{id: id, number: number})
		}
	}
	in.expectEnd()
	d.series = max(d.series, id)
}

// targetOf reads `,"target":0`.
func (d *Decoder) targetOf(in *scanner) (int, *targetSeries) {
	in.key("target")
	n := in.integer()
	if in.err == nil && n >= len(d.targets) {
		in.fail("no such target")
	}
	if in.err != nil {
		return 0, &targetSeries{}
	}
	return n, &d.targets[n]
}

// readValues reads a line with the values of one read of a target, after its first key:
// `1764000000123,"target":0,"i":[0,0,3],"v":[17,0.5,"NaN"],"gone":[4]}` or `1764000000123,"target":0,"failed":1}`. What
// was read is handed on with the value of Up if that is wanted and changes.
func (d *Decoder) readValues(in *scanner) {
	at := int64(in.integer())
	target, t := d.targetOf(in)
	if in.err != nil || at <= t.last { // a line may be stored twice
		return
	}
	t.last = at
	r := &d.out
	*r = Read{Target: target, Time: at, Series: r.Series[:0], Values: r.Values[:0], Ended: r.Ended[:0]}
	up := 1.0
	if in.optionalKey("failed") {
		in.integer()
		r.Failed, up = true, 0
	} else {
		in.key("i")
		count := d.readChanged(in, t)
		in.key("v")
		d.readNewValues(in, t, count)
		if in.optionalKey("gone") {
			d.readEnded(in, t)
		}
	}
	in.expectEnd()
	if in.err != nil {
		return
	}
	if t.up >= 0 && t.upValue != up {
		t.upValue = up
		r.Series, r.Values = append(r.Series, t.up), append(r.Values, up)
	}
	d.visitor.Read(r)
}

// readChanged reads the list "i" of the series that changed, and notes the wanted ones among them in d.found. count is
// the length of the list; -1 if the rest of it was not read, because no wanted series can follow.
func (d *Decoder) readChanged(in *scanner, t *targetSeries) (count int) {
	d.found = d.found[:0]
	next, id := 0, -1
	in.expect('[')
	for ; in.more(']'); count++ {
		if next == len(t.wanted) {
			in.skipNumbers()
			return -1
		}
		id += in.integer() + 1 // IDs rise: how many lie between them is stored
		next = t.seekWanted(next, id)
		if next < len(t.wanted) && t.wanted[next].id == id {
			d.found = append(d.found, found{place: count, wanted: next})
		}
	}
	if id >= d.series {
		in.err = errUntrusted
	}
	return count
}

// readNewValues reads the list "v" of new values, and adds those of the series in d.found to d.out. count is how many
// values there must be, -1 if that is not known.
func (d *Decoder) readNewValues(in *scanner, t *targetSeries, count int) {
	in.expect('[')
	place, next := 0, 0
	for ; in.more(']'); place++ {
		switch {
		case next == len(d.found) && count < 0:
			in.skipNumbers()
			return
		case next == len(d.found) || d.found[next].place != place:
			in.skipValue()
			continue
		}
		d.out.Series = append(d.out.Series, t.wanted[d.found[next].wanted].number)
		d.out.Values = append(d.out.Values, in.value())
		next++
	}
	if in.err == nil && place != count {
		in.fail("not as many values as series")
	}
}

// readEnded reads the list of series that ended, and keeps those that are wanted.
func (d *Decoder) readEnded(in *scanner, t *targetSeries) {
	next, id := 0, -1
	in.expect('[')
	for in.more(']') {
		id += in.integer() + 1 // IDs rise: how many lie between them is stored
		next = t.seekWanted(next, id)
		if next < len(t.wanted) && t.wanted[next].id == id {
			d.out.Ended = append(d.out.Ended, t.wanted[next].number)
		}
	}
}
