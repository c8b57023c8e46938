package compact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/session"
)

// stale is a store whose listing is one of before.
type stale struct {
	blob.Reader
	listed []blob.Object
}

func (s stale) List(_ context.Context, prefix string, _ blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for _, o := range s.listed {
			if strings.HasPrefix(o.Key, prefix) && !yield(o, nil) {
				return
			}
		}
	}
}

// TestEventsAreReplayedByStaleListings: a session whose events are chunks, compressed or not, replays to the same rows
// by the listing from before a compaction that got as far as any of its steps.
func TestEventsAreReplayedByStaleListings(t *testing.T) {
	for name, compressions := range map[string][]layout.Compression{
		"plain": {plain}, "zstd": {zst}, "gzip": {gz}, "mixed": {zst, plain, gz},
	} {
		t.Run(name, func(t *testing.T) {
			store := storetest.New()
			chunked(t, store, compressions)
			end(t, store)
			before := stale{store, nil}
			for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
				must.OK(t, err)
				before.listed = append(before.listed, o)
			}
			want := replay(t, before)
			for left := 0; ; left += 41 { // operations until it is cut short
				_, err := Session(t.Context(), ref, options(faulty(store, left)))
				must.True(t, replay(t, before) == want,
					"cut short after %d operations, a stale listing replays to other rows", left)
				if err == nil {
					break
				}
				must.True(t, errors.Is(err, errFault), err)
				must.OK(t, store.Delete(t.Context(), lease.Key("log", ref))) // it ran out
			}
			says.Equal(t, replay(t, store), want, "what is joined replays to other rows")
			now := len(keys(t, store, layout.Prefix("log", ref)))
			says.True(t, now < len(before.listed)/2, "%d objects of %d are left", now, len(before.listed))
		})
	}
}

// chunked stores the events of a recorded session in chunks of some lines each.
func chunked(t *testing.T, store blob.Store, compressions []layout.Compression) {
	t.Helper()
	recorded := must.Get(local.Open(recording.Open(t).Store()))(t)
	defer func() { _ = recorded.Close() }()
	s := must.Get(inventory.List(t.Context(), recorded, "log", ref))(t)
	for _, w := range s.Streams {
		if w.Kind != layout.NodeEvents && w.Kind != layout.JobEvents {
			continue
		}
		body := chunks.NewReader(t.Context(), recorded, &w.Stream, chunks.Options{Exact: true})
		data, err := io.ReadAll(body)
		must.OK(t, errors.Join(err, body.Close()))
		lines := slices.Collect(bytes.Lines(data))
		offset, size := int64(0), (len(lines)+6)/7
		for i := 0; len(lines) > 0; i++ {
			text := bytes.Join(lines[:min(size, len(lines))], nil)
			lines = lines[min(size, len(lines)):]
			c := compressions[i%len(compressions)]
			create(t, store, layout.ChunkKey(w.Key, offset, c), layouttest.Pack(t, string(text), c))
			offset += int64(len(text))
		}
	}
}

// replay loads the session and gives its rows as text.
func replay(t *testing.T, store blob.Reader) string {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	s := must.Get(session.Load(t.Context(), store, "log", ref, session.Options{Log: log}))(t)
	var rows strings.Builder
	for n := range s.Tasks.Len() {
		row := s.Tasks.Row(n, 0)
		fmt.Fprintf(&rows, "%s %d %s %s %s %v\n", row.ID(), row.Attempt(), row.Name(), row.Node(), row.State(),
			row.States(nil))
	}
	fmt.Fprintf(&rows, "%d actors, %d nodes, %d jobs, %d submissions, warnings %q", len(s.Actors), len(s.Nodes),
		len(s.Jobs), len(s.Submissions), s.Warnings)
	must.True(t, s.Tasks.Len() != 0, "no tasks")
	return rows.String()
}

// TestLateEventsOfCompactedStreams: a worker's collector that is behind, and lists the store again only after its
// session was compacted, stores the rest of its events where they are read, also if they are compressed and the
// collector has begun again with nothing left to store. A listing does not show how many bytes a compressed object has.
func TestLateEventsOfCompactedStreams(t *testing.T) {
	for _, compression := range []layout.Compression{plain, gz, zst} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restarted %v", compression.Ext(), restarted),
				func(t *testing.T) { testLateEvents(t, compression, restarted) })
		}
	}
}

