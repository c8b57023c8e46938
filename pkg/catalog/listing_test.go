package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// markerStore has markers only, and counts the requests that listing them takes.
type markerStore struct {
	blob.Reader

	mu       sync.Mutex
	keys     []string // sorted
	requests int
	down     bool
	slow     time.Duration // that listing all takes
}

func (s *markerStore) put(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(slices.Clone(s.keys), keys...) // a listing may be reading the old ones
	slices.Sort(s.keys)
}

// asked is how many requests were made.
func (s *markerStore) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *markerStore) List(_ context.Context, prefix string, o blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		s.mu.Lock()
		keys := s.keys
		all := strings.HasSuffix(prefix, "/metadir/")
		down, slow := s.down && all, s.slow
		s.requests++
		s.mu.Unlock()
		if all {
			time.Sleep(slow)
		}
		if down {
			yield(blob.Object{}, errors.New("the store is down"))
			return
		}
		i, _ := slices.BinarySearch(keys, max(prefix, o.StartAfter+"\x00"))
		for n := 1; i < len(keys) && strings.HasPrefix(keys[i], prefix); i, n = i+1, n+1 {
			if n%pageKeys == 0 {
				s.mu.Lock()
				s.requests++
				s.mu.Unlock()
			}
			if !yield(blob.Object{Key: keys[i], ModTime: time.Now().Add(-24 * time.Hour)}, nil) {
				return
			}
		}
	}
}

// many is a catalog over a store with n old sessions.
func many(n int, o Options) (*Catalog, *markerStore) {
	store := &markerStore{}
	var keys []string
	for i := range n {
		keys = append(keys, layout.MarkerKey(root, v16(fmt.Sprintf("old-%d", i),
			"session_2025-01-01_00-00-00_000000_1")))
	}
	store.put(keys...)
	o.Store, o.Root, o.Log, o.Registerer = store, root, silent.Logger(), prometheus.NewRegistry()
	return New(o), store
}

// TestNewSessionAmongMany: though all sessions are listed rarely, one that has a time-ordered marker is listed within
// 35 s, one without at the next full listing, and one that somebody asks for at once.
func TestNewSessionAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := many(10_000, Options{FullRequests: 120}) // 12 requests: each 2.4 hours
		c.Start()
		defer c.Close()
		time.Sleep(10 * time.Minute)
		now := time.Now().UTC()
		marked, unmarked, asked := v16("new", now.Format("session_2006-01-02_15-04-05_000000_1")),
			v16("kuberay", "session_1999-12-01_00-00-00_000000_2"), v16("asked", "session_1999-12-01_00-00-00_000000_3")
		store.put(layout.MarkerKey(root, marked), layout.RecentKey(root, marked, now), layout.MarkerKey(root, unmarked),
			layout.MarkerKey(root, asked))
		has := func(ref layout.Session) bool {
			return slices.ContainsFunc(entriesOf(c.Cached()), func(e Entry) bool { return e.Ref == ref })
		}
		time.Sleep(35 * time.Second)
		says.True(t, has(marked) && !has(unmarked), "after 35 s: with a time-ordered marker %v, without %v",
			has(marked), has(unmarked))
		if _, err := c.Find(t.Context(), Selector{Namespace: "default", Name: "asked",
			Session: "session_1999-12-01_00-00-00_000000_3"}); err != nil {
			t.Error(err)
		}
		if _, err := c.Find(t.Context(), Selector{Namespace: "default", Name: "asked",
			Session: "session_1999-12-01_00-00-00_000000_4"}); !errors.Is(err, ErrNoSession) {
			t.Errorf("a session that is not stored: %v", err)
		}
		// That miss listed recent markers, which the next session has none of.
		other := v16("other", "session_1999-12-01_00-00-00_000000_5")
		store.put(layout.MarkerKey(root, other))
		says.OK(t, says.Err(c.Find(t.Context(), Selector{Namespace: "default", Name: "other", Session: Latest})),
			"right after somebody else's miss")
		for range 10 * missesPerSecond { // that are asked for at once
			_, _ = c.Find(t.Context(), Selector{Namespace: "default", Name: "none", Session: Latest})
		}
		before := store.asked()
		_, _ = c.Find(t.Context(), Selector{Namespace: "default", Name: "none", Session: Latest})
		got := store.asked()
		says.True(t, got == before, "%d further requests after many misses", got-before)
		late := v16("late", "session_1999-12-01_00-00-00_000000_6")
		store.put(layout.MarkerKey(root, late))
		says.OK(t, says.Err(c.Find(t.Context(), Selector{Namespace: "default", Name: "late", Session: Latest})),
			"right after many misses of another cluster")
		var err error
		for i := range 2 * missesPerSecond { // of many clusters
			_, err = c.Find(t.Context(), Selector{Namespace: "default", Name: fmt.Sprint("none-", i), Session: Latest})
		}
		says.ErrorIs(t, err, budget.ErrBusy, "a cluster that was not looked for")
		time.Sleep(3 * time.Hour)
		says.True(t, has(marked) && has(unmarked) && has(asked), "after a full listing: %v, %v, %v", has(marked),
			has(unmarked), has(asked))
	})
}

