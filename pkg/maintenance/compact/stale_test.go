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

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/chunks"
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
				if got := replay(t, before); got != want {
					t.Fatalf("cut short after %d operations, a stale listing replays to other rows", left)
				}
				if err == nil {
					break
				}
				if !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				must.OK(t, store.Delete(t.Context(), lease.Key("log", ref))) // it ran out
			}
			if got := replay(t, store); got != want {
				t.Error("what is joined replays to other rows")
			}
			if now := len(keys(t, store, layout.Prefix("log", ref))); now >= len(before.listed)/2 {
				t.Errorf("%d objects of %d are left", now, len(before.listed))
			}
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
	if s.Tasks.Len() == 0 {
		t.Fatal("no tasks")
	}
	return rows.String()
}