func testLateEvents(t *testing.T, compression layout.Compression, restarted bool) {
	store := storetest.New()
	dir := t.TempDir()
	log := logrus.New()
	log.SetOutput(t.Output())
	var events *spool.Spool
	open := func() {
		t.Helper()
		events = must.Get(spool.Open(dir, spool.Options{Log: log, Registerer: prometheus.NewRegistry()}))(t)
	}
	open()
	defer func() { _ = events.Close() }()
	key := layout.NodeEventsKey("log", ref, node, hour)
	var want string
	flush := func() { // each time by a shipper that knows nothing but what is on disk
		t.Helper()
		sources := func() (all []ship.Source) {
			for _, s := range events.Streams() {
				all = append(all, s)
			}
			return all
		}
		s, err := ship.New(ship.Options{
			Store: store, Groups: []ship.Group{{Name: "events", Sources: sources, Compression: compression}}, Dir: dir,
			Log: log, Registerer: prometheus.NewRegistry(),
		})
		if err == nil {
			err = s.Flush(t.Context())
		}
		must.OK(t, err)
	}
	for i := range 4 {
		line := fmt.Sprintf("{\"event\":%d}\n", i)
		want += line
		must.OK(t, events.Append(t.Context(), []spool.Lines{{Stream: key, Data: []byte(line)}}))
		if flush(); i != 2 {
			continue
		}
		end(t, store)
		if result, err := Session(t.Context(), ref, options(store)); err != nil || result.Joined != 1 {
			t.Fatalf("%+v, %v", result, err)
		}
		if restarted {
			must.OK(t, events.Close())
			open()
		}
	}
	listed, err := inventory.List(t.Context(), store, "log", ref)
	must.OK(t, err)
	body := chunks.NewReader(t.Context(), store, &listed.Streams[0].Stream, chunks.Options{})
	got, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil || string(got) != want {
		t.Errorf("%q is read, want %q: %v", got, want, err)
	}
}

// TestStreamsOfZerosAreLeft: what would become much larger than it is stored stays as it is, and what is usual in the
// same session is joined.
func TestStreamsOfZerosAreLeft(t *testing.T) {
	const part = 5 << 20
	usual := strings.Repeat("0123456789abcdef\n", 1000)
	for name, test := range map[string]struct {
		log    bool
		c      layout.Compression
		text   string // of each chunk
		parts  int
		step   int64 // between chunks
		joined bool
	}{
		"zeros":             {true, zst, strings.Repeat("\x00", part), 5, part, false},
		"zeros, gzip":       {true, gz, strings.Repeat("\x00", part), 5, part, false},
		"the same bytes":    {true, zst, strings.Repeat("\x00", part), 5, 1, false},
		"little":            {true, zst, strings.Repeat("\x00", 1<<20), 5, 1 << 20, true},
		"events of zeros":   {false, zst, strings.Repeat("\x00", part), 5, part, false},
		"overlapping lines": {false, zst, strings.Repeat("{}\n", part), 4, 3 * 10, false},
		"plain":             {true, plain, strings.Repeat("\x00", part), 5, part, true},
		"a usual log":       {true, zst, usual, 3, int64(len(usual)), true},
		"usual events":      {false, zst, usual, 3, int64(len(usual)), true},
	} {
		t.Run(name, func(t *testing.T) {
			store := storetest.New()
			whole := layout.NodeEventsKey("log", ref, node, hour)
			if test.log {
				whole = layout.LogKey("log", ref, node, "a.log")
			}
			body := layouttest.Pack(t, test.text, test.c)
			var chunks []string
			for i := range test.parts {
				key := layout.ChunkKey(whole, int64(i)*test.step, test.c)
				if test.log {
					key = layout.LogChunkKey(whole, int64(i)*test.step, test.c)
				}
				create(t, store, key, body)
				chunks = append(chunks, key)
			}
			end(t, store)
			result := must.Get(Session(t.Context(), ref, options(store)))(t)
			if joined := result.Joined == 1; joined != test.joined || len(result.Left) == 1 == test.joined {
				t.Errorf("%d chunks of %d bytes: %+v", test.parts, len(body), result)
			}
			if !test.joined {
				left := fmt.Sprint(result.Left)
				says.True(t, strings.Contains(left, "times its bytes"), left)
				for _, key := range chunks {
					o, err := store.Stat(t.Context(), key)
					says.True(t, err == nil && o.Size == int64(len(body)), "%v %v", o, err)
				}
			}
		})
	}
}
