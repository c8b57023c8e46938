package metricsgen

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

// Counts writes the lines of an hour of metrics in which something that a line can hold is there very often: targets,
// tables, names, series, labels, values, series that are gone, and reads. No collector writes such an hour; a pod that
// writes to the bucket itself may.
type Counts struct {
	// Of is what there is N times, a key of CountKinds, or "mix".
	Of string
	N  int
	// Time is the first read's, in Unix milliseconds.
	Time int64
	// Rand chooses in a mix.
	Rand *rand.Rand
}

// CountKinds are what Counts can write. Each function writes n of something.
var CountKinds = map[string]func(w *CountWriter, n int){
	"starts": func(w *CountWriter, n int) { // of tables with another target each
		for i := range n {
			w.start(fmt.Sprint("a", i))
		}
		w.series(1, "m", "", false)
		w.all(0, 1)
	},
	"restarts": func(w *CountWriter, n int) { // of the collector, after a table of n series
		w.start("a")
		w.series(n, "m", "l", false)
		w.all(0, n)
		for range n {
			w.start()
		}
		w.start("a")
		w.series(1, "m", "", false)
		w.all(0, 1)
	},
	"tables": func(w *CountWriter, n int) { // of the same series
		for range n {
			w.start("a")
			w.series(2, "m", "l", false)
			w.all(0, 2)
		}
	},
	"targets": func(w *CountWriter, n int) { // as many as a table may have, again and again
		for range n / 64 {
			var targets []string
			for i := range 64 {
				targets = append(targets, fmt.Sprint("a", i))
			}
			w.start(targets...)
		}
	},
	"series": func(w *CountWriter, n int) {
		w.start("a")
		w.series(n, "m", "l", false)
		w.all(0, n)
	},
	"names": func(w *CountWriter, n int) { // without a sample
		w.start("a")
		w.series(n, "", "", false)
	},
	"sampled names": func(w *CountWriter, n int) {
		w.start("a")
		w.series(n, "", "", false)
		w.all(0, n)
	},
	"equal series": func(w *CountWriter, n int) {
		w.start("a")
		w.series(n, "m", "", false)
		w.all(0, n)
	},
	"gone": func(w *CountWriter, n int) { // of equal series, from the front
		w.start("a")
		w.series(n, "m", "", false)
		w.all(0, n)
		w.gone(n - 1)
	},
	"gone and back": func(w *CountWriter, n int) { // of equal series, one at a time
		w.start("a")
		w.series(1000, "m", "", false)
		w.all(0, 1000)
		for i := range n {
			w.read(fmt.Sprintf(`"i":[%d],"v":[%d],"gone":[%d]`, i%1000, i, (i+500)%1000))
		}
	},
	"last of a million": func(w *CountWriter, n int) { // reads that name the last of many series
		w.start("a")
		w.series(n, "m", "l", false)
		w.all(0, n)
		for i := range min(n/10, 5_000) {
			w.read(fmt.Sprintf(`"i":[%d],"v":[%d],"gone":[%d]`, n-1, i, n-2))
		}
	},
	"failed reads": func(w *CountWriter, n int) { // of a target with many series
		w.start("a")
		w.series(n, "m", "l", false)
		w.all(0, n)
		for range min(n, 50_000) {
			w.read(`"failed":1`)
		}
	},
	"reads": func(w *CountWriter, n int) { // in which nothing changes
		w.start("a")
		w.series(10, "m", "l", false)
		w.all(0, 10)
		for range n {
			w.read(`"i":[],"v":[]`)
		}
	},
	"labels": func(w *CountWriter, n int) { // of one series
		w.start("a")
		var labels strings.Builder
		for i := range n {
			fmt.Fprintf(&labels, `,"l%d","x"`, i)
		}
		w.line(`{"from":0,"target":0,"series":[["m"%s]]}`, labels.String())
		w.all(0, 1)
	},
	"large labels": func(w *CountWriter, n int) { // 60,000 bytes each
		w.start("a")
		w.series(n/1000, "m", "l", true)
		w.all(0, n/1000)
	},
	"large target": func(w *CountWriter, n int) { // whose labels all series get
		w.start(strings.Repeat("a", 60_000))
		w.series(n, "m", "l", false)
		w.all(0, n)
	},
	"descriptions": func(w *CountWriter, n int) {
		w.start("a")
		for i := range n {
			w.line(`{"metrics":[["m%d","gauge","help"]]}`, i)
		}
		w.series(1, "m", "", false)
		w.all(0, 1)
	},
	"elements": func(w *CountWriter, n int) { // of a line that is damaged at its end
		w.start("a")
		w.line(`{"t":%d,"target":0,"i":[%s`, w.time, strings.Repeat("0,", n))
		w.line(`{"start":1,"targets":[%s`, strings.Repeat("{},", n))
		w.line(`{"metrics":[["m"%s`, strings.Repeat(`,""`, n))
		w.start("a")
		w.series(1, "m", "", false)
		w.all(0, 1)
	},
}

