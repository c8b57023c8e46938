package logline

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"github.com/rayhistory/historyserver/internal/testkit/docblock"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// recordedForm is a form in which a library printed its lines. testdata/make made them.
type recordedForm struct {
	Form, Library string
	// Time is full, year (the year is left out), clock (the date too), minute (the seconds too) or none.
	Time  string
	Lines []struct {
		Level        string
		Since, Until int64 // Unix s: when it was printed
		Line         string
	}
}

func recorded(t testing.TB, file string) (forms []recordedForm) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(text, &forms)
	}
	must.True(t, err == nil && len(forms) != 0, "%v %v", len(forms), err)
	return forms
}

// TestRecordedForms: each line has the level with which it was logged, and the time at which it was printed, as it is,
// behind what Ray and launchers put before it, in colours, behind a progress bar, and with the line end of Windows.
func TestRecordedForms(t *testing.T) {
	before := map[string]string{
		"alone": "", "task": "(train_fn pid=123, ip=10.0.0.1) ",
		"coloured task": "\x1b[36m(MapWorker(MapBatches(f)) pid=1)\x1b[0m ", "rank": "[rank0]: ",
		"torchrun":    "[default0]:",
		"bar":         "\repoch:  50%|#####     | 5/10 [00:01<00:01,  5.00it/s]\r",
		"unended bar": "epoch:  50%|#####     | 5/10 [00:01<00:01,  5.00it/s]", "colour": "\x1b[1;31m",
	}
	for _, form := range recorded(t, "forms.json") {
		for _, l := range form.Lines {
			clock := &Clock{From: (l.Since - 60) * 1e9, To: (l.Until + 60) * 1e9}
			for name, prefix := range before {
				if prefix != "" && (l.Line[0] == ' ' && name != "colour" || l.Line[0] == '{' &&
					strings.Contains(l.Line, "\n")) {
					continue // of rich's lines without a time the column says that they are no others' text
				}
				h := Parse([]byte(prefix+l.Line+"\r"), clock)
				if want := form.Time != "none"; h.Level.String() != l.Level || h.Dated != want {
					t.Errorf("%s, %s: level %v, dated %t, want %s, %t:\n%s", form.Form, name, h.Level, h.Dated, l.Level,
						want, l.Line)
				}
				since := l.Since - 1
				if form.Time == "minute" {
					since -= 60
				}
				at := h.Time
				says.True(t, !h.Dated || at >= since*1e9 && at <= (l.Until+1)*1e9, "%s, %s: at %v, printed at %v:\n%s",
					form.Form, name, time.Unix(0, at).UTC(), time.Unix(l.Since, 0).UTC(), l.Line)
			}
		}
	}
}

// TestVisible: of a line that overwrites itself the last state counts, and the one around a place in it.
func TestVisible(t *testing.T) {
	for line, want := range map[string]string{
		"a": "a", "a\r": "a", "a\rb": "b", "a\rb\r": "b", "a\r \r": "a", "\r": "", "": "", "a\r\r\r": "a", "\ra": "a",
	} {
		says.Equal(t, string(Visible([]byte(line))), want, "%q", line)
	}
	for at, want := range []string{"ab", "ab", "ab", "cd", "cd", "cd"} {
		state, begins := State([]byte("ab\rcd\r"), at)
		says.True(t, string(state) == want && begins == at/3*3, "at %d: %q from %d", at, state, begins)
	}
}

