package transfer

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const name = "session_2026-11-20_23-19-45_581717_22125"

var (
	v16 = layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	v17 = layout.Session{Version: layout.V17, Namespace: "default", Cluster: "lab", OwnerKind: "raycluster", Name: name}
)

func openStore(t *testing.T, dir string) *local.Store {
	t.Helper()
	s := must.Get(local.Open(dir))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// parsed tells of every object what it is, without its key.
func parsed(t *testing.T, ref layout.Session, at Place) map[layout.Object]string {
	t.Helper()
	all := make(map[layout.Object]string)
	for o, err := range at.Store.List(t.Context(), layout.Prefix(at.Root, ref), blob.ListOptions{}) {
		must.OK(t, err)
		k, err := layout.ParseObject(at.Root, ref, o.Key)
		must.OK(t, err)
		body := blob.Body(t.Context(), at.Store, o)
		data, err := io.ReadAll(body)
		must.OK(t, errors.Join(err, body.Close()))
		if k.Path == layout.Joined+".json" {
			continue // the copy's own
		}
		k.Stream = strings.TrimPrefix(k.Stream, layout.Prefix(at.Root, ref))
		all[k] = string(data)
	}
	return all
}

// TestRecordedBuckets copies what KubeRay stored there and back, cut short again and again.
func TestRecordedBuckets(t *testing.T) {
	for bucket, ref := range map[string]layout.Session{"kuberay-1.6": v16, "kuberay-1.7": v17} {
		t.Run(bucket, func(t *testing.T) {
			from := Place{openStore(t, recording.Open(t).Bucket(bucket)), "log"}
			target := openStore(t, t.TempDir())
			other := Place{target, "moved"}
			unreliable := other
			copied, runs := 0, 0
			for {
				runs++
				unreliable.Store = blobtest.CutShort(target, 100)
				var p progress.Counter
				result, err := Copy(t.Context(), ref, from, unreliable, &p)
				copied = result.Kept + result.Copied
				if err == nil {
					break
				}
				must.True(t, errors.Is(err, blobtest.ErrCut) && runs <= 20, err)
				if _, err := target.Stat(t.Context(), layout.MarkerKey("moved", ref)); !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("the session shows before it is whole: %v", err)
				}
			}
			says.True(t, runs >= 3, "it took %d runs, want some that were cut short", runs)
			want := parsed(t, ref, from)
			if got := parsed(t, ref, other); len(want) == 0 || len(got) != copied || !maps.Equal(got, want) {
				t.Errorf("%d objects of the copy, %d copied, want the %d of the first", len(got), copied, len(want))
			}
			back := Place{openStore(t, t.TempDir()), "log"}
			must.Get(Copy(t.Context(), ref, other, back, &progress.Counter{}))(t)
			says.True(t, maps.Equal(parsed(t, ref, back), want), "what came back is not what went")
			result, err := Copy(t.Context(), ref, other, back, &progress.Counter{})
			if err != nil || result.Copied != 0 || result.Kept != copied+1 { // with the first copy's record of the end
				t.Errorf("copied again: %+v, %v", result, err)
			}
		})
	}
}

func TestJoinedObjectsAreFollowed(t *testing.T) {
	from, to := Place{openStore(t, t.TempDir()), "log"}, Place{openStore(t, t.TempDir()), "log"}
	prefix := layout.Prefix("log", v16)
	for place, objects := range map[Place]map[string]string{
		from: {"logs/grown": "one two", "logs/joined-there": "one", "foreign": "x"},
		to:   {"logs/grown": "one", "logs/joined-there": "one two"},
	} {
		for key, body := range objects {
			must.OK(t, place.Store.Put(t.Context(), prefix+key, strings.NewReader(body)))
		}
	}
	result, err := Copy(t.Context(), v16, from, to, &progress.Counter{})
	says.True(t, err == nil && result.Copied == 2 && result.Kept == 1, "%+v, %v", result, err)
	var sizes []int64
	for o, err := range to.Store.List(t.Context(), prefix, blob.ListOptions{}) {
		must.OK(t, err)
		sizes = append(sizes, o.Size)
	}
	says.EqualSlices(t, sizes, []int64{1, 7, 7}, "sizes")
}

// TestEndOfACopy: a session whose head was lost ended when its last object was stored; its copy, too, in either layout,
// and also when it is copied again.
func TestEndOfACopy(t *testing.T) {
	for _, ref := range []layout.Session{v16, v17} {
		store := storetest.New()
		from, to := Place{store, "log"}, Place{storetest.New(), "log"}
		log := layout.LogKey("log", ref, rayid.Node{1}, "raylet.out")
		must.OK(t, store.Put(t.Context(), log, strings.NewReader("line\n")))
		store.Age(48 * time.Hour)
		want := must.Get(inventory.List(t.Context(), store, "log", ref))(t)
		for range 2 {
			must.Get(Copy(t.Context(), ref, from, to, &progress.Counter{}))(t)
			got := must.Get(inventory.List(t.Context(), to.Store, "log", ref))(t)
			says.True(t, !want.Ended && got.Ended && got.End.Equal(want.LastWrite),
				"the copy ended %v at %s, want at %s", got.Ended, got.End, want.LastWrite)
		}
	}
}

// TestIndexes: an index goes with its session.
func TestIndexes(t *testing.T) {
	from, to := Place{openStore(t, t.TempDir()), "log"}, Place{openStore(t, t.TempDir()), "moved"}
	must.OK(t, from.Store.Put(t.Context(), layout.IndexKey("log", v16, "meta"), strings.NewReader("PAR1")))
	for range 2 { // the second time it is there
		result, err := Copy(t.Context(), v16, from, to, &progress.Counter{})
		says.True(t, err == nil && result.Copied+result.Kept == 1, "%+v, %v", result, err)
	}
	must.Get(to.Store.Stat(t.Context(), layout.IndexKey("moved", v16, "meta")))(t)
}

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
			o, err := target.Stat(t.Context(), log)
			says.True(t, err == nil && o.Size == want, "the log has %d bytes, want %d: %v", o.Size, want, err)
		})
	}
}
