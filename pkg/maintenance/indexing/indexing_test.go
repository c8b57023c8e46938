package indexing

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// TestMetrics: a session that is over gets tables of its metrics too, again if they are lost or if that is forced; a
// store that does not allow them is not an error.
func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: 10, Ended: true}))(t)
	store := must.Get(local.Open(dir))(t)
	ref := stats.Session
	g := metricsgen.Session{Ref: ref, Begin: time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC), Interval: time.Minute,
		ChunkReads: 60, Nodes: 1, Series: 20, Hours: 1}
	must.Get(g.Store(t.Context(), store, layout.DefaultRoot))(t)
	index := func(store blob.Store, force bool) Result {
		t.Helper()
		w := Places{Store: store, Root: layout.DefaultRoot, CacheDir: t.TempDir(), CacheBytes: 1 << 20,
			Log: silent.Logger()}.Open()
		result, err := Session(t.Context(), ref, Options{
			Writer: w, Force: force, MaxMemory: 64 << 20,
			Follow: func(string, *progress.Counter) func() { return func() {} },
		})
		must.OK(t, err)
		return result
	}
	key := layout.IndexKey(layout.DefaultRoot, ref, "metrics")
	written := func() time.Time {
		t.Helper()
		o := must.Get(store.Stat(t.Context(), key))(t)
		return o.ModTime
	}
	readOnly := &storetest.Hooked{Store: store, Before: storetest.On(storetest.Put,
		func(context.Context, string) error { return blob.ErrPermission })}
	if index(readOnly, false); keyExists(t, store, key) {
		t.Error("written where that is not allowed")
	}
	got := index(store, false)
	says.True(t, got.Index == Written, "%+v", got)
	first := written()
	got = index(store, false)
	says.True(t, got.Index == UpToDate && written().Equal(first), "again: %+v", got)
	must.OK(t, store.Delete(t.Context(), key))
	got = index(store, false)
	says.True(t, got.Index == UpToDate && keyExists(t, store, key), "lost: %+v", got)
	first = time.Now().Add(-time.Hour).Truncate(time.Second)
	must.OK(t, os.Chtimes(filepath.Join(dir, key), first, first))
	got = index(store, true)
	says.True(t, got.Index == Written && !written().Equal(first), "forced: %+v", got)
}

func keyExists(t *testing.T, store blob.Reader, key string) bool {
	t.Helper()
	_, err := store.Stat(t.Context(), key)
	return err == nil
}

// unread are metrics that cannot be read.
type unread struct{}

func (unread) Values(context.Context, layout.Session, bool, time.Time, string,
	func(func(string) string, float64)) error {
	return errors.New("timeout")
}

// TestPartial: findings that lack what could not be read are not kept, and whoever asked for them is told.
func TestPartial(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, recording.Unpack(filepath.Join("..", "..", "findings", "testdata", "more-2.60.tar.gz"), dir))
	store := must.Get(local.Open(dir))(t)
	ref := layout.Session{Namespace: "cases", Cluster: "more260", Name: "session_2026-11-22_10-34-02_976840_27616"}
	w := Places{Store: store, Root: layout.DefaultRoot, Metrics: unread{}, Log: silent.Logger()}.Open()
	s := must.Get(session.Load(t.Context(), store, layout.DefaultRoot, ref, session.Options{Log: silent.Logger()}))(t)
	err := w.KeepFindings(t.Context(), s, false)
	says.True(t, errors.Is(err, index.ErrPartial) && !keyExists(t, store, layout.FindingsKey(layout.DefaultRoot, ref)),
		"%v", err)
}

// TestUsed: what a recorded session's nodes used, by its stored metrics, is kept with its findings.
func TestUsed(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, recording.Unpack(filepath.Join("..", "..", "findings", "testdata", "more-2.60.tar.gz"), dir))
	store, err := local.Open(dir)
	must.OK(t, err)
	ref := layout.Session{Namespace: "cases", Cluster: "more260", Name: "session_2026-11-22_10-34-02_976840_27616"}
	stored := &promapi.Stored{
		API: promapi.New(promapi.Options{MaxSamples: 1_000_000, Timeout: time.Minute, Concurrent: 1,
			Wait: time.Minute}),
		Databases: metrics.NewDatabases(store, layout.DefaultRoot, 64<<20, nil),
	}
	w := Places{Store: store, Root: layout.DefaultRoot, Metrics: stored, Log: silent.Logger()}.Open()
	must.Get(Session(t.Context(), ref, Options{
		Writer: w, MaxMemory: 64 << 20,
		Follow: func(string, *progress.Counter) func() { return func() {} },
	}))(t)
	kept, err := w.KeptFindings(t.Context(), ref, findings.HeadBytes)
	must.OK(t, err)
	defer func() { _ = kept.Close() }()
	head, err := findings.ReadHead(kept, ref)
	says.True(t, err == nil && head.Used != nil && head.Used.CPU > 0 && head.Used.Memory > 0 &&
		head.Used.GPU == 0, "%v: %+v, used %+v", err, head, head.Used)
}

// TestRemovedMeanwhile: of a session that was removed while its findings were computed nothing is stored.
func TestRemovedMeanwhile(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	w := Places{Store: store, Root: "log", Log: silent.Logger()}.Open()
	must.OK(t, store.Put(t.Context(), layout.MetadataKey("log", ref, layout.End), strings.NewReader("{}")))
	must.OK(t, w.PutFindings(t.Context(), ref, []byte("{}\n")))
	_, ok := store.Objects[layout.FindingsKey("log", ref)]
	says.True(t, ok, "the findings of a stored session are not kept")
	must.OK(t, store.Delete(t.Context(), layout.MetadataKey("log", ref, layout.End)))
	must.OK(t, w.PutFindings(t.Context(), ref, []byte("{}\n")))
	says.True(t, len(store.Objects) == 0, "left are %q", store.Keys())
}
