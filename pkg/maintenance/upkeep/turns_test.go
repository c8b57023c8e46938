package upkeep

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// slowStore does not list the sessions of a namespace, until the context ends.
type slowStore struct {
	blob.Store
	began  time.Time
	listed map[string]time.Duration // when each session was asked for last
}

func (s *slowStore) List(ctx context.Context, prefix string, _ blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		s.listed[prefix] = time.Since(s.began)
		if !strings.Contains(prefix, "slow") {
			return
		}
		<-ctx.Done()
		yield(blob.Object{}, context.Cause(ctx))
	}
}

// TestNamespacesTakeTurns: sessions that take for ever do not keep those of other namespaces waiting for long, nor the next round.
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
		log := silent.Logger()
		store := &slowStore{began: now, listed: make(map[string]time.Duration)}
		u := Upkeep{opts: Options{
			Store: store, Root: "log", Sessions: func() iter.Seq[catalog.Entry] { return slices.Values(entries) }, Log: log, Compact: true, Quiet: time.Nanosecond,
			Interval: 25 * time.Minute,
		}}
		u.round(t.Context(), now)
		for i := range 5 {
			prefix := layout.Prefix("log", layout.Session{Namespace: "quick", Cluster: "c", Name: fmt.Sprint("session_", i)})
			if at, listed := store.listed[prefix]; !listed || at > sessionTime {
				t.Errorf("session %d of the other namespace waited %s, %t", i, at, listed)
			}
		}
		if took := time.Since(now); took != 30*time.Minute { // the third slow session began before the next round was due
			t.Errorf("the round took %s", took)
		}
	})
}