// TestClock: what a line leaves out is taken from the time in which the session ran, if that leaves no choice.
func TestClock(t *testing.T) {
	at := func(text string) int64 {
		moment := must.Get(time.Parse(time.RFC3339, text))(t)
		return moment.UnixNano()
	}
	for _, c := range []struct{ name, line, from, to, want string }{
		{"year", "W1231 23:59:59.5 1 a.cc:1] x", "2026-12-31T20:00:00Z", "2027-01-01T04:00:00Z",
			"2026-12-31T23:59:59.5Z"},
		{"next year", "W0101 00:00:01 1 a.cc:1] x", "2026-12-31T20:00:00Z", "2027-01-01T04:00:00Z",
			"2027-01-01T00:00:01Z"},
		{"day", "[23:59:59] WARNING: x", "2026-12-31T20:00:00Z", "2027-01-01T04:00:00Z", "2026-12-31T23:59:59Z"},
		{"next day", "[00:00:01] WARNING: x", "2026-12-31T20:00:00Z", "2027-01-01T04:00:00Z", "2027-01-01T00:00:01Z"},
		{"one of two days", "[00:00:01] WARNING: x", "2026-12-31T20:00:00Z", "2027-01-02T04:00:00Z", ""},
		{"no day of the session", "[12:00:01] WARNING: x", "2026-12-31T20:00:00Z", "2027-01-01T04:00:00Z", ""},
		{"copied a year later", "W1120 10:00:05 1 a.cc:1] x", "2026-11-20T09:00:00Z", "2027-11-25T00:00:00Z",
			"2026-11-20T10:00:05Z"},
		{"order of numbers", "10/11/2026 10:00:05 ERROR x", "2026-11-10T09:00:00Z", "2026-11-10T12:00:00Z",
			"2026-11-10T10:00:05Z"},
		{"order of numbers in the US", "10/11/2026 10:00:05 ERROR x", "2026-10-11T09:00:00Z", "2026-10-11T12:00:00Z",
			"2026-10-11T10:00:05Z"},
		{"Spark's", "10/11/12 10:00:05 ERROR x", "2010-11-12T09:00:00Z", "2010-11-12T12:00:00Z",
			"2010-11-12T10:00:05Z"},
		{"rich's", "[10/11/12 10:00:05] ERROR    x", "2012-10-11T09:00:00Z", "2012-10-11T12:00:00Z",
			"2012-10-11T10:00:05Z"},
	} {
		h := Parse([]byte(c.line), &Clock{From: at(c.from), To: at(c.to)})
		got := ""
		if h.Dated {
			got = time.Unix(0, h.Time).UTC().Format(time.RFC3339Nano)
		}
		says.True(t, got == c.want && h.Level != Unknown, "%s: %s %v, want %s", c.name, got, h.Level, c.want)
	}
	if h := Parse([]byte("W1231 23:59:59.5 1 a.cc:1] x"), &Clock{}); h.Dated || h.Level != Warning {
		t.Errorf("without a clock: %+v", h)
	}
	h := Parse([]byte("2026-11-21 01:19:45 x"), &Clock{Zone: time.FixedZone("", 2*3600)})
	says.Equal(t, time.Unix(0, h.Time).UTC().Format(time.RFC3339Nano), "2026-11-20T23:19:45Z", "in another zone")
}

// TestPyTorch: its records in C++ have a month without a leading zero.
func TestPyTorch(t *testing.T) {
	for line, want := range map[string]string{
		"[rank1]:[E206 16:45:19.5 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog": "error 2026-02-06T16:45:19.5Z",
		"[W602 16:45:19 socket.cpp:1] [c10d] The client":                       "warning 2026-06-02T16:45:19Z",
		"[E918 16:45:19 ProcessGroupNCCL.cpp:616] x":                           "error 2026-09-18T16:45:19Z",
		"[W1127 16:45:19 socket.cpp:1] x":                                      "warning 2026-11-27T16:45:19Z",
	} {
		year := &Clock{From: must.Get(time.Parse(time.DateOnly, "2026-01-01"))(t).UnixNano(),
			To: must.Get(time.Parse(time.DateOnly, "2026-12-31"))(t).UnixNano()}
		h := Parse([]byte(line), year)
		says.Equal(t, h.Level.String()+" "+time.Unix(0, h.Time).UTC().Format(time.RFC3339Nano), want, "%s", line)
	}
}

