package sessionlogs

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestLogChunkTakenAwayWhileRead: what is left of a chunk that compaction removes while it is read comes from the
// joined object.
func TestLogChunkTakenAwayWhileRead(t *testing.T) {
	store := must.Get(local.Open(t.TempDir()))(t)
	defer store.Close()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	key := layout.LogKey("log", ref, rayid.Node{1}, "grown.log")
	content := strings.Repeat("0123456\n", 100)
	logs := New(&takenAway{Store: store, half: len(content) / 2, join: func() {
		if err := store.Put(t.Context(), layout.LogChunkKey(key, 0, layout.Plain),
			strings.NewReader("begin\n"+content)); err != nil {
			t.Error(err)
		}
	}})
	for offset, body := range map[int64]string{0: "begin\n", 6: content} {
		chunk := layout.LogChunkKey(key, offset, layout.Plain)
		must.OK(t, store.Create(t.Context(), chunk, strings.NewReader(body)))
		o := must.Get(layout.ParseObject("log", ref, chunk))(t)
		logs.Add(o, blob.Object{Key: chunk, Size: int64(len(body))})
	}
	file := must.Get(logs.Open(t.Context(), rayid.Node{1}, "grown.log"))(t)
	got, err := file.ReadRange(t.Context(), 6, file.Size())
	if string(got) != content || err != nil {
		t.Errorf("reads %d bytes of %d, %v", len(got), len(content), err)
	}
}

// takenAway is a store in which a compaction joins chunks and removes those read from past their start when half of one
// is read.
type takenAway struct {
	*local.Store
	half int
	join func()
	gone bool
}

func (s *takenAway) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || s.gone {
		return body, err
	}
	s.gone = true
	s.join()
	if err := s.Delete(ctx, key); err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, int64(s.half)), iotest.ErrReader(os.ErrNotExist)), body}, nil
}
