package logsearch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

// storedSession is a stored session of a test.
type storedSession struct {
	tb    testing.TB
	store *local.Store
	set   *sessionlogs.Set
}

func newSession(tb testing.TB) *storedSession {
	tb.Helper()
	store := must.Get(local.Open(tb.TempDir()))(tb)
	tb.Cleanup(func() { _ = store.Close() })
	return &storedSession{tb, store, sessionlogs.New(store)}
}

// add stores a log in chunks of a size.
func (s *storedSession) add(node rayid.Node, path string, c layout.Compression, chunk int, text []byte) {
	s.tb.Helper()
	encoder := must.Get(zstd.NewWriter(nil, zstd.WithWindowSize(1<<20)))(s.tb)
	offset := int64(0)
	for part := range slices.Chunk(text, chunk) {
		body := part
		if c == layout.Zstd {
			body = encoder.EncodeAll(part, nil)
		}
		s.put(layout.LogChunkKey(layout.LogKey("log", ref, node, path), offset, c), body)
		offset += int64(len(part))
	}
}

func (s *storedSession) put(key string, body []byte) {
	s.tb.Helper()
	must.OK(s.tb, s.store.Create(s.tb.Context(), key, bytes.NewReader(body)))
	o := must.Get(layout.ParseObject("log", ref, key))(s.tb)
	s.set.Add(o, blob.Object{Key: key, Size: int64(len(body))})
}

func (s *storedSession) sources() iter.Seq2[Source, error] {
	return func(yield func(Source, error) bool) { yield(Source{Session: ref.Name, Logs: s.set}, nil) }
}

// result is the records of a search.
type result struct {
	lines []string // node's first byte:file:line:text, sorted
	files map[string]*File
	end   *End
}

func (s *storedSession) search(q Query) result {
	s.tb.Helper()
	got := result{files: map[string]*File{}}
	err := Run(s.tb.Context(), prepared(s.tb, q), s.sources(), func(record Record) error {
		switch r := record.(type) {
		case *Match:
			got.lines = append(got.lines, fmt.Sprintf("%.2s:%s:%d:%s", r.NodeID, r.File, r.Line, r.Text))
		case *File:
			got.files[r.File] = r
		case *End:
			got.end = r
		}
		return nil
	})
	must.OK(s.tb, err)
	slices.Sort(got.lines)
	return got
}

// TestSearch: logs of all nodes, rotated and compressed ones, in chunks that end anywhere.
func TestSearch(t *testing.T) {
	s := newSession(t)
	worker := strings.Repeat("ab", 28)
	other := strings.Repeat("cd", 28)
	s.add(rayid.Node{1}, "raylet.out", layout.Plain, 7, []byte("a needle\nb\n"))
	s.add(rayid.Node{1}, "raylet.out.1", layout.Zstd, 3, []byte("x\nneedle of old"))
	s.add(rayid.Node{2}, "old/raylet.out", layout.Plain, 100, []byte("dead node's needle\n"))
	s.add(rayid.Node{2}, "worker-"+worker+"-01000000-7.out", layout.Zstd, 100, []byte("needle 1\n"))
	s.add(rayid.Node{2}, "python-core-worker-"+worker+"_7.log", layout.Plain, 100,
		[]byte("[2026-11-20 23:00:00,000 E 1 1] needle 1\n"))
	s.add(rayid.Node{2}, "worker-"+other+"-02000000-7.out.2", layout.Plain, 100, []byte("needle 2\n"))
	s.add(rayid.Node{1}, "job-driver-raysubmit_1.log", layout.Plain, 100, []byte("needle of driver\n"))
	s.add(rayid.Node{1}, "empty.log", layout.Plain, 100, nil)
	for name, tc := range map[string]struct {
		query Query
		want  []string
	}{
		"all": {Query{Pattern: "needle"}, []string{
			"01:job-driver-raysubmit_1.log:1:needle of driver", "01:raylet.out.1:2:needle of old",
			"01:raylet.out:1:a needle", "02:old/raylet.out:1:dead node's needle",
			"02:python-core-worker-" + worker + "_7.log:1:[2026-11-20 23:00:00,000 E 1 1] needle 1",
			"02:worker-" + other + "-02000000-7.out.2:1:needle 2",
			"02:worker-" + worker + "-01000000-7.out:1:needle 1",
		}},
		"node": {Query{Pattern: "needle", Selection: Selection{Node: "01", Files: "raylet*"}},
			[]string{"01:raylet.out.1:2:needle of old", "01:raylet.out:1:a needle"}},
		"any name": {Query{Pattern: "need", Selection: Selection{Files: "*let.out"}},
			[]string{"01:raylet.out:1:a needle", "02:old/raylet.out:1:dead node's needle"}},
		"folder": {Query{Pattern: "e", Selection: Selection{Files: "old/*"}},
			[]string{"02:old/raylet.out:1:dead node's needle"}},
		"job": {Query{Pattern: "needle", Selection: Selection{Job: "01000000"}}, []string{
			"02:python-core-worker-" + worker + "_7.log:1:[2026-11-20 23:00:00,000 E 1 1] needle 1",
			"02:worker-" + worker + "-01000000-7.out:1:needle 1",
		}},
		"submission": {Query{Pattern: "needle", Selection: Selection{Submission: "raysubmit_1"}},
			[]string{"01:job-driver-raysubmit_1.log:1:needle of driver"}},
		"level": {Query{Pattern: "n.*d", Regexp: true, Level: 4},
			[]string{"02:python-core-worker-" + worker + "_7.log:1:[2026-11-20 23:00:00,000 E 1 1] needle 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.search(tc.query)
			slices.Sort(tc.want)
			says.EqualSlices(t, got.lines, tc.want, "found\n%s\nwant\n%s", strings.Join(got.lines, "\n"),
				strings.Join(tc.want, "\n"))
			says.True(t, got.end.Complete && got.end.Matches == int64(len(tc.want)) &&
				got.end.Reported == got.end.Matches && len(got.files) == len(tc.want), "%+v, %d files", got.end,
				len(got.files))
		})
	}
}

