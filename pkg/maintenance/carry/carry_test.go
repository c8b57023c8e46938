package carry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/outcomes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/indexing"
	"github.com/rayhistory/historyserver/pkg/maintenance/transfer"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// bucket is a store with the recorded session of one cluster whose findings are kept.
func bucket(t *testing.T) (store *local.Store, ref layout.Session) {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, recording.Unpack(filepath.Join("..", "..", "findings", "testdata", "jobs-2.60.tar.gz"), dir))
	found, err := filepath.Glob(filepath.Join(dir, "log", "*_cases", "session_*"))
	must.True(t, err == nil && len(found) == 1, "%v %v", found, err)
	store = must.Get(local.Open(dir))(t)
	ref = layout.Session{Namespace: "cases", Cluster: strings.TrimSuffix(filepath.Base(filepath.Dir(found[0])),
		"_cases"), Name: filepath.Base(found[0])}
	writer := indexing.Places{Store: store, Root: layout.DefaultRoot, Log: silent.Logger()}.Open()
	must.Get(indexing.Session(t.Context(), ref, indexing.Options{
		Writer: writer, MaxMemory: 1 << 30,
		Follow: func(string, *progress.Counter) func() { return func() {} },
	}))(t)
	return store, ref
}

// outcome is what the list of sessions tells of a session, if it knows anything.
func outcome(t *testing.T, store blob.Store, root string, ref layout.Session) (cause string, kept bool) {
	t.Helper()
	c := catalog.New(catalog.Options{Store: store, Root: root, Quiet: time.Hour, Log: silent.Logger(),
		Registerer: prometheus.NewRegistry()})
	l, err := c.ReadAll(t.Context())
	entries := slices.Collect(l.All())
	must.True(t, err == nil && len(entries) == 1, "%v %v", entries, err)
	opener := &index.Opener{Store: store, Root: root, Log: silent.Logger()}
	head, known := outcomes.Read(t.Context(), opener.KeptFindings, entries[0])
	s, err := session.Load(t.Context(), store, root, ref, session.Options{Log: silent.Logger()})
	must.OK(t, err)
	body, err := store.Get(t.Context(), layout.FindingsKey(root, ref), 0, -1)
	if err != nil {
		return "", false
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	must.OK(t, err)
	is, err := findings.UpToDate(bytes.NewReader(text), s)
	if today := known && head.Version >= findings.KeptVersion; err != nil || is != today {
		t.Errorf("the list knows an outcome of today: %v; the session that is loaded: %v, %v", today, is, err)
	}
	return head.Cause, known
}

// TestCompacted: what the list tells of a session, whichever version found it out, it tells after compaction too.
func TestCompacted(t *testing.T) {
	for _, version := range []int{findings.KeptVersion - 1, findings.KeptVersion, findings.KeptVersion + 1} {
		store, ref := bucket(t)
		key := layout.FindingsKey(layout.DefaultRoot, ref)
		today, by := fmt.Sprintf(`{"version":%d,`, findings.KeptVersion), fmt.Sprintf(`{"version":%d,`, version)
		kept := bytes.Replace(readAll(t, store, key), []byte(today), []byte(by), 1)
		must.OK(t, store.Put(t.Context(), key, bytes.NewReader(kept)))
		before, known := outcome(t, store, layout.DefaultRoot, ref)
		must.True(t, known && before != "", "nothing is known before")
		result, err := compact.Session(t.Context(), ref,
			compact.Options{Store: store, Root: layout.DefaultRoot, Quiet: time.Hour, Progress: &progress.Counter{}})
		must.True(t, err == nil && result.Joined != 0, "%+v, %v", result, err)
		if after, known := outcome(t, store, layout.DefaultRoot, ref); !known || after != before {
			t.Errorf("by version %d, after compaction %q (%v), before %q", version, after, known, before)
		}
	}
}

func readAll(t *testing.T, store blob.Reader, key string) []byte {
	t.Helper()
	body := must.Get(store.Get(t.Context(), key, 0, -1))(t)
	defer func() { _ = body.Close() }()
	return must.Get(io.ReadAll(body))(t)
}

// TestStoredMeanwhile: findings are not kept of a session to which something was added while its chunks were joined.
func TestStoredMeanwhile(t *testing.T) {
	store, ref := bucket(t)
	key := layout.LogChunkKey(layout.LogKey(layout.DefaultRoot, ref, [28]byte{7}, "late.log"), 0, layout.Plain)
	var once sync.Once
	late := &storetest.Hooked{Store: store, Before: storetest.On(storetest.Put,
		func(ctx context.Context, _ string) (err error) {
			once.Do(func() { err = store.Create(ctx, key, strings.NewReader("late\n")) })
			return err
		})}
	must.Get(compact.Session(t.Context(), ref, compact.Options{
		Store: late, Root: layout.DefaultRoot, Quiet: time.Hour, Progress: &progress.Counter{},
	}))(t)
	must.Get(store.Stat(t.Context(), key))(t)
	cause, known := outcome(t, store, layout.DefaultRoot, ref)
	says.True(t, !known, "an outcome is known: %q", cause)
}

// TestDamagedFindings, which can be made again, keep nobody from compacting or copying their session.
func TestDamagedFindings(t *testing.T) {
	store, ref := bucket(t)
	key := layout.FindingsKey(layout.DefaultRoot, ref)
	kept := readAll(t, store, key)
	for what, damaged := range map[string][]byte{
		"nothing": nil, "noise": []byte("noise\n"), "another document": []byte("[]\n[]"), "cut in the head": kept[:20],
		"cut in the report": kept[:len(kept)-20], "no report": kept[:bytes.IndexByte(kept, '\n')+1],
	} {
		must.OK(t, store.Put(t.Context(), key, bytes.NewReader(damaged)))
		from, to := transfer.Place{Store: store, Root: layout.DefaultRoot}, transfer.Place{Root: "moved"}
		to.Store = must.Get(local.Open(t.TempDir()))(t)
		says.OK(t, says.Err(transfer.Copy(t.Context(), ref, from, to, &progress.Counter{})), "%s: copy", what)
		if result, err := compact.Session(t.Context(), ref,
			compact.Options{Store: to.Store, Root: to.Root, Quiet: time.Hour,
				Progress: &progress.Counter{}}); err != nil || result.Joined == 0 {
			t.Errorf("%s: compact: %+v, %v", what, result, err)
		}
	}
}

// TestCopied: what the list tells of a session, it tells of its copy: under another root, and continued; not of
// a copy that has more.
func TestCopied(t *testing.T) {
	store, ref := bucket(t)
	before, _ := outcome(t, store, layout.DefaultRoot, ref)
	from := transfer.Place{Store: store, Root: layout.DefaultRoot}
	for _, root := range []string{layout.DefaultRoot, "moved"} {
		target := storetest.New()
		to := transfer.Place{Store: target, Root: root}
		for _, again := range []bool{false, true} {
			must.OK(t, says.Err(transfer.Copy(t.Context(), ref, from, to, &progress.Counter{})), root)
			if after, known := outcome(t, target, root, ref); !known || after != before {
				t.Errorf("%s, again %v: of the copy %q (%v), of the original %q", root, again, after, known, before)
			}
		}
		key := layout.LogChunkKey(layout.LogKey(root, ref, [28]byte{7}, "more.log"), 0, layout.Plain)
		must.OK(t, target.Create(t.Context(), key, strings.NewReader("more\n")))
		must.OK(t, target.Delete(t.Context(), layout.FindingsKey(root, ref)))
		must.OK(t, says.Err(transfer.Copy(t.Context(), ref, from, to, &progress.Counter{})), root)
		_, known := outcome(t, target, root, ref)
		says.True(t, !known, "%s: an outcome is known of a copy that has more", root)
	}
}