func TestParseLevel(t *testing.T) {
	for level := Unknown; level <= Fatal; level++ {
		got, err := ParseLevel(strings.ToUpper(level.String()))
		says.True(t, got == level && err == nil, "%v: %v, %v", level, got, err)
	}
	says.True(t, says.Err(ParseLevel("loud")) != nil, "loud is a level")
}

// TestEncodings: UTF-16 is read as UTF-8, wherever reads end; all else is read as it is.
func TestEncodings(t *testing.T) {
	text := "2026-11-20 10:00:05 ERROR überschrieben 上 🚀\r\nnext\n"
	units := utf16.Encode([]rune(text))
	for name, c := range map[string]struct {
		order binary.AppendByteOrder
		mark  bool
	}{"LE": {binary.LittleEndian, true}, "BE": {binary.BigEndian, true},
		"LE without a mark": {binary.LittleEndian, false}, "BE without a mark": {binary.BigEndian, false}} {
		var raw []byte
		if c.mark {
			raw = c.order.AppendUint16(raw, 0xfeff)
		}
		for range 3000 {
			for _, u := range units {
				raw = c.order.AppendUint16(raw, u)
			}
		}
		for way, in := range map[string]io.Reader{"whole": bytes.NewReader(raw),
			"bytes": iotest.OneByteReader(bytes.NewReader(raw)), "error": iotest.DataErrReader(bytes.NewReader(raw))} {
			if got, err := io.ReadAll(NewReader(in)); err != nil || string(got) != strings.Repeat(text, 3000) {
				t.Errorf("%s, %s: %v, %d bytes: %.80q", name, way, err, len(got), got)
			}
		}
	}
	for _, raw := range []string{"", "a", "ab", "\xff\xfe", "plain text\n", strings.Repeat("\x00", 100), "caf\xe9\n",
		"\xd6\xd0\xce\xc4\n"} {
		want := raw
		if raw == "\xff\xfe" {
			want = ""
		}
		got, err := io.ReadAll(NewReader(iotest.OneByteReader(strings.NewReader(raw))))
		says.True(t, err == nil && string(got) == want, "%q: %q, %v", raw, got, err)
	}
}

// FuzzParse: whatever a line holds, it is read or not, and what is behind what is looked at does not matter.
func FuzzParse(f *testing.F) {
	for _, form := range recorded(f, "forms.json") {
		f.Add(form.Lines[0].Line)
	}
	for _, seed := range []string{`{"a": {"level": {"name": "ERROR"`, "{\n\"a\": 1\n{", "[[[[", "(((", "<11>1 ",
		"E1120 10:00:", "level=\"", "10:00AM ERR", "[Fri Nov 20", "{\"time\":{\"nanos\":1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		clock := &Clock{From: 1795168805e9, To: 1795168905e9}
		h := Parse([]byte(line), clock)
		says.True(t, h.Level >= Unknown && h.Level <= Fatal && (h.Dated || h.Time == 0), "%+v", h)
		again := Parse([]byte(line+"\nERROR 2026-11-20 10:00:05 x"), clock)
		says.True(t, again == h || strings.HasPrefix(line, "{"), "%+v, with another line behind it %+v", h, again)
	})
}

// BenchmarkParse measures a line of each recorded form.
func BenchmarkParse(b *testing.B) {
	for _, form := range recorded(b, "forms.json") {
		line, clock := []byte(form.Lines[0].Line), &Clock{From: form.Lines[0].Since * 1e9,
			To: form.Lines[0].Until * 1e9}
		b.Run(form.Form, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Parse(line, clock)
			}
		})
	}
}

// TestDocs: docs/log-forms.md has the table of the recorded forms. UPDATE_DOCS=1 writes it.
func TestDocs(t *testing.T) {
	times := map[string]string{
		"full": "yes", "year": "yes; the year from the session", "clock": "time of day; the date from the session",
		"minute": "time of day to the minute; the date from the session", "none": "none",
	}
	var rows []string // library and time
	names := map[string][]string{}
	for _, form := range recorded(t, "forms.json") {
		row := fmt.Sprintf("| %s | %%s | %s |\n", form.Library, times[form.Time])
		if names[row] == nil {
			rows = append(rows, row)
		}
		names[row] = append(names[row], form.Form)
	}
	var table strings.Builder
	table.WriteString("| recorded with | forms | time |\n|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&table, row, strings.Join(names[row], " · "))
	}
	docblock.Keep(t, "../../../docs/log-forms.md", "forms", table.String())
}

