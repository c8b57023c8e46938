package upkeep

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
)

// TestUpkeep: a round joins what it may, and removes what ended long ago and is not written.
func TestUpkeep(t *testing.T) {
	store := storetest.New()
	now := time.Now()
	var entries []catalog.Entry
	for cluster, age := range map[string]time.Duration{"old": 800 * time.Hour, "young": time.Hour} {
		ref := layout.Session{Namespace: "default", Cluster: cluster, Name: "session_2026-10-01_00-00-00_000000_1"}
		log := layout.Prefix("log", ref) + "logs/" + strings.Repeat("0", 56) + "/a"
		for key, body := range map[string]string{
			layout.MarkerKey("log", ref): "", layout.MetadataKey("log", ref, layout.End): "{}", log: "one\n",
			layout.ChunkKey(log, 4, layout.Plain): "two\n",
		} {
			must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
			store.Written(key, now.Add(-age))
		}
		entries = append(entries, catalog.Entry{Ref: ref, Described: true, End: now.Add(-age),
			LastWrite: now.Add(-age)})
	}
	log := silent.Logger()
	u := Upkeep{opts: Options{
		Store: store, Root: "log", Sessions: func() iter.Seq[catalog.Entry] { return slices.Values(entries) }, Log: log,
		Compact: true, Retention: &retention.Policy{Age: 720 * time.Hour}, Quiet: 10 * time.Minute,
	}}
	u.workRound(t.Context(), now)
	left, err := catalog.New(catalog.Options{Store: store, Root: "log", Log: log, Unlogged: true,
		Registerer: prometheus.NewRegistry()}).ReadAll(t.Context())
	stored := slices.Collect(left.All())
	says.True(t, err == nil && len(stored) == 1 && stored[0].Ref.Cluster == "young" && stored[0].Objects == 3 &&
		stored[0].End.Equal(now.Add(-time.Hour).Truncate(time.Microsecond)), "left is %+v, %v", stored, err)
}

// TestSettledSessionsAreNotListedInEveryRound: an ended session of which nothing is left to join is listed again when
// something was stored, and otherwise once in many rounds.
func TestSettledSessionsAreNotListedInEveryRound(t *testing.T) {
	listed := make(map[string]int)
	store := &storetest.Hooked{Store: storetest.New(),
		Before: storetest.On(storetest.List, func(_ context.Context, prefix string) error {
			listed[prefix]++
			return nil
		})}
	now := time.Now()
	ended := layout.Session{Namespace: "default", Cluster: "ended", Name: "session_1"}
	// whether it has ended shows later
	unknown := layout.Session{Namespace: "default", Cluster: "unknown", Name: "session_1"}
	log := func(ref layout.Session) string {
		return layout.Prefix("log", ref) + "logs/" + strings.Repeat("0", 56) + "/a"
	}
	for _, key := range []string{log(ended), log(unknown)} {
		must.OK(t, store.Create(t.Context(), key, strings.NewReader("one\n")))
	}
	must.OK(t, store.Create(t.Context(), layout.MetadataKey("log", ended, layout.End), strings.NewReader("{}")))
	entries := []catalog.Entry{{Ref: ended, Described: true, End: now, LastWrite: now},
		{Ref: unknown, Described: true, End: now, LastWrite: now}}
	u := Upkeep{opts: Options{
		Store: store, Root: "log", Sessions: func() iter.Seq[catalog.Entry] { return slices.Values(entries) },
		Log: silent.Logger(), Compact: true, Quiet: time.Nanosecond,
	}}
	u.workRound(t.Context(), now) // lists all; it may be the turn of the ended session as well
	clear(listed)
	for range 2 * roundsToList {
		u.workRound(t.Context(), now)
	}
	of := func(ref layout.Session) int { return listed[layout.Prefix("log", ref)] }
	says.Equal(t, of(ended), 2, "the ended session was listed")
	says.Equal(t, of(unknown), 2*roundsToList, "the other session was listed")
	must.OK(t, store.Create(t.Context(), layout.ChunkKey(log(ended), 4, layout.Plain), strings.NewReader("two\n")))
	entries[0].LastWrite = now.Add(time.Minute)
	u.workRound(t.Context(), now)
	says.ErrorIs(t, says.Err(store.Stat(t.Context(), layout.ChunkKey(log(ended), 4, layout.Plain))), os.ErrNotExist,
		"what was stored later was not joined")
}

