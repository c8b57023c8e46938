package index

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// listed is a store that notes which keys were listed.
type listed struct {
	blob.Store
	keys []string
}

func (l *listed) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for o, err := range l.Store.List(ctx, prefix, opts) {
			l.keys = append(l.keys, o.Key)
			if !yield(o, err) {
				return
			}
		}
	}
}

// events counts the events' objects that were listed.
func (l *listed) events() int {
	n := 0
	for _, key := range l.keys {
		if (strings.Contains(key, "node_events/") || strings.Contains(key, "job_events/")) &&
			!strings.HasSuffix(key, "/") {
			n++
		}
	}
	return n
}

// TestSettledSession: of a session that had settled when its index was made, events are not listed before it answers,
// but afterwards; what was stored later is found then.
func TestSettledSession(t *testing.T) {
	for _, version := range []layout.Version{layout.V16, layout.V17} {
		s := generate(t, sessiongen.Options{Tasks: 300, ChunkEvents: 20, Version: version})
		s.end()
		s.put(layout.LogKey(layout.DefaultRoot, s.ref, someNode, "raylet.out"), []byte("a line\n"))
		s.write(s.load())
		says.True(t, s.loadListed(t).events() != 0, "V%d: no events were listed of a session that ended just now",
			version)
		s.settle()
		events := s.load()
		s.write(events)
		l := s.loadListed(t)
		n := l.events()
		says.True(t, n <= 0, "V%d: %d objects of events were listed of a session that had settled", version, n)
		loaded := l.session
		sameAnswers(t, events, loaded, taskURLs(events)[:20])
		says.True(t, slices.Equal(loaded.Logs.Nodes(), events.Logs.Nodes()) && len(loaded.Logs.Nodes()) == 1,
			"V%d: nodes with logs %v, want %v", version, loaded.Logs.Nodes(), events.Logs.Nodes())
		if err := loaded.Verify(t.Context()); err != nil || loaded.Broken() {
			t.Errorf("V%d: broken %v, %v, though nothing was stored", version, loaded.Broken(), err)
		}
		s.put(layout.NodeEventsKey(layout.DefaultRoot, s.ref, someNode, time.Now()), []byte("{}\n"))
		if next, err := loaded.Refresh(t.Context()); err != nil || next.EventBytes() == 0 {
			t.Errorf("V%d: a refresh after events were stored reads none: %v", version, err)
		}
		late := s.loadAuto(l.opener)
		if err := late.Verify(t.Context()); err != nil || !late.Broken() {
			t.Errorf("V%d: broken %v, %v, after events were stored", version, late.Broken(), err)
		}
		says.True(t, !s.loadAuto(l.opener).Indexed(), "V%d: the index is used though it lacks events", version)
	}
}

// TestCopiedStore: in a copy of a store every object has another time, and so another ETag. Whoever uses the session as
// the index tells it goes on while this is found out, the next load replays the events without a warning, and the index
// is made again, however small the session is.
func TestCopiedStore(t *testing.T) {
	s := generate(t, sessiongen.Options{Tasks: 300, ChunkEvents: 20})
	s.end()
	s.settle()
	events := s.load()
	s.write(events)
	copied := filepath.Join(t.TempDir(), "copy")
	must.OK(t, os.CopyFS(copied, os.DirFS(s.dir)))
	s = open(t, copied, s.ref)
	o := s.opener()
	b := NewBackground(&Writer{Opener: o, Put: s.store.Put}, prometheus.NewRegistry())
	defer b.Close()
	loaded := s.loadAuto(o)
	must.True(t, loaded.Indexed(), "the index is not trusted at first")
	err := loaded.Verify(t.Context())
	says.True(t, err == nil && loaded.Broken(), "broken %v, %v", loaded.Broken(), err)
	sameAnswers(t, events, loaded, taskURLs(events)[:20]) // and none fails
	for !s.loadAuto(o).Indexed() {
		again := s.loadAuto(o)
		must.True(t, len(again.Warnings) == 0, "%q", again.Warnings)
		b.Offer(again, true)
		b.done.Wait()
		must.OK(t, t.Context().Err(), "no index")
	}
	said := s.said.String()
	says.True(t, !strings.Contains(said, "damaged") && strings.Contains(said, "out of date"), said)
}

var someNode = rayid.Node{7}

// loadedListed is a session with what was listed to load it.
type loadedListed struct {
	listed
	session *session.Session
	opener  *Opener
}

func (s *stored) loadListed(t *testing.T) *loadedListed {
	t.Helper()
	out := &loadedListed{listed: listed{Store: s.store}}
	out.opener = &Opener{Store: &out.listed, Root: layout.DefaultRoot, Log: s.log}
	loaded := must.Get(session.Load(t.Context(), &out.listed, layout.DefaultRoot, s.ref,
		session.Options{Log: s.log, Index: out.opener}))(t)
	says.True(t, loaded.Indexed(), "the index is not used")
	out.session = loaded
	return out
}

// settle makes all that is stored two hours older.
func (s *stored) settle() {
	s.t.Helper()
	before := time.Now().Add(-2 * time.Hour)
	must.OK(s.t, filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, before, before)
	}))
}

// end stores that the session has ended.
func (s *stored) end() {
	s.put(layout.MetadataKey(layout.DefaultRoot, s.ref, layout.End), []byte("{}"))
}

// TestMarkSettled: an index that was made while more was to be expected is believed at once after the session has
// settled and was opened again.
func TestMarkSettled(t *testing.T) {
	s := generate(t, sessiongen.Options{Tasks: 300, ChunkEvents: 20})
	writer := s.writer()
	s.end()
	fresh := s.load()
	says.True(t, !hasSettled(fresh), "a session that ended just now has settled")
	s.settle()
	old := s.load()
	old.Life.End = time.Time{} // so that the index is as one of a session that may go on
	must.OK(t, writer.Write(t.Context(), old, nil))
	if marked, err := (&Writer{Opener: s.opener(),
		Put: denied{s.store}.Put}).MarkSettled(t.Context(), s.loadAuto(writer.Opener)); marked || err != nil {
		t.Errorf("marked %v, %v, in a store that may not be written to", marked, err)
	}
	for i, want := range []bool{true, false} {
		loaded := s.loadAuto(writer.Opener)
		if marked, err := writer.MarkSettled(t.Context(), loaded); marked != want || err != nil || !loaded.Indexed() {
			t.Errorf("load %d: marked %v, %v; indexed %v", i, marked, err, loaded.Indexed())
		}
	}
	n := s.loadListed(t).events()
	says.True(t, n <= 0, "%d objects of events were listed of a session that had settled", n)
}

// TestMarkSettledWithinMemory: an index whose list of objects is longer than any session's is left as it is.
func TestMarkSettledWithinMemory(t *testing.T) {
	s := generate(t, sessiongen.Options{Tasks: 30})
	s.end()
	s.settle()
	events := s.load()
	events.Life.End = time.Time{} // so that the index is as one of a session that may go on
	s.write(events)
	loaded := s.loadAuto(s.opener())
	_, m, err := readMetadata(t.Context(), sourceOf(s.store, s.key(metaTable),
		int64(len(s.read(s.key(metaTable)))), &memoryBudget{}))
	must.OK(t, err)
	const row = 128 // bytes that readSources takes at least
	many := must.Get(m.encode(make([]source, settlingMemory/row)))(t)
	s.put(s.key(metaTable), many)
	if marked, err := s.writer().MarkSettled(t.Context(), loaded); marked || !errors.Is(err, errTooLarge) {
		t.Errorf("marked %v, %v", marked, err)
	}
}
