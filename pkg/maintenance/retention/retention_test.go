package retention

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestDue(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	old, young := now.Add(-48*time.Hour), now.Add(-time.Hour)
	for name, tc := range map[string]struct {
		entry catalog.Entry
		want  bool
	}{
		"old":                    {catalog.Entry{Described: true, End: old, LastWrite: old}, true},
		"young":                  {catalog.Entry{Described: true, End: young, LastWrite: young}, false},
		"running":                {catalog.Entry{Described: true, Running: true, LastWrite: old}, false},
		"written after its end":  {catalog.Entry{Described: true, End: old, LastWrite: young}, false},
		"not looked at":          {catalog.Entry{End: old, LastWrite: old}, false},
		"old facts, running now": {catalog.Entry{Described: true, Running: true, End: old, LastWrite: old}, false},
	} {
		says.Equal(t, Due(tc.entry, 24*time.Hour, now), tc.want, name)
	}
}

// TestOnlyAMarker: a session of which nothing else is stored, as after a removal that was interrupted, expires by the
// time of its marker.
func TestOnlyAMarker(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	p := &Policy{Age: 24 * time.Hour}
	for name, tc := range map[string]struct {
		entry catalog.Entry
		want  bool
	}{
		"old":          {catalog.Entry{Described: true, LastWrite: now.Add(-48 * time.Hour)}, true},
		"young":        {catalog.Entry{Described: true, LastWrite: now.Add(-time.Hour)}, false},
		"running":      {catalog.Entry{Described: true, Running: true, LastWrite: now.Add(-48 * time.Hour)}, false},
		"of no time":   {catalog.Entry{Described: true}, false},
		"not read yet": {catalog.Entry{LastWrite: now.Add(-48 * time.Hour)}, false},
	} {
		says.Equal(t, p.Of(tc.entry, now).Due(now), tc.want, "%s: due", name)
	}
}

func TestDays(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "0 hours", time.Hour: "1 hour",
		47 * time.Hour: "47 hours", 48 * time.Hour: "2 days"} {
		says.Equal(t, daysText(d), want, "%s", d)
	}
}

func TestRemove(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	other := ref
	other.Name = "session_12"
	for _, s := range []layout.Session{ref, other} {
		for _, key := range []string{layout.MarkerKey("log", s), layout.MetadataKey("log", s, layout.End),
			layout.Prefix("log", s) + "foreign",
			layout.IndexKey("log", s, "meta"), layout.Prefix("log", s) + "index/meta.parquet"} {
			must.OK(t, store.Create(t.Context(), key, strings.NewReader("")))
		}
	}
	var p progress.Counter
	says.ErrorIs(t, Remove(t.Context(), store, "log", ref, time.Now().Add(-time.Hour), &p), errWritten,
		"a session that was written after the limit")
	explained := &storetest.Hooked{Store: store, Before: storetest.On(storetest.Delete,
		func(ctx context.Context, key string) error { // another server keeps its findings meanwhile
			if key != layout.MetadataKey("log", ref, layout.End) {
				return nil
			}
			return store.Put(ctx, layout.FindingsKey("log", ref), strings.NewReader(""))
		})}
	must.OK(t, Remove(t.Context(), explained, "log", ref, time.Now().Add(time.Hour), &p))
	var left []string
	for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
		must.OK(t, err)
		left = append(left, o.Key)
	}
	says.Equal(t, len(left), 5, "of %s is left %q", other, left)
}

// TestRemoveTimeOrderedMarkers: a session's name has its start in the head's local time, the hour of its time-ordered
// marker is UTC.
func TestRemoveTimeOrderedMarkers(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
	for name, metadata := range map[string]string{
		"session_2026-11-20_10-30-00_000000_1": "",
		"session_2026-11-20_10-30-00_000000_2": "damaged",
		"session_2026-11-20_18-30-00_000000_3": `{"start":"2026-11-20T10:30:00Z"}`, // of a head in Shanghai
		"session_without_a_time":               `{"start":"2026-11-20T10:30:00Z"}`,
	} {
		store := storetest.New()
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
		stored := map[string]string{layout.MarkerKey("log", ref): "", layout.RecentKey("log", ref, start): ""}
		if metadata != "" {
			stored[layout.MetadataKey("log", ref, layout.Start)] = metadata
		}
		for key, body := range stored {
			must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
		}
		must.OK(t, Remove(t.Context(), store, "log", ref, time.Now().Add(time.Hour), &progress.Counter{}))
		for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
			t.Errorf("%s: left is %s, %v", name, o.Key, err)
		}
	}
}

// TestPinnedIsNotRemoved, whatever asks for it, and neither is what nobody can tell whether it is pinned. The note goes
// with the session.
func TestPinnedIsNotRemoved(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	must.OK(t, store.Create(t.Context(), layout.MarkerKey("log", ref), strings.NewReader("")))
	later := time.Now().Add(time.Hour)
	var p progress.Counter
	pin := func(pinned bool) {
		t.Helper()
		must.Get(notes.Change(t.Context(), store, "log", ref, func(n *notes.Note) error {
			n.Pinned = pinned
			return nil
		}))(t)
	}
	pin(true)
	says.ErrorIs(t, Remove(t.Context(), store, "log", ref, later, &p), ErrPinned, "pinned")
	must.OK(t, store.Put(t.Context(), layout.NoteKey("log", ref), strings.NewReader("{")))
	if err := Remove(t.Context(), store, "log", ref, later, &p); err == nil || !errors.Is(err, ErrPinned) ||
		!strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("with a damaged note: %v", err)
	}
	pin(false)
	must.OK(t, store.Create(t.Context(), layout.WebhooksPrefix("log", ref)+"done", strings.NewReader("")))
	must.OK(t, Remove(t.Context(), store, "log", ref, later, &p))
	for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
		t.Errorf("left is %s, %v", o.Key, err)
	}
}

// TestWrongClock: on a machine whose clock is far ahead all sessions look old. Nothing is removed, and the lease is
// given back.
func TestWrongClock(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	must.OK(t, store.Create(t.Context(), layout.MarkerKey("log", ref), strings.NewReader("")))
	var p progress.Counter
	later := time.Now().Add(time.Hour)
	behind := func(d time.Duration) blob.Store {
		return &storetest.Hooked{Store: store, Object: func(o *blob.Object) { o.ModTime = o.ModTime.Add(-d) }}
	}
	says.ErrorIs(t, Remove(t.Context(), behind(365*24*time.Hour), "log", ref, later, &p), lease.ErrClock,
		"a clock that is a year ahead")
	says.OK(t, says.Err(store.Stat(t.Context(), layout.MarkerKey("log", ref))))
	says.OK(t, Remove(t.Context(), behind(time.Minute), "log", ref, later, &p), "a clock that is a minute ahead")
}

// TestRemoveMarkerOfAFolder: a session whose marker KubeRay's collector stored as a folder does not stay in the list.
func TestRemoveMarkerOfAFolder(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	store.Objects[layout.MarkerKey("log", ref)+"/"] = nil
	err := Remove(t.Context(), store, "log", ref, time.Now().Add(time.Hour), &progress.Counter{})
	says.True(t, err == nil && len(store.Objects) == 0, "%q is left, %v", store.Keys(), err)
}
