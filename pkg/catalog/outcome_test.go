package catalog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// endingsOf is a catalog that knows n ended sessions and how none of them ended, beside a function that is asked then.
func endingsOf(t *testing.T, n int, ask func(Entry) (Ending, bool)) (*Catalog, []Entry) {
	t.Helper()
	store := storetest.New()
	c, _ := server(store)
	c.opts.Ending = func(context.Context, Entry) (Ending, bool) { return Ending{}, false }
	for i := range n {
		ended(t, store, fmt.Sprintf("c%d", i))
	}
	store.Age(time.Hour)
	all := entriesOf(fresh(t, c))
	c.opts.Ending = func(_ context.Context, e Entry) (Ending, bool) { return ask(e) }
	return c, all
}

// TestReadOutcomes: how a session ended is read once for all who look at it and, if that is not stored, again after a
// while or when more was stored of the session. The list has it then, until the details are read again.
func TestReadOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		stored := map[string]bool{"c0": true}
		c, all := endingsOf(t, 3, func(e Entry) (Ending, bool) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, e.Ref.Cluster)
			return Ending{Outcome: Failed, Cause: "oh\nno", Version: 7}, stored[e.Ref.Cluster]
		})
		look := func(want string) {
			t.Helper()
			asked = nil
			found := slices.Clone(all)
			c.ReadOutcomes(t.Context(), found)
			slices.Sort(asked)
			says.Equal(t, fmt.Sprintf("%s %s", asked, outcomesOf(found)), want)
		}
		slices.SortFunc(all, func(a, b Entry) int { return int(a.Ref.Cluster[1]) - int(b.Ref.Cluster[1]) })
		look("[c0 c1 c2] [failed  ]")
		stored["c1"] = true
		look("[] [failed  ]")
		if e := entriesOf(c.Cached())[0]; e.Outcome != Failed || e.Cause != "oh no" ||
			slices.Collect(c.Cached().Unexplained(7, time.Now()))[0].Ref.Cluster == "c0" {
			t.Errorf("the list has %+v", e)
		}
		says.True(t, c.changed[all[0].Ref] && !c.changed[all[1].Ref], "its details are not read again")
		time.Sleep(outcomeAge)
		look("[c1 c2] [failed failed ]")
		all[2].LastWrite = all[2].LastWrite.Add(time.Second)
		look("[c2] [failed failed ]")
	})
}

func outcomesOf(all []Entry) (outcomes []string) {
	for _, e := range all {
		outcomes = append(outcomes, e.Outcome)
	}
	return outcomes
}

// TestReadOutcomesBounded: few are read at a time and wait to be, who asks does not wait longer than told, and what is
// read is shown the next time.
func TestReadOutcomesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, asked atomic.Int64
		gate := make(chan struct{})
		c, all := endingsOf(t, maxOutcomes+10, func(Entry) (Ending, bool) {
			asked.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			<-gate
			now.Add(-1)
			return Ending{Outcome: Failed}, true
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.ReadOutcomes(ctx, all)
		says.True(t, ctx.Err() != nil && all[0].Outcome == "" && c.ReadsOutcome(all[0].Ref),
			"it waited for less than all: %+v", all[0])
		close(gate)
		synctest.Wait()
		says.True(t, most.Load() <= outcomeReads && asked.Load() == maxOutcomes && !c.ReadsOutcome(all[0].Ref),
			"%d at a time of %d, want %d of %d", most.Load(), asked.Load(), outcomeReads, maxOutcomes)
		c.ReadOutcomes(t.Context(), all)
		says.True(t, !slices.ContainsFunc(all, func(e Entry) bool { return e.Outcome != Failed }) &&
			asked.Load() == int64(len(all)), "after all were read: %d", asked.Load())
	})
}