// TestPanic: what goes wrong with one session ends neither the server nor the round.
func TestPanic(t *testing.T) {
	ended := time.Now().Add(-800 * time.Hour)
	var asked []string
	policy := &retention.Policy{Age: 9000 * time.Hour, Note: func(ref layout.Session) notes.Note {
		if asked = append(asked, ref.Cluster); ref.Cluster == "odd" {
			panic("damaged")
		}
		return notes.Note{}
	}}
	var entries []catalog.Entry
	for _, cluster := range []string{"odd", "other"} {
		ref := layout.Session{Namespace: "default", Cluster: cluster, Name: "session_1"}
		entries = append(entries, catalog.Entry{Ref: ref, Described: true, End: ended, LastWrite: ended})
	}
	u := Upkeep{opts: Options{Sessions: func() iter.Seq[catalog.Entry] { return slices.Values(entries) },
		Log: silent.Logger(), Retention: policy}}
	u.workRound(t.Context(), time.Now())
	says.EqualSlices(t, asked, []string{"odd", "other"}, "the round went as far as")
}

// TestWrongClock: to a clock that is ahead all sessions have expired. That is told once in a round, not of each
// session.
func TestWrongClock(t *testing.T) {
	behind := &storetest.Hooked{Store: storetest.New(),
		Object: func(o *blob.Object) { o.ModTime = o.ModTime.Add(-24 * time.Hour) }}
	ended := time.Now().Add(-800 * time.Hour)
	var entries []catalog.Entry
	for _, cluster := range []string{"one", "two", "three"} {
		ref := layout.Session{Namespace: "default", Cluster: cluster, Name: "session_1"}
		entries = append(entries, catalog.Entry{Ref: ref, Described: true, End: ended, LastWrite: ended})
	}
	log, logged := test.NewNullLogger()
	u := Upkeep{opts: Options{
		Store: behind, Root: "log", Sessions: func() iter.Seq[catalog.Entry] { return slices.Values(entries) },
		Log:       log,
		Retention: &retention.Policy{Age: 720 * time.Hour},
	}}
	u.workRound(t.Context(), time.Now())
	if all := logged.AllEntries(); len(all) != 1 || !strings.Contains(all[0].Message, "no session is removed") {
		t.Errorf("told %d times: %+v", len(all), all)
	}
}

// TestNamespacesTakeTurns: sessions that take for ever do not keep those of other namespaces waiting for long, nor the
// next round.
func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var entries []catalog.Entry
		for i := range 5 {
			for _, namespace := range []string{"slow", "quick"} {
				ref := layout.Session{Namespace: namespace, Cluster: "c", Name: fmt.Sprint("session_", i)}
				entries = append(entries, catalog.Entry{Ref: ref, Described: true, End: now, LastWrite: now})
			}
		}
		listed := make(map[string]time.Duration) // when each session was asked for last
		store := &storetest.Hooked{Store: storetest.New(),
			Before: storetest.On(storetest.List, func(ctx context.Context, prefix string) error {
				listed[prefix] = time.Since(now)
				if !strings.Contains(prefix, "slow") {
					return nil
				}
				return storetest.Hang(ctx, prefix)
			})}
		u := Upkeep{opts: Options{
			Store: store, Root: "log", Sessions: func() iter.Seq[catalog.Entry] { return slices.Values(entries) },
			Log: silent.Logger(), Compact: true, Quiet: time.Nanosecond,
			Interval: 25 * time.Minute,
		}}
		u.workRound(t.Context(), now)
		for i := range 5 {
			prefix := layout.Prefix("log", layout.Session{Namespace: "quick", Cluster: "c",
				Name: fmt.Sprint("session_", i)})
			at, ok := listed[prefix]
			says.True(t, ok && at <= sessionTime, "session %d of the other namespace waited %s, %t", i, at, ok)
		}
		// the third slow session began before the next round was due
		says.Equal(t, time.Since(now), 30*time.Minute, "the round took")
	})
}
