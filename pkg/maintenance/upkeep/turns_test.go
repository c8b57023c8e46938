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
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

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
		u.round(t.Context(), now)
		for i := range 5 {
			prefix := layout.Prefix("log", layout.Session{Namespace: "quick", Cluster: "c",
				Name: fmt.Sprint("session_", i)})
			if at, ok := listed[prefix]; !ok || at > sessionTime {
				t.Errorf("session %d of the other namespace waited %s, %t", i, at, ok)
			}
		}
		// the third slow session began before the next round was due
		if took := time.Since(now); took != 30*time.Minute {
			t.Errorf("the round took %s", took)
		}
	})
}
