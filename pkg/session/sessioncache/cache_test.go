package sessioncache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// stubSession is as large as it says.
type stubSession struct {
	ref    layout.Session
	bytes  int64
	broken bool
	spare  int64 // of bytes, that Shrink lets go of
}

func (s *stubSession) Shrink() { s.bytes, s.spare = s.bytes-s.spare, 0 }

func (s *stubSession) MemoryBytes() int64 { return s.bytes }
func (s *stubSession) Broken() bool       { return s.broken }

// stubLoader loads stubSessions, each in a second of the test's clock.
type stubLoader struct {
	mu           sync.Mutex
	begun        map[layout.Session]int
	running      int
	most         int // that ran at a time
	bytes        int64
	growing      bool
	err          error
	panics       bool
	roomy        []bool // what loads that hold as much as their session were told
	refreshTakes time.Duration

	log logrustest.Hook

	grow       int64 // bytes that each refresh adds
	refreshErr error
	refreshes  int
}

func (l *stubLoader) refresh(_ context.Context, s *stubSession) (*stubSession, error) {
	l.refreshes++
	time.Sleep(l.refreshTakes)
	if l.refreshErr != nil || l.grow == 0 {
		return s, l.refreshErr
	}
	return &stubSession{ref: s.ref, bytes: s.bytes + l.grow}, nil
}

func (l *stubLoader) load(ctx context.Context, ref layout.Session, p *progress.Counter,
	reserve func(int64) bool) (*stubSession, error) {
	p.BytesDone.Store(1)
	p.BytesTotal.Store(2)
	l.mu.Lock()
	l.begun[ref]++
	l.running++
	l.most = max(l.most, l.running)
	err, panics := l.err, l.panics
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.running--
		l.mu.Unlock()
	}()
	fits := reserve(l.bytes)
	l.mu.Lock()
	l.roomy = append(l.roomy, fits)
	l.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if panics {
		panic("damaged")
	}
	if err != nil {
		return nil, err
	}
	return &stubSession{ref: ref, bytes: l.bytes}, nil
}

func ref(n int) layout.Session {
	return layout.Session{Namespace: "default", Cluster: "lab", Name: fmt.Sprintf("session_%d", n)}
}

// run gives a test a cache within a synctest bubble.
func run(t *testing.T, maxBytes int64, test func(t *testing.T, c *Cache[*stubSession], l *stubLoader)) {
	synctest.Test(t, func(t *testing.T) {
		log := silent.Logger()
		l := &stubLoader{begun: make(map[layout.Session]int), bytes: 10}
		log.AddHook(&l.log)
		c := New(Options[*stubSession]{
			Load: l.load, Refresh: l.refresh, Growing: func(layout.Session, time.Time) bool { return l.growing },
			MaxBytes: maxBytes, MaxLoads: 2, Log: log, Registerer: prometheus.NewRegistry(),
		})
		defer c.Close()
		test(t, c, l)
	})
}

func get(t *testing.T, c *Cache[*stubSession], r layout.Session) (*stubSession, func()) {
	t.Helper()
	s, release, err := c.Get(t.Context(), r)
	must.OK(t, err)
	return s, release
}

func TestOneLoadForAllWhoWait(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		var wg sync.WaitGroup
		sessions := make([]*stubSession, 50)
		for i := range sessions {
			wg.Go(func() {
				s, release, err := c.Get(t.Context(), ref(1))
				if err != nil {
					t.Error(err)
					return
				}
				sessions[i] = s
				release()
				release() // twice is once
			})
		}
		synctest.Wait()
		if s := c.Status(ref(1)); s.State != Loading || s.Progress.BytesTotal != 2 || len(c.PendingLoads()) != 1 {
			t.Errorf("while loading: %+v", s)
		}
		wg.Wait()
		for _, s := range sessions {
			must.True(t, s == sessions[0], "two sessions were loaded")
		}
		if s, ok := c.Peek(ref(1)); !ok || s != sessions[0] {
			t.Error("the session is not there")
		}
		_, ok := c.Peek(ref(2))
		says.True(t, !ok, "a session is there that nobody asked for")
		if l.begun[ref(1)] != 1 || c.Status(ref(1)).State != Ready {
			t.Errorf("loads %d, %+v", l.begun[ref(1)], c.Status(ref(1)))
		}
	})
}

