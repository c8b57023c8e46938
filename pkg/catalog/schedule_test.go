package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// slowStore has sessions whose objects take a second to list, of which some are written all the time.
type slowStore struct {
	blob.Reader // nothing is read

	mu      sync.Mutex
	markers []layout.Session
	growing map[layout.Session]bool
	looks   map[layout.Session]int
	order   []layout.Session // of first looks
	at      int              // looks at the moment
	most    int
	fails   error // of listing a session's objects
}

func (s *slowStore) store(ref layout.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markers = append(s.markers, ref)
}

func (s *slowStore) looked(ref layout.Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks[ref]
}

func (s *slowStore) List(_ context.Context, prefix string, _ blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, ref := range s.markers {
			if key := layout.MarkerKey(root, ref); strings.HasPrefix(key, prefix) {
				yield(blob.Object{Key: key, ModTime: time.Now().Add(-time.Hour)}, nil)
			}
			if layout.Prefix(root, ref) != prefix {
				continue
			}
			if s.looks[ref]++; s.looks[ref] == 1 {
				s.order = append(s.order, ref)
			}
			s.at++
			s.most = max(s.most, s.at)
			s.mu.Unlock()
			time.Sleep(time.Second)
			s.mu.Lock()
			s.at--
			age := time.Hour
			if s.growing[ref] {
				age = 0
			}
			yield(blob.Object{Key: layout.LogKey(root, ref, rayid.Node{1}, "x"), Size: 1, ModTime: time.Now().Add(-age)}, s.fails)
			return
		}
	}
}

// TestMarkersDoNotWaitForLooks: after a restart over thousands of sessions a new one is the latest within one listing
// of the markers, the newest are looked at first, those that grow are looked at again meanwhile, and all are at last.
func TestMarkersDoNotWaitForLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 3000
		session := func(n int) layout.Session {
			return v16("lab", fmt.Sprintf("session_1999-11-20_%02d-%02d-00_000000_1", n/60, n%60))
		}
		store := &slowStore{looks: map[layout.Session]int{}}
		for n := range sessions {
			at := time.Date(1998, 1, 1, 0, n, 0, 0, time.UTC)
			store.store(v16("old", "session_"+at.Format("2006-01-02_15-04-05")+"_000000_1"))
		}
		grows := session(0)
		store.growing = map[layout.Session]bool{grows: true}
		store.store(grows)
		c := started(t, store)
		latest := func() Entry {
			t.Helper()
			e := must.Get(c.Find(t.Context(), Selector{Namespace: "default", Name: "lab", Session: Latest}))(t)
			return e
		}
		time.Sleep(5 * time.Second)
		if e := latest(); e.Ref != grows || !e.Described {
			t.Errorf("after 5 s the latest is %s, described %v", e.Ref, e.Described)
		}
		store.store(session(1))
		time.Sleep(c.opts.Interval + 2*time.Second)
		if e := latest(); e.Ref != session(1) || !e.Described {
			t.Errorf("one listing later the latest is %s, described %v", e.Ref, e.Described)
		}
		asked := v16("old", "session_1998-01-01_00-00-00_000000_1") // the oldest
		says.True(t, c.Growing(asked, time.Now()), "a session that was not looked at may have grown")
		time.Sleep(3 * time.Second)
		says.True(t, !c.Growing(asked, time.Now()),
			"a session that is used is not looked at before those that nobody asked for")
		time.Sleep(2 * time.Minute)
		if n := store.looked(grows); n < 4 {
			t.Errorf("a session that grows was looked at %d times in two and a half minutes", n)
		}
		time.Sleep(sessions / maxReads * time.Second)
		for _, e := range entriesOf(c.Cached()) {
			must.True(t, e.Described, "%s was not looked at", e.Ref)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		says.True(t, store.most <= maxReads, "%d looks at a time", store.most)
		old := slices.DeleteFunc(store.order, func(ref layout.Session) bool {
			return ref.Cluster != "old" || ref == asked
		})
		for i := range old[maxReads:] {
			must.True(t, old[i].Name >= old[i+maxReads].Name, "%s was looked at before %s", old[i], old[i+maxReads])
		}
	})
}