// TestLineEndsOfWindows: "$" matches before "\r\n", too, and the "\r" is not shown.
func TestLineEndsOfWindows(t *testing.T) {
	s := newSession(t)
	s.add(rayid.Node{1}, "raylet.out", layout.Plain, 7, []byte("all done\r\nnot done yet\r\n\r\ndone"))
	for pattern, want := range map[string][]string{
		`(done|no)$`: {"01:raylet.out:1:all done", "01:raylet.out:4:done"},
		`^$`:         {"01:raylet.out:3:"},
		`yet\s$`:     {"01:raylet.out:2:not done yet"},
	} {
		says.EqualSlices(t, s.search(Query{Pattern: pattern, Regexp: true}).lines, want, pattern)
	}
}

// TestRanks: results have Ray's own logs, and of these its events, after all others; logs of which no line is reported
// are last.
func TestRanks(t *testing.T) {
	s := newSession(t)
	want := []string{"job-driver-raysubmit_1.log", "worker-1.out", "serve/replica.log", "raylet.out",
		"events/event_GCS.log"}
	for _, path := range want {
		s.add(rayid.Node{1}, path, layout.Plain, 100, []byte("needle\n"))
	}
	rank := func(files map[string]*File) func(a, b string) int {
		return func(a, b string) int { return cmp.Compare(files[a].Rank, files[b].Rank) }
	}
	files := s.search(Query{Pattern: "needle"}).files
	says.EqualSlices(t, slices.SortedFunc(maps.Keys(files), rank(files)), want, "the order")
	got := s.search(Query{Pattern: "needle", Lines: 1})
	files = got.files
	order := slices.SortedFunc(maps.Keys(files), rank(files))
	says.True(t, strings.Contains(got.lines[0], order[0]) && files[order[1]].Rank == LastRank,
		"%q is reported, and the order is %q", got.lines, order)
}

func TestLimits(t *testing.T) {
	s := newSession(t)
	for i := range 3 {
		s.add(rayid.Node{1}, fmt.Sprintf("%d.log", i), layout.Plain, 1<<20, []byte(strings.Repeat("a needle\n", 100)))
	}
	for name, tc := range map[string]struct {
		query    Query
		why      string
		reported int64
	}{
		"lines":            {Query{Pattern: "needle", Lines: 7}, "lines", 7},
		"lines of a file":  {Query{Pattern: "needle", FileLines: 2}, "lines", 6},
		"what there is":    {Query{Pattern: "needle", FileLines: 100, Lines: 300}, "", 300},
		"less than a file": {Query{Pattern: "needle", Lines: 10, FileLines: 20}, "lines", 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.search(tc.query)
			says.True(t, got.end.Matches == 300 && got.end.Reported == tc.reported &&
				int64(len(got.lines)) == tc.reported && strings.Join(got.end.Why, " ") == tc.why &&
				got.end.Complete == (tc.why == ""), "%+v", got.end)
			for name, file := range got.files {
				says.Equal(t, file.Matches, 100, "%s: %+v", name, file)
			}
		})
	}
	if got := s.search(Query{Pattern: "needle", Bytes: 1}); got.end.Complete || !slices.Contains(got.end.Why, "bytes") {
		t.Errorf("one byte: %+v", got.end)
	}
	if got := s.search(Query{Pattern: "needle", Timeout: 1}); got.end.Complete ||
		!slices.Contains(got.end.Why, "time") {
		t.Errorf("one nanosecond: %+v", got.end)
	}
}

