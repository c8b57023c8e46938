package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// loadEvents loads a session of events that are stored as one file.
func loadEvents(t testing.TB, ref layout.Session, events []string) *Session {
	t.Helper()
	b := newBucket()
	b.objects[layout.JobEventsKey(layout.DefaultRoot, ref, testJob, testNode, testHour)] = []byte(strings.Join(events,
		"\n"))
	return must.Get(Load(t.Context(), b, layout.DefaultRoot, ref, Options{}))(t)
}

func layoutJob(n int) (j [4]byte) { j[0] = byte(n + 1); return j }

// diff shows where the first line that differs does.
func diff(t *testing.T, what, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] == w[i] {
			continue
		}
		at := 0
		for at < min(len(g[i]), len(w[i])) && g[i][at] == w[i][at] {
			at++
		}
		around := func(s string) string { return s[max(0, at-100):min(len(s), at+200)] }
		t.Errorf("%s: line %d (%.60s), byte %d:\n got …%s\nwant …%s", what, i, w[i], at, around(g[i]), around(w[i]))
		return
	}
	says.Equal(t, len(g), len(w), "%s: lines", what)
}

// TestRefresh: a session that grows is what a load of the whole would be, whatever came when.
func TestRefresh(t *testing.T) {
	rec := recording.Open(t)
	ref, events := rec.Session, rec.Events()
	random := rand.New(rand.NewPCG(3, 4))
	b := newBucket()
	s := must.Get(Load(t.Context(), b, layout.DefaultRoot, ref, Options{}))(t)
	ends := make(map[string]int) // bytes stored of each whole
	for len(events) > 0 {
		for range 3 {
			n := min(len(events), 1+random.IntN(200))
			text := strings.Join(events[:n], "\n") + "\n"
			events = events[n:]
			whole := layout.JobEventsKey(layout.DefaultRoot, ref, layoutJob(random.IntN(3)), testNode, testHour)
			c := []layout.Compression{layout.Plain, layout.Gzip, layout.Zstd}[random.IntN(3)]
			b.objects[layout.ChunkKey(whole, int64(ends[whole]), c)] = layouttest.Pack(t, text, c)
			ends[whole] += len(text)
		}
		before := dump(s)
		next := must.Get(s.Refresh(t.Context()))(t)
		must.True(t, dump(s) == before, "a refresh changed the session that was refreshed")
		fresh := must.Get(Load(t.Context(), b, layout.DefaultRoot, ref, Options{}))(t)
		diff(t, fmt.Sprintf("with %d events to come", len(events)), dump(next), dump(fresh))
		says.True(t, next.Start == fresh.Start && next.End == fresh.End, "from %d to %d, want %d to %d", next.Start,
			next.End, fresh.Start, fresh.End)
		s = next
	}
}

func TestRefreshReadsOnlyWhatIsNew(t *testing.T) {
	b := newBucket()
	first := lines(0, 10)
	b.objects[testWhole] = []byte(first[:len(first)-20]) // the last line is not all there yet
	s := loadBucket(t, b)
	if next, err := s.Refresh(t.Context()); err != nil || next != s {
		t.Fatalf("nothing is new, but got %p, %v, want %p", next, err, s)
	}
	b.gone[testWhole] = false
	b.objects[layout.ChunkKey(testWhole, int64(len(first)-20), layout.Plain)] = []byte(first[len(first)-20:] + lines(10,
		12))
	next := must.Get(s.Refresh(t.Context()))(t)
	says.EqualSlices(t, finished(next), span(0, 12), "finished tasks")
	says.Equal(t, next.source.counts.Events, 24, "events read, each once")

	// After an object changed the session is what is stored now.
	b.objects[testWhole] = []byte(lines(20, 25))
	says.EqualSlices(t, finished(must.Get(next.Refresh(t.Context()))(t)), append(span(10, 12), span(20, 25)...),
		"finished tasks")
}
