package findings

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

func digestOf(path, log string, block int) *digest {
	d := &digest{markers: failureMarkers(path), next: 1}
	for rest := []byte(log); len(rest) > 0; {
		n := min(block, len(rest))
		_, _ = d.Write(rest[:n])
		rest = rest[n:]
	}
	d.endLog()
	return d
}

const raisedAt = "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    step()\nValueError: loss is nan at step 4711\n"

// TestDigest: a traceback is kept wherever it is in a log, with the number of its line, and what is kept is bounded.
func TestDigest(t *testing.T) {
	bars := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\repoch: %3d%%|████      | %d/%d [00:01<00:01, 9.9it/s, loss=0.1] ", i*100/n, i, n)
		}
		return b.String()
	}
	lines := func(n int) string {
		return strings.Repeat("2026-11-24 10:00:00,000\tINFO a.py:1 -- an ordinary line of a log that is long\n", n)
	}
	for name, c := range map[string]struct {
		log  string
		line int
	}{
		"behind a bar":         {bars(70000) + raisedAt, 1},
		"before a bar":         {bars(200) + "\n" + raisedAt + bars(70000), 2},
		"between bars":         {bars(30000) + "\n" + raisedAt + bars(30000) + "\nx\n" + bars(30000), 2},
		"far from the end":     {lines(1000) + raisedAt + lines(200000), 1001},
		"in the middle":        {lines(100000) + raisedAt + lines(100000), 100001},
		"at the end":           {lines(200000) + raisedAt, 200001},
		"line ends of Windows": {strings.ReplaceAll(lines(100000)+raisedAt, "\n", "\r\n"), 100001},
		"a line without end":   {strings.Repeat("x", 6<<20) + "\n" + raisedAt, 2},
	} {
		for _, block := range []int{1 << 20, 4093} {
			d := digestOf("job-driver-x.log", c.log, block)
			text := string(d.text)
			at := strings.Index(text, "Traceback")
			if at < 0 || !strings.Contains(text, "ValueError: loss is nan at step 4711") || len(text) > maxDigest {
				t.Errorf("%s: %d bytes of %d are kept, the traceback at %d", name, len(text), len(c.log), at)
				continue
			}
			says.Equal(t, lineNumber(text, d.marks, at), c.line, "%s, blocks of %d: line", name, block)
		}
	}
	many := digestOf("job-driver-x.log", strings.Repeat(raisedAt+strings.Repeat("x\n", 200), 30000), 1<<16)
	says.True(t, len(many.text) <= maxDigest && many.leftOut, "%d bytes of many tracebacks, left out: %t",
		len(many.text), many.leftOut)
}

// TestPlacesClose: lines that tell of failures one close behind the other cost no more than lines far apart, and keep
// the same.
func TestPlacesClose(t *testing.T) {
	d := digestOf("job-driver-x.log", strings.Repeat("x\n", 500)+strings.Repeat(raisedAt, 3000)+
		strings.Repeat("y\n", 500)+raisedAt+strings.Repeat("z\n", 100), 1<<16)
	found := d.failurePlaces(0, len(d.text))
	first := strings.Index(string(d.text), "Traceback")
	says.True(t, len(found) == 2 && found[0][0] == first-2*linesAhead &&
		strings.HasPrefix(string(d.text[found[1][0]:]), "y\ny\ny\nTrace") && found[1][1] == len(d.text),
		"%v, the first at %d", found, first)
}

// TestDigestJump: behind a part that is left out lines have no numbers, and are not taken for those before it.
func TestDigestJump(t *testing.T) {
	d := digestOf("x.log", "one\ntw", 3)
	d.skipPart()
	_, _ = d.Write([]byte("o\n" + raisedAt + strings.Repeat("an ordinary line\n", 400000)))
	d.endLog()
	text := string(d.text)
	says.True(t, lineNumber(text, d.marks, strings.Index(text, "tw")) == 2 &&
		lineNumber(text, d.marks, strings.Index(text, "Traceback")) == 0 && !strings.Contains(text, "two"), "%.200q",
		text)
}

// TestDigestWork: what was overwritten costs little, so that a bar of hundreds of MB does not hide what is behind it.
func TestDigestWork(t *testing.T) {
	bar := digestOf("x.log", strings.Repeat("\repoch:  10%|█         | 1/10 [00:01<00:09,  1.00it/s]", 100000), 1<<16)
	lines := digestOf("x.log", strings.Repeat("an ordinary line of a log\n", 200000), 1<<16)
	says.True(t, bar.work <= 5_700_000/overwritten+1000 && lines.work >= 5_200_000 && lines.work <= 5_200_000*9/8,
		"bars %d, lines %d", bar.work, lines.work)
}