func TestConcurrentLoadsAreBounded(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		for i := range 6 {
			c.Begin(ref(i))
		}
		synctest.Wait()
		queued := 0
		for _, s := range c.PendingLoads() {
			if s.State == Queued {
				queued++
			}
		}
		says.Equal(t, queued, 4, "wait")
		time.Sleep(10 * time.Second)
		u := c.usage()
		says.True(t, u == (usage{sessions: 6, bytes: 60}) && l.most == 2, "%+v, at most %d at a time", u, l.most)
	})
}

func TestEvictsWhatIsUnusedForLongest(t *testing.T) {
	run(t, 25, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		_, keep := get(t, c, ref(0)) // in use all the time
		for i := 1; i <= 3; i++ {
			_, release := get(t, c, ref(i))
			release()
		}
		for i, want := range []State{Ready, Absent, Absent, Ready} {
			says.Equal(t, c.Status(ref(i)).State, want, "session %d", i)
		}
		keep()
		_, release := get(t, c, ref(1)) // loads again
		release()
		if l.begun[ref(1)] != 2 || c.Status(ref(0)).State != Absent {
			t.Errorf("loads %d, session 0 is %s", l.begun[ref(1)], c.Status(ref(0)).State)
		}
	})
}

func TestSessionLargerThanTheBoundStaysWhileUsedLast(t *testing.T) {
	run(t, 5, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		for range 3 {
			_, release := get(t, c, ref(0))
			release()
		}
		if l.begun[ref(0)] != 1 {
			t.Errorf("loaded %d times", l.begun[ref(0)])
		}
		_, release := get(t, c, ref(1))
		release()
		u := c.usage()
		says.True(t, u == (usage{sessions: 1, bytes: 10}) && c.Status(ref(0)).State == Absent, "%+v", u)
	})
}

func TestGrowthWhileInUseCounts(t *testing.T) {
	run(t, 25, func(t *testing.T, c *Cache[*stubSession], _ *stubLoader) {
		_, release := get(t, c, ref(0))
		release()
		s, release := get(t, c, ref(1))
		s.bytes = 20
		release()
		says.Equal(t, c.usage(), (usage{sessions: 1, bytes: 20}))
	})
}

func TestLoadGoesOnForAWhileWithoutWaiters(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err := c.Get(ctx, ref(0))
		must.True(t, errors.Is(err, context.DeadlineExceeded), "impatient caller: %v", err)
		time.Sleep(time.Second)
		s := c.Status(ref(0))
		says.True(t, s.State == Ready, "%+v", s)
	})
}

func TestLoadThatNobodyWaitsForIsCancelled(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		c.opts.Linger = 100 * time.Millisecond
		c.Begin(ref(0))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		says.True(t, c.Status(ref(0)).State == Absent && l.running == 0, "%+v, %d running", c.Status(ref(0)), l.running)
		for _, entry := range l.log.AllEntries() {
			says.True(t, entry.Level > logrus.WarnLevel, "%s: %q, but nothing is wrong", entry.Level, entry.Message)
		}
		_, release := get(t, c, ref(0)) // is not told of the cancellation
		release()
		says.Equal(t, l.begun[ref(0)], 2, "loads")
	})
}

func TestFailedLoadIsRememberedForAMoment(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		l.err = errors.New("connection reset")
		for range 3 {
			_, _, err := c.Get(t.Context(), ref(0))
			must.True(t, errors.Is(err, l.err), err)
		}
		if s := c.Status(ref(0)); l.begun[ref(0)] != 1 || s.State != Failed || !errors.Is(s.Err, l.err) {
			t.Errorf("loads %d, %+v", l.begun[ref(0)], s)
		}
		time.Sleep(failedFor + time.Millisecond)
		synctest.Wait()
		l.err = nil
		_, release := get(t, c, ref(0))
		release()
	})
}

func TestPanicOfALoadIsItsError(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		l.panics = true
		_, _, err := c.Get(t.Context(), ref(0))
		must.True(t, errors.Is(err, ErrPanic), err)
		l.panics = false
		_, release := get(t, c, ref(1)) // the slot was given back
		release()
	})
}

func TestGrowingSessionIsRefreshedNowAndThen(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		l.growing = true
		s, release := get(t, c, ref(0))
		release()
		l.grow = 5
		for range 4 {
			_, release := get(t, c, ref(0))
			release()
			time.Sleep(time.Second)
		}
		grown, release := get(t, c, ref(0))
		release()
		if bytes := c.usage().bytes; l.refreshes != 1 || bytes != 15 || s.bytes != 10 || grown.bytes != 15 {
			t.Errorf("%d refreshes, %d bytes", l.refreshes, bytes)
		}
		l.refreshErr = errors.New("connection reset")
		time.Sleep(3 * time.Second)
		if same, release := get(t, c, ref(0)); same != grown {
			t.Error("a session that could not be refreshed was replaced")
		} else {
			release()
		}
		l.growing = false
		before := l.refreshes
		time.Sleep(10 * time.Second)
		_, release = get(t, c, ref(0))
		release()
		says.Equal(t, l.refreshes, before, "an ended session was refreshed")
	})
}