// TestFailedLookRests: a session that cannot be looked at is tried again, but not in front of all others at once.
func TestFailedLookRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{looks: map[layout.Session]int{}, fails: errors.New("connection reset")}
		ref := v16("lab", "session_2026-11-20_00-00-00_000000_1")
		store.store(ref)
		c := started(t, store)
		time.Sleep(10 * time.Second)
		c.Growing(ref, time.Now())
		time.Sleep(10 * time.Second)
		n := store.looked(ref)
		says.True(t, n == 1, "looked %d times at a session that cannot be read", n)
		time.Sleep(2 * c.opts.Interval)
		if n := store.looked(ref); n < 2 || n > 3 {
			t.Errorf("looked %d times in %s at a session that cannot be read", n, 20*time.Second+2*c.opts.Interval)
		}
	})
}

// TestClockThatIsSetBack: a session that runs is looked at again all the same.
func TestClockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{looks: map[layout.Session]int{}}
		ref := v16("lab", "session_2026-11-20_00-00-00_000000_1")
		store.store(ref)
		store.growing = map[layout.Session]bool{ref: true}
		c := started(t, store)
		time.Sleep(5 * time.Second)
		c.mu.Lock()
		known, _ := c.table.get(ref)
		before := *known.facts
		before.Seen = time.Now().Add(24 * time.Hour) // by a clock that was a day ahead
		c.table.put(ref, session{known.marked, known.took, &before})
		c.mu.Unlock()
		time.Sleep(2 * c.opts.Interval)
		n := store.looked(ref)
		says.True(t, n >= 2, "looked %d times in %s at a session that runs", n, 5*time.Second+2*c.opts.Interval)
	})
}

// TestLongestUnreadFirst: with more running sessions than are planned at a time, the one that was read longest ago
// comes first wherever it is in the list.
func TestLongestUnreadFirst(t *testing.T) {
	c := open(&slowStore{})
	now := time.Now()
	var oldest layout.Session // the last of the list, which begins with the newest
	for n := range maxPlanned + 1 {
		ref := v16("lab", "session_"+now.Add(-time.Duration(n)*time.Second).Format("2006-01-02_15-04-05")+"_000000_1")
		readAt := now.Add(-time.Minute - time.Duration(n)*time.Millisecond)
		oldest = ref
		c.table.put(ref, session{marked: readAt, facts: &packs.Facts{Seen: readAt, LastWrite: readAt,
			Start: now.Add(-time.Duration(n) * time.Second), Summary: Summary{Objects: 1}}})
	}
	c.schedule.reset()
	next, ok := c.nextDue()
	says.True(t, ok && next == oldest, "%s is read next, want %s", next, oldest)
}

// TestNamespacesInTurns: however many new sessions one namespace has, those of others are read soon.
func TestNamespacesInTurns(t *testing.T) {
	c := open(&slowStore{})
	now := time.Now()
	put := func(namespace string, age time.Duration) layout.Session {
		ref := layout.Session{Namespace: namespace, Cluster: "lab",
			Name: "session_" + now.Add(-age).Format("2006-01-02_15-04-05") + "_000000_1"}
		c.table.put(ref, session{marked: now})
		return ref
	}
	var want []layout.Session
	for n := range maxPlanned + 1 {
		if ref := put("flood", time.Duration(n)*time.Second); n < 2 {
			want = append(want, ref)
		}
	}
	newer, older := put("team", 24*time.Hour), put("team", 48*time.Hour)
	want = []layout.Session{want[0], newer, want[1], older}
	c.schedule.reset()
	for i, ref := range want {
		next, ok := c.nextDue()
		says.True(t, ok && next == ref, "%s is read as number %d, want %s", next, i, ref)
	}
}