// TestManyShortLines: lines that do not say when they were written do not each look back at all before them, which
// would take longer here than a search may.
func TestManyShortLines(t *testing.T) {
	s := newSession(t)
	const lines = 1 << 20
	s.add(rayid.Node{1}, "a.log", layout.Plain, 1<<20, []byte(strings.Repeat("x\n", lines)))
	got := s.search(Query{Pattern: "x", Timeout: MaxTimeout})
	says.True(t, got.end.Matches == lines && !slices.Contains(got.end.Why, "time"), "%d lines found, want %d: %q",
		got.end.Matches, lines, got.end.Why)
}

// TestDamagedLogs: what cannot be read is said, and the rest is searched.
func TestDamagedLogs(t *testing.T) {
	s := newSession(t)
	s.add(rayid.Node{1}, "good.log", layout.Plain, 100, []byte("needle\n"))
	key := layout.LogKey("log", ref, rayid.Node{1}, "bad.log")
	s.put(layout.LogChunkKey(key, 0, layout.Zstd), []byte("this is no zstd"))
	s.put(layout.LogChunkKey(key, 100, layout.Plain), []byte("needle behind\n"))
	gone := layout.LogChunkKey(layout.LogKey("log", ref, rayid.Node{1}, "gone.log"), 0, layout.Plain)
	s.put(gone, []byte("needle\n"))
	must.OK(t, s.store.Delete(t.Context(), gone))
	got := s.search(Query{Pattern: "needle"})
	says.EqualSlices(t, got.lines, []string{"01:bad.log:1:needle behind", "01:good.log:1:needle"})
	says.True(t, !got.end.Complete && slices.Equal(got.end.Why, []string{"damage"}) &&
		got.files["good.log"].Problem == "", "%+v", got.end)
	says.True(t, strings.Contains(got.files["bad.log"].Problem, "damaged") &&
		strings.Contains(got.files["gone.log"].Problem, "gone"), "%+v, %+v", got.files["bad.log"],
		got.files["gone.log"])
}

// TestEmptyLogsAreNotRead: empty logs count as searched, and nothing is asked about them.
func TestEmptyLogsAreNotRead(t *testing.T) {
	s := newSession(t)
	s.add(rayid.Node{1}, "a.log", layout.Plain, 10, []byte("needle\n"))
	s.put(layout.LogKey("log", ref, rayid.Node{1}, "empty.log"), nil)
	var asked []string
	source := Source{Session: ref.Name, Logs: s.set, Writer: func(file string) string {
		asked = append(asked, file)
		return ""
	}}
	var last *End
	must.OK(t, Run(t.Context(), prepared(t, Query{Pattern: "needle"}),
		func(yield func(Source, error) bool) { yield(source, nil) }, func(r Record) error {
			last, _ = r.(*End)
			return nil
		}))
	says.True(t, last.Complete && last.Files == 2 && last.Matches == 1, "%+v", last)
	says.EqualSlices(t, asked, []string{"a.log"})
}

// TestPartOfLog: no more of a log is searched than there was at a moment.
func TestPartOfLog(t *testing.T) {
	s := newSession(t)
	s.add(rayid.Node{1}, "a.log", layout.Zstd, 10, []byte(strings.Repeat("needle\n", 10)))
	refused := errors.New("refused")
	source := Source{Session: ref.Name, Logs: s.set}
	for end, want := range map[int64]int64{0: 0, 6: 1, 7: 1, 13: 2, 1000: 10, -1: 0} {
		source.End = func(context.Context, rayid.Node, string) (int64, error) {
			if end < 0 {
				return 0, refused
			}
			return end, nil
		}
		var last *End
		err := Run(t.Context(), prepared(t, Query{Pattern: "needle"}),
			func(yield func(Source, error) bool) { yield(source, nil) }, func(r Record) error {
				last, _ = r.(*End)
				return nil
			})
		says.True(t, err == nil && last.Matches == want && last.Complete == (end >= 0), "up to %d: %+v, %v", end, last,
			err)
	}
}

