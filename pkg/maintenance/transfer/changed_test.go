package transfer

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// paged is a store whose first listing with objects meets a change after the first of them.
type paged struct {
	blob.Store
	change func()
}

func (s *paged) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for o, err := range s.Store.List(ctx, prefix, opts) {
			if change := s.change; change != nil && err == nil {
				s.change = nil
				if change(); yield(o, nil) {
					s.List(ctx, prefix, blob.ListOptions{StartAfter: o.Key})(yield)
				}
				return
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// TestCopyWhileCompacted: a compaction of the source or the target between two pages of a listing leaves no copy that
// lacks bytes and is called complete.
func TestCopyWhileCompacted(t *testing.T) {
	log := layout.LogKey("log", v16, rayid.Node{1}, "raylet.out")
	for _, compacted := range []string{"source", "target"} {
		t.Run(compacted, func(t *testing.T) {
			source, target := &paged{Store: openStore(t, t.TempDir())}, &paged{Store: openStore(t, t.TempDir())}
			from, to := Place{source, "log"}, Place{target, "log"}
			create := func(at blob.Store, key, text string) {
				t.Helper()
				must.OK(t, at.Create(t.Context(), key, strings.NewReader(text)))
			}
			join := func(at *paged) func() {
				return func() {
					if _, err := compact.Session(t.Context(), v16,
						compact.Options{Store: at.Store, Root: "log", Progress: &progress.Counter{}}); err != nil {
						t.Error(err)
					}
				}
			}
			create(source, log, "one\n")
			create(source, layout.MetadataKey("log", v16, layout.End), "{}")
			must.Get(Copy(t.Context(), v16, from, to, &progress.Counter{}))(t)
			create(source, layout.ChunkKey(log, 4, layout.Plain), "two\n")
			if compacted == "source" {
				source.change = join(source)
			} else {
				join(source)()
				target.change = func() { // another copy, newer than this one
					create(target, layout.ChunkKey(log, 4, layout.Plain), "two\n")
					create(target, layout.ChunkKey(log, 8, layout.Plain), "three\n")
					join(target)()
				}
			}
			if _, err := Copy(t.Context(), v16, from, to, &progress.Counter{}); err != nil &&
				!errors.Is(err, chunks.ErrChanged) {
				t.Fatal(err)
			} else if err != nil {
				must.Get(Copy(t.Context(), v16, from, to, &progress.Counter{}))(t)
			}
			want := map[string]int64{"source": 8, "target": 14}[compacted]
			if o, err := target.Stat(t.Context(), log); err != nil || o.Size != want {
				t.Errorf("the log has %d bytes, want %d: %v", o.Size, want, err)
			}
		})
	}
}