// Write writes the hour.
func (c Counts) Write(to io.Writer) error {
	w := &CountWriter{out: bufio.NewWriterSize(to, 1<<20), time: c.Time}
	if c.Of != "mix" {
		CountKinds[c.Of](w, c.N)
		return w.out.Flush()
	}
	for range 1 + c.Rand.IntN(12) {
		w.any(c.Rand, c.N>>c.Rand.IntN(20))
	}
	return w.out.Flush()
}

// CountWriter writes lines.
type CountWriter struct {
	out  *bufio.Writer
	time int64 // of the next read
	next int   // series of the table
}

func (w *CountWriter) line(format string, a ...any) { fmt.Fprintf(w.out, format+"\n", a...) }

func (w *CountWriter) start(targets ...string) {
	w.next = 0
	for i, t := range targets {
		targets[i] = fmt.Sprintf(`{"instance":"%s"}`, t)
	}
	w.line(`{"start":1,"targets":[%s]}`, strings.Join(targets, ","))
}

// series tells n series in one line, or a line each if their labels are large: of one name, or with a name each if it
// is empty; with a label of another value each, or without if it is empty.
func (w *CountWriter) series(n int, name, label string, large bool) {
	begin := func() { fmt.Fprintf(w.out, `{"from":%d,"target":0,"series":[`, w.next) }
	begin()
	for i := range n {
		switch {
		case i > 0 && large:
			fmt.Fprint(w.out, "]}\n")
			begin()
		case i > 0:
			fmt.Fprint(w.out, ",")
		}
		of := name
		if name == "" {
			of = fmt.Sprint("m", w.next)
		}
		fmt.Fprintf(w.out, `["%s"`, of)
		if label != "" {
			value := ""
			if large {
				value = strings.Repeat("A", 60_000)
			}
			fmt.Fprintf(w.out, `,"%s","%s%d"`, label, value, w.next)
		}
		fmt.Fprint(w.out, "]")
		w.next++
	}
	fmt.Fprint(w.out, "]}\n")
}

// read writes a read of the first target.
func (w *CountWriter) read(rest string) {
	w.line(`{"t":%d,"target":0,%s}`, w.time, rest)
	w.time++
}

// all writes a read with a value of each of n series after from.
func (w *CountWriter) all(from, n int) {
	fmt.Fprintf(w.out, `{"t":%d,"target":0,"i":[%d`, w.time, from)
	for range n - 1 {
		fmt.Fprint(w.out, ",0")
	}
	fmt.Fprint(w.out, `],"v":[1`)
	for range n - 1 {
		fmt.Fprint(w.out, ",1")
	}
	fmt.Fprint(w.out, "]}\n")
	w.time++
}

// gone writes a read in which n series are gone.
func (w *CountWriter) gone(n int) {
	w.read(`"i":[],"v":[],"gone":[0` + strings.Repeat(",0", max(0, n-1)) + "]")
}

// any writes something of which there is n.
func (w *CountWriter) any(r *rand.Rand, n int) {
	n = max(n, 1)
	switch r.IntN(9) {
	case 0, 1:
		w.start(fmt.Sprint("a", r.IntN(3)))
	case 2, 3:
		if w.next == 0 {
			w.start("a")
		}
		w.series(n, []string{"m", ""}[r.IntN(2)], []string{"l", ""}[r.IntN(2)], n < 500 && r.IntN(3) == 0)
	case 4:
		if w.next > 0 {
			w.all(0, w.next)
		}
	case 5:
		if w.next > 0 {
			w.gone(1 + r.IntN(w.next))
		}
	case 6:
		for range min(n, 100_000) {
			w.read([]string{`"failed":1`, `"i":[],"v":[]`}[r.IntN(2)])
		}
	case 7:
		for i := range min(n, 100_000) {
			if w.next > 0 {
				w.read(fmt.Sprintf(`"i":[%d],"v":[%d]`, r.IntN(w.next), i))
			}
		}
	case 8:
		for i := range min(n, 100_000) {
			w.start(fmt.Sprint("a", i))
		}
	}
}