// TestDigestLines: a short log is kept as it is; what is left out of lines changes no number of a line.
func TestDigestLines(t *testing.T) {
	const json = `{"asctime": "2026-11-20 10:00:00,000", "levelname": "ERROR", "message": "m", "exc_text": "Traceback (most recent call last):\nKeyError: 'a'"}`
	d := digestOf("x.log", "one\ntwo\r\nold\rnew\r\n"+json+"\nsix\n"+json+
		"\nl\xe9on\n\xd6\xd0\xce\xc4\nu\x00t\x00f\x00\r\x00\n\x0016", 3)
	const expanded = "ERROR 2026-11-20 10:00:00,000 m\nTraceback (most recent call last):\nKeyError: 'a'\n"
	if want := "one\ntwo\n\rnew\n" + expanded + "six\n" + expanded + "léon\n中文\nutf\n16"; string(d.text) != want {
		t.Errorf("%q, want %q", d.text, want)
	}
	for text, line := range map[string]int{"one": 1, "two": 2, "new": 3, "KeyError": 4, "six": 5, "léon": 7, "utf": 9} {
		says.Equal(t, lineNumber(string(d.text), d.marks, bytes.Index(d.text, []byte(text))), line, "%s: line", text)
	}
}

// TestDigestWithoutLineEnd: a bar, or a line that Ray copied from a worker, behind an exception or words without a line
// end is no part of them.
func TestDigestWithoutLineEnd(t *testing.T) {
	const bar, worker = "\r 10%|█   | 1/10 [00:01<00:09]\r 20%|██  | 2/10 [00:02<00:08]", "\x1b[36m(f pid=7, ip=10.0.0.2)\x1b[0m loaded"
	for log, want := range map[string]string{
		"a\nValueError: torn" + bar + "\nb\n":                  "a\nValueError: torn\n\r 20%|██  | 2/10 [00:02<00:08]\nb\n",
		"ValueError: torn\r\nb\n":                              "ValueError: torn\nb\n",
		"epoch 1" + bar + "\nb\n":                              "\r 20%|██  | 2/10 [00:02<00:08]\nb\n",
		"x\nValueError: torn" + worker + "\nb\n":               "x\nValueError: torn\n" + worker + "\nb\n",
		bar + "\x1b[33m(raylet)\x1b[0m it spills\nb\n":         "\r 20%|██  | 2/10 [00:02<00:08]\n\x1b[33m(raylet)\x1b[0m it spills\nb\n",
		worker + worker + "\n":                                 worker + worker + "\n",
		worker + "\n" + worker + "\n":                          worker + "\n" + worker + "\n",
		"it calls \x1b[36mf(x)\x1b[0m in \x1b[36m(a)\x1b[0m\n": "it calls \x1b[36mf(x)\x1b[0m in \x1b[36m(a)\x1b[0m\n",
	} {
		for _, block := range []int{1, 3, 1 << 16} {
			d := &digest{markers: failureMarkers("job-driver-x.log"), next: 1, workers: map[string]bool{}}
			for rest := []byte(log); len(rest) > 0; {
				n := min(block, len(rest))
				_, _ = d.Write(rest[:n])
				rest = rest[n:]
			}
			if d.endLog(); string(d.text) != want {
				t.Errorf("%q, blocks of %d: %q", log, block, d.text)
			}
			if at := strings.Index(want, "\nb\n"); at > 0 {
				says.Equal(t, lineNumber(string(d.text), d.marks, at+1), strings.Count(log[:strings.Index(log, "\nb\n")+1], "\n")+1, "%q: line", log)
			}
		}
	}
}

// FuzzDigest: whatever a log holds and wherever reads end, the same is kept.
func FuzzDigest(f *testing.F) {
	f.Add("a\rb\r\nc\n{\"level\":\"error\",\"msg\":\"x\",\"stack\":\"y\"}\n", 1)
	f.Add("\r\r\na\r \rb", 2)
	f.Add("0\r0", 2)
	f.Add("plain\n{}\nl\xe9on\nplain\n\n{\"level\":\"error\",\"msg\":\"x\",\"stack\":\"y\"}\nplain\n", 7)
	f.Fuzz(func(t *testing.T, log string, block int) {
		if block < 1 || block > 1000 {
			return
		}
		whole, parts := digestOf("x.log", log, len(log)+1), digestOf("x.log", log, block)
		says.True(t, bytes.Equal(whole.text, parts.text), "%q, in parts %q", whole.text, parts.text)
		for i := range whole.text {
			if line := lineNumber(string(whole.text), whole.marks, i); line < 1 || line > strings.Count(log, "\n")+1 {
				t.Fatalf("line %d at %d of %q", line, i, whole.text)
			}
		}
	})
}