// TestNewSessionMeanwhile: one that begins while all are listed is in the list within 35 s, and one that somebody asks
// for is found at once.
func TestNewSessionMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := many(20_000, Options{FullRequests: 1_000_000})
		c.Start()
		defer c.Close()
		time.Sleep(time.Minute)
		store.mu.Lock()
		store.slow = time.Hour
		store.mu.Unlock()
		time.Sleep(10*time.Minute + 7*time.Second) // between two listings of recent ones
		now := time.Now().UTC()
		begun, asked := v16("new", now.Format("session_2006-01-02_15-04-05_000000_1")),
			v16("asked", "session_1999-12-01_00-00-00_000000_3")
		store.put(layout.MarkerKey(root, begun), layout.RecentKey(root, begun, now), layout.MarkerKey(root, asked))
		if _, err := c.Find(t.Context(), Selector{Namespace: "default", Name: "asked",
			Session: "session_1999-12-01_00-00-00_000000_3"}); err != nil || time.Since(now) > time.Second {
			t.Errorf("found after %v: %v", time.Since(now), err)
		}
		time.Sleep(35 * time.Second)
		l := c.Cached()
		says.True(t, slices.ContainsFunc(entriesOf(l), func(e Entry) bool { return e.Ref == begun }) &&
			time.Since(l.At) <= 35*time.Second, "%s is not listed, by the list of %s", begun, l.At)
	})
}

// TestRequestsADay: what listing costs at rest does not grow with the number of sessions.
func TestRequestsADay(t *testing.T) {
	for _, n := range []int{10, 3_000} {
		synctest.Test(t, func(t *testing.T) {
			c, store := many(n, Options{FullRequests: 200})
			c.Start()
			defer c.Close()
			time.Sleep(time.Hour) // all are described
			before := store.asked()
			time.Sleep(24 * time.Hour)
			requests := store.asked() - before
			quietLook := 2 * 2880
			most := 200 + 2880 + quietLook + 100
			says.True(t, requests <= most, "%d sessions: %d requests a day, want at most %d", n, requests, most)
		})
	}
}

// TestLookAtLargeSessions: the more requests it takes to list a running session, the rarer it is listed, but every two
// minutes.
func TestLookAtLargeSessions(t *testing.T) {
	for objects, want := range map[int]int64{500: 120, 5_000: 60 * 6, 12_000: 30 * 13} {
		synctest.Test(t, func(t *testing.T) {
			store, ref := storetest.New(), v16("lab", "session_2000-01-01_00-00-00_000000_1")
			must.OK(t, store.Create(t.Context(), layout.MarkerKey(root, ref), strings.NewReader("")))
			stream := layout.LogKey(root, ref, rayid.Node{1}, "raylet.out")
			for i := range objects {
				must.OK(t, store.Create(t.Context(), layout.ChunkKey(stream, int64(i), layout.Plain), strings.NewReader("x")))
			}
			var pages atomic.Int64
			hooked := &storetest.Hooked{Store: store, Before: storetest.On(storetest.List,
				func(_ context.Context, prefix string) error {
					if strings.HasPrefix(prefix, layout.Prefix(root, ref)) {
						pages.Add(int64(objects/1000) + 1)
					}
					return nil
				})}
			started(t, hooked)
			for i := range 360 { // it grows for an hour
				must.OK(t, store.Create(t.Context(), layout.ChunkKey(stream, int64(objects+i), layout.Plain),
					strings.NewReader("x")))
				time.Sleep(10 * time.Second)
			}
			if n := pages.Load(); n < want*8/10 || n > want*11/10 {
				t.Errorf("%d objects took %d requests in an hour, want about %d", objects, n, want)
			}
		})
	}
}

// TestFullListingFails: new sessions are found meanwhile, and the list says that it may be old.
func TestFullListingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := many(3000, Options{FullRequests: 500}) // 5 requests: each 14 minutes
		c.Start()
		defer c.Close()
		time.Sleep(time.Minute)
		store.mu.Lock()
		store.down = true
		store.mu.Unlock()
		time.Sleep(20 * time.Minute)
		now := time.Now().UTC()
		ref := v16("new", now.Format("session_2006-01-02_15-04-05_000000_1"))
		store.put(layout.RecentKey(root, ref, now))
		time.Sleep(time.Minute)
		l := c.Cached()
		if l.Err == nil || len(entriesOf(l)) != 3001 ||
			!slices.ContainsFunc(entriesOf(l), func(e Entry) bool { return e.Ref == ref }) {
			t.Errorf("%d sessions, error %v", len(entriesOf(l)), l.Err)
		}
		store.mu.Lock()
		store.down = false
		store.mu.Unlock()
		store.put(layout.MarkerKey(root, ref))
		time.Sleep(20 * time.Minute)
		l = c.Cached()
		says.True(t, l.Err == nil && len(entriesOf(l)) == 3001, "%d sessions, error %v", len(entriesOf(l)), l.Err)
	})
}

// TestListedMeanwhile: what was listed or described while somebody waited for it is in the list, however lately
// somebody asked for the list.
func TestListedMeanwhile(t *testing.T) {
	store := &markerStore{}
	c := open(store)
	put := func(i int) layout.Session {
		ref := v16("lab", fmt.Sprintf("session_2026-11-20_23-19-45_581717_%d", i))
		store.put(layout.MarkerKey(root, ref))
		return ref
	}
	count := func() int { return len(entriesOf(c.Cached())) }
	n := count()
	must.True(t, n == 0, "%d sessions at first", n)
	put(1)
	err := c.Refresh(t.Context())
	says.True(t, err == nil && count() == 1, "after a listing of all: %d, %v", count(), err)
	store.put(layout.RecentKey(root, put(2), time.Now()))
	err = c.refresh(t.Context(), false)
	says.True(t, err == nil && count() == 2, "after a listing of recent sessions: %d, %v", count(), err)
	c.describeAll(t.Context())
	for _, e := range entriesOf(c.Cached()) {
		says.True(t, e.Described, "after describing all, %s is not described", e.Ref)
	}
}