// TestLeft: the search ends when nobody waits for it, and when its result cannot be written.
func TestLeft(t *testing.T) {
	s := newSession(t)
	for i := range 20 {
		s.add(rayid.Node{1}, fmt.Sprintf("%d.log", i), layout.Plain, 1<<20, []byte("a needle\n"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	records := 0
	err := Run(ctx, prepared(t, Query{Pattern: "needle"}), s.sources(), func(r Record) error {
		if records++; records == 2 {
			cancel()
		}
		return nil
	})
	says.True(t, errors.Is(err, context.Canceled) && records <= 2+2*readers, "cancelled: %v after %d records", err,
		records)
	broken, records := errors.New("broken"), 0
	err = Run(t.Context(), prepared(t, Query{Pattern: "needle"}), s.sources(), func(Record) error {
		records++
		return broken
	})
	says.True(t, errors.Is(err, broken) && records == 1, "broken: %v after %d records", err, records)
	refused := errors.New("refused")
	err = Run(t.Context(), prepared(t, Query{}), func(yield func(Source, error) bool) { yield(Source{}, refused) },
		func(Record) error { return nil })
	says.ErrorIs(t, err, refused, "refused")
}

// BenchmarkSearchPlain and BenchmarkSearchZstd search 256 MiB of a log like Ray's, in four files of chunks of 8 MiB,
// for a text that few lines have, for one in any case, and for an expression.
func BenchmarkSearchPlain(b *testing.B) { benchmark(b, layout.Plain) }
func BenchmarkSearchZstd(b *testing.B)  { benchmark(b, layout.Zstd) }

func benchmark(b *testing.B, c layout.Compression) {
	const size, files = 256 << 20, 4
	s := newSession(b)
	text := rayLog(size / files)
	for i := range files {
		s.add(rayid.Node{byte(i)}, "raylet.out", c, 8<<20, text)
	}
	for _, bench := range []struct {
		name  string
		query Query
	}{
		{"text", Query{Pattern: "lease 77777 failed"}},
		{"any_case", Query{Pattern: "LEASE 77777 Failed", IgnoreCase: true}},
		{"regexp", Query{Pattern: `lease \d+ .*has failed`, Regexp: true}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if end := s.search(bench.query).end; !end.Complete || end.Bytes != size {
					b.Fatalf("%+v", end)
				}
			}
		})
	}
}

// rayLog is so many bytes of lines as a raylet writes them.
func rayLog(size int) []byte {
	b := make([]byte, 0, size+200)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "[2026-11-20 23:%02d:%02d,%03d I %d %d] (raylet) node_manager.cc:%d: Granting lease %d to worker %x on node, queue %d\n",
			i/60000%60, i/1000%60, i%1000, 4000+i%7, 4100+i%11, 500+i%900, i*7919%1000003, uint64(i)*0x9e3779b97f4a7c15,
			i%37)
	}
	return b[:size]
}

// TestCovers: sessions that cannot have lines of a query's times are not listed. A node's clock may be an hour ahead,
// or behind.
func TestCovers(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		from, to     int
		began, ended time.Time
		want         bool
	}{
		{0, 0, at(3), at(4), true}, {6, 0, at(3), at(4), false}, {5, 0, at(3), at(4), true}, {4, 0, at(3), at(4), true},
		{6, 0, at(3), time.Time{}, true}, {0, 2, at(3), at(4), false}, {0, 3, at(3), at(4), true},
	} {
		q := &Query{}
		if c.from > 0 {
			q.From = at(c.from).UnixNano()
		}
		if c.to > 0 {
			q.To = at(c.to).UnixNano()
		}
		says.Equal(t, q.Covers(c.began, c.ended), c.want,
			"%d to %d, of a session from %s to %s", c.from, c.to, c.began, c.ended)
	}
}

// TestWriterOf: what wrote a log, by its name. A worker that was started before there was a job for it has none.
func TestWriterOf(t *testing.T) {
	for name, want := range map[string]string{
		"worker-ab01-02000000-7.err": "worker of job 02000000", "worker-ab01-ffffffff-7.out": "worker",
		"job-driver-nightly.log": "driver of job nightly", "raylet.out": "raylet", "mine.txt": "",
	} {
		says.Equal(t, WriterOf(name).String(), want, "%s", name)
	}
}