// BenchmarkDigest measures how fast long logs are read.
func BenchmarkDigest(b *testing.B) {
	for name, log := range map[string]string{
		"bars":       strings.Repeat("\repoch:  10%|█         | 1/10 [00:01<00:09,  1.00it/s]", 1<<20),
		"lines":      strings.Repeat("2026-11-24 10:00:00,000\tINFO a.py:1 -- an ordinary line of a log\n", 1<<20),
		"tracebacks": strings.Repeat(raisedAt, 1<<18),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				digestOf("job-driver-x.log", log, 256<<10)
			}
		})
	}
}

// TestReadDigest: how much of a log is read depends on what it takes. Of a log that takes too much the beginning and
// the end are read, and what was left out is said.
func TestReadDigest(t *testing.T) {
	const most = 1 << 20
	lines := func(bytes int) string {
		const line = "2026-11-24 10:00:00,000\tINFO a.py:1 -- an ordinary line of a log that is long\n"
		return strings.Repeat(line, bytes/len(line))
	}
	bars := func(bytes int) string {
		const bar = "\repoch:  10%|#         | 1/10 [00:01<00:09,  1.00it/s]"
		return strings.Repeat(bar, bytes/len(bar))
	}
	utf16 := func(text string) string { return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00" }
	for name, c := range map[string]struct {
		log   string
		found bool
		part  bool // of the log was left out
	}{
		"short":                   {lines(most/2) + raisedAt + lines(most/4), true, false},
		"at the beginning":        {lines(most/8) + raisedAt + lines(4*most), true, true},
		"in the middle":           {lines(2*most) + raisedAt + lines(2*most), false, true},
		"at the end":              {lines(4*most) + raisedAt + lines(most/2), true, true},
		"between bars":            {bars(2*most) + "\n" + raisedAt + bars(2*most), true, false},
		"behind bars":             {bars(4*most) + raisedAt, true, false},
		"before bars":             {raisedAt + bars(4*most), true, false},
		"behind too many bars":    {bars(16*most) + raisedAt, true, true},
		"behind lines, in UTF-16": {utf16(lines(2*most) + raisedAt), true, true},
	} {
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
		store, file := storetest.New(), moment.LogFile{Node: rayid.Node{1}, Path: "job-driver-x.log"}
		key := layout.LogChunkKey(layout.LogKey("log", ref, file.Node, file.Path), 0, layout.Plain)
		store.Objects[key] = []byte(c.log)
		o := must.Get(layout.ParseObject("log", ref, key))(t)
		logs := sessionlogs.New(store)
		logs.Add(o, blob.Object{Key: key, Size: int64(len(c.log))})
		missing := 0
		r := logReader{ctx: t.Context(), stored: logs, note: func(string, ...any) { missing++ }}
		d := &digest{markers: failureMarkers(file.Path), next: 1}
		must.OK(t, r.readDigest(d, file, int64(len(c.log)), most))
		d.endLog()
		if found := strings.Contains(string(d.text), raisedAt); found != c.found || missing > 0 != c.part {
			t.Errorf("%s: found %t; %d parts missing; %d %q", name, found, missing, len(d.text), d.text[max(0, len(d.text)-300):])
		}
		says.True(t, r.work <= most*5/4+(512<<10), "%s: %d bytes of work, want about %d", name, r.work, most)
	}
}

// TestMemoryEventsAtOtherTimes: an event that memory ran out is evidence of what is known of that moment, and otherwise
// counts by itself.
func TestMemoryEventsAtOtherTimes(t *testing.T) {
	b := &builder{byKey: map[string]*finding{}}
	began := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, time.Second, time.Hour} {
		event := pyjson.Obj("label", "Out of Memory", "message",
			"Task was killed due to the node running low on memory.")
		b.addEvent(event, began.Add(after).UnixNano(), &logText{text: "line"}, 0, 4)
	}
	if len(b.findings) != 1 || b.findings[0].Count != 2 || b.findings[0].last != began.Add(time.Hour).UnixNano() {
		t.Errorf("%d findings, %+v", len(b.findings), b.findings[0].Finding)
	}
}