// TestLongRefreshHoldsNobodyUp: the session is answered from as it was, until the refresh is through.
func TestLongRefreshHoldsNobodyUp(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		_, release := get(t, c, ref(0))
		release()
		time.Sleep(10 * time.Second)
		l.growing, l.grow, l.refreshTakes = true, 5, time.Minute
		began := time.Now()
		s, release := get(t, c, ref(0))
		release()
		waited := time.Since(began)
		says.True(t, s.bytes == 10 && waited <= 2*time.Second, "%d bytes after %s", s.bytes, waited)
		time.Sleep(time.Minute)
		s, release = get(t, c, ref(0))
		release()
		says.Equal(t, s.bytes, 15, "bytes after refreshes")
		says.Equal(t, l.refreshes, 1, "bytes after refreshes")
	})
}

// TestRefreshesTakeATenthOfTheTime: what takes long is done less often.
func TestRefreshesTakeATenthOfTheTime(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		l.growing, l.refreshTakes = true, 2*time.Second
		for range 120 {
			_, release := get(t, c, ref(0))
			release()
			time.Sleep(time.Second)
		}
		says.True(t, l.refreshes >= 4 && l.refreshes <= 6, "%d refreshes of 2 s in two minutes", l.refreshes)
	})
}

// TestGrowthIsMeasuredAtOnce: what a session comes to hold while it is used counts before it is released. Others that
// nobody uses go, and where that is not enough those in use shrink.
func TestGrowthIsMeasuredAtOnce(t *testing.T) {
	run(t, 30, func(t *testing.T, c *Cache[*stubSession], _ *stubLoader) {
		_, release := get(t, c, ref(0))
		release()
		used, release := get(t, c, ref(1))
		defer release()
		used.bytes, used.spare = 25, 15
		c.Measure(ref(1))
		if u := c.usage(); u.bytes != 25 || u.sessions != 1 || used.spare == 0 {
			t.Errorf("%+v: want the one that nobody uses gone, and no more", u)
		}
		other, releaseOther := get(t, c, ref(2))
		defer releaseOther()
		other.bytes = 15
		c.Measure(ref(2))
		if u := c.usage(); u.bytes != 25 || u.sessions != 2 || used.spare != 0 {
			t.Errorf("%+v, %d to spare: want the one in use shrunk", u, used.spare)
		}
		c.Measure(ref(3)) // one that is not there
	})
}

// TestLoadsCount: what loads under way hold counts, before sessions that nobody uses; three quarters are for them.
func TestLoadsCount(t *testing.T) {
	run(t, 40, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		_, release := get(t, c, ref(0)) // 10 bytes of 30
		release()
		c.Begin(ref(1))
		c.Begin(ref(2))
		synctest.Wait()
		u := c.usage()
		says.True(t, u.loadingBytes == 20 && u.bytes == 10, "%+v while two are loaded", u)
		time.Sleep(2 * time.Second)
		u = c.usage()
		says.True(t, u.loadingBytes == 0 && u.bytes == 30, "%+v after three were loaded", u)
		c.Begin(ref(3)) // one of those that nobody uses goes
		synctest.Wait()
		u = c.usage()
		says.True(t, u.loadingBytes == 10 && u.bytes == 20, "%+v while a fourth is loaded", u)
		time.Sleep(2 * time.Second)
		_, releaseUsed := get(t, c, ref(3))
		l.bytes = 25
		c.Begin(ref(4)) // all but the one in use go, and still there is too little room
		synctest.Wait()
		u = c.usage()
		says.True(t, u.loadingBytes == 25 && u.bytes == 10, "%+v while a large one is loaded", u)
		releaseUsed()
		says.EqualSlices(t, l.roomy, []bool{true, true, true, true, false}, "room for loads")
	})
}

func TestCloseEndsLoads(t *testing.T) {
	run(t, 100, func(t *testing.T, c *Cache[*stubSession], l *stubLoader) {
		result := make(chan error, 1)
		go func() {
			_, _, err := c.Get(t.Context(), ref(0))
			result <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-result; !errors.Is(err, ErrClosed) || l.running != 0 {
			t.Errorf("%v, %d running", err, l.running)
		}
	})
}