// TestExpand: a record of Ray's C++ processes, as a GCS of Ray 2.60 wrote it, is the line that it writes as text.
func TestExpand(t *testing.T) {
	for line, want := range map[string]string{
		`{"asctime":"2026-11-29 03:18:32,996","levelname":"I","message":"Ray cluster metadata","component":"gcs_server",` +
			`"filename":"gcs_server_main.cc","lineno":98,"ray_version":"2.60.0","ray_commit":""}`: "[2026-11-29 03:18:32,996 I 0 0] (gcs_server) gcs_server_main.cc:98: Ray cluster metadata ray_version=2.60.0 ray_commit=",
		`{"asctime":"2026-11-29 03:18:32,996","levelname":"W","message":"a\nb","filename":"x.cc","lineno":1,"n":12}`: "[2026-11-29 03:18:32,996 W 0 0] x.cc:1: a\nb n=12",
		`{"asctime":"2026-11-29 03:18:32,996","levelname":"I","message":"ok"}`:                                       "[2026-11-29 03:18:32,996 I 0 0] :0: ok",
		`{"asctime":"2026-11-29 03:18:32,996","levelname":"I","message":"cut off","node_id":"ab`:                     "",
		`{"log.level":"error","message":"m","error":{"type":"OSError","message":"torn","stack_trace":"  File \"/a.py\", line 3, in f\n    g()\n"}}`: "ERROR  m\n" +
			"Traceback (most recent call last):\n  File \"/a.py\", line 3, in f\n    g()\nOSError: torn",
		`{"log.level":"error","message":"m","error":{"type":"java.io.IOException","message":"torn","stack_trace":"java.io.IOException: torn\n\tat a.b(c.java:1)\n"}}`: "ERROR  m\n" +
			"java.io.IOException: torn\n\tat a.b(c.java:1)",
		`{"level":"error","msg":"m","error":{"type":"OSError","message":"torn"}}`: "ERROR  m\nOSError: torn",
		`{"level":"error","msg":"m","error":"torn"}`:                              "",
		`{"level":"error","event":"m","exception":[{"exc_type":"Torn","exc_value":"7","is_cause":false,"frames":[{"filename":"/a.py","lineno":3,"name":"<module>"},{"filename":"/b.py","lineno":8,"name":"f","locals":{"x":"1"}}]}]}`: "ERROR  m\n" +
			"Traceback (most recent call last):\n  File \"/a.py\", line 3, in <module>\n  File \"/b.py\", line 8, in f\nTorn: 7",
		`{"level":"error","event":"m","exception":[{"exc_type":"Torn","exc_value":[{"exc_type":"Odd","exc_value":"7"}]}]}`: "ERROR  m\nTorn",
		`{"level":"error","event":"m","exception":[]}`:                                                                     "",
	} {
		says.Equal(t, string(Expand([]byte(line))), want, "%s becomes", line)
	}
}

// TestManyFrames: the memory for the frames of an exception grows with them, not with their square.
func TestManyFrames(t *testing.T) {
	const frames = 20_000
	line := []byte(`{"level":"error","event":"m","exception":[{"exc_type":"Torn","frames":[` + strings.Repeat("{},", frames-1) + "{}]}]}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := Expand(line)
	runtime.ReadMemStats(&after)
	if n := bytes.Count(text, []byte("\n  File ")); n != frames || after.TotalAlloc-before.TotalAlloc > 1000*frames {
		t.Errorf("%d frames, %d bytes", n, after.TotalAlloc-before.TotalAlloc)
	}
}
