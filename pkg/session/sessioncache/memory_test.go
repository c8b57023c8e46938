package sessioncache

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// eventStore holds sessions of tasks, an event each, which it makes up while they are read.
type eventStore struct {
	blob.Reader
	tasks int
	// reading is held by those who read, block by block: who locks it stops all loads.
	reading sync.RWMutex
	// half, if set, is called when half of a session was read.
	half func(ctx context.Context)
}

// eventLine is the event of the n-th task; all are of the same length.
func eventLine(n int) string {
	var id rayid.Task
	binary.BigEndian.PutUint64(id[:], uint64(n+1)*0x9e3779b97f4a7c15) // zeros are no ID
	return `{"eventId":"AA==","taskLifecycleEvent":{"taskId":"` + base64.StdEncoding.EncodeToString(id[:]) +
		`","stateTransitions":[{"state":"RUNNING","timestamp":"2026-11-20T23:00:00Z"}],"jobId":"AgAAAA==","taskAttempt":0}}` + "\n"
}

func (s *eventStore) List(_ context.Context, prefix string, _ blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		yield(blob.Object{Key: prefix + "node_events/" + rayid.Node{1}.String() + "-2026-11-20-23",
			Size: int64(s.tasks * len(eventLine(0)))}, nil)
	}
}

// Get gives whole objects: sessions are too small to be read in parts.
func (s *eventStore) Get(ctx context.Context, _ string, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(&eventReader{ctx: ctx, store: s}), nil
}

type eventReader struct {
	ctx   context.Context
	store *eventStore
	next  int
	line  string
}

func (r *eventReader) Read(p []byte) (n int, err error) {
	r.store.reading.RLock()
	defer r.store.reading.RUnlock()
	for n < len(p) {
		if r.line == "" {
			if r.next == r.store.tasks {
				return n, io.EOF
			}
			if r.next == r.store.tasks/2 && r.store.half != nil {
				r.store.half(r.ctx)
			}
			if r.ctx.Err() != nil {
				return n, r.ctx.Err()
			}
			r.line = eventLine(r.next)
			r.next++
		}
		copied := copy(p[n:], r.line)
		n, r.line = n+copied, r.line[copied:]
	}
	return n, nil
}

func sessionsOf(store *eventStore, maxBytes int64, maxLoads int, linger time.Duration) *Cache[*session.Session] {
	log := silent.Logger()
	return New(Options[*session.Session]{
		Load: func(ctx context.Context, ref layout.Session, _ *progress.Counter,
			reserve func(int64) bool) (*session.Session, error) {
			return session.Load(ctx, store, layout.DefaultRoot, ref, session.Options{Reserve: reserve, Log: log})
		},
		Refresh:  func(_ context.Context, s *session.Session) (*session.Session, error) { return s, nil },
		Growing:  func(layout.Session, time.Time) bool { return false },
		MaxBytes: maxBytes, MaxLoads: maxLoads, Linger: linger, Log: log, Registerer: prometheus.NewRegistry(),
	})
}

// liveBytes is what is in use.
func liveBytes() int64 {
	runtime.GC()
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestConcurrentLoadsKeepWithinTheCap: sessions that together are several times as large as the cap are loaded at the
// same time, and all of them answer.
func TestConcurrentLoadsKeepWithinTheCap(t *testing.T) {
	const sessions, tasks, maxBytes = 3, 90_000, 24 << 20
	t.Setenv("TMPDIR", t.TempDir())
	store := &eventStore{tasks: tasks}
	alone := must.Get(session.Load(t.Context(), store, layout.DefaultRoot, ref(0), session.Options{}))(t)
	all := sessions * alone.MemoryBytes()
	must.True(t, all >= 3*maxBytes/2, "the sessions take %d bytes together, which shows nothing", all)
	alone = nil
	base := liveBytes()
	var most int64
	watched := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-watched:
				return
			case <-time.After(50 * time.Millisecond):
			}
			store.reading.Lock() // what is allocated while garbage is collected would count as well
			most = max(most, liveBytes()-base)
			store.reading.Unlock()
		}
	})
	c := sessionsOf(store, maxBytes, sessions, 0)
	defer c.Close()
	var users sync.WaitGroup
	for n := range sessions {
		users.Go(func() {
			s, release, err := c.Get(t.Context(), ref(n))
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			says.Equal(t, s.Tasks.Len(), tasks, "session %d: tasks", n)
		})
	}
	users.Wait()
	close(watched)
	watch.Wait()
	t.Logf("%.1f MiB in use at most, of %d MiB that may be", float64(most)/(1<<20), maxBytes>>20)
	says.True(t, most != 0 && most <= maxBytes, "%.1f MiB were in use at a time, of %d MiB that may be",
		float64(most)/(1<<20), maxBytes>>20)
	u := c.usage()
	says.True(t, u.loadingBytes == 0, "%+v after all loads", u)
}

// TestLoadsCancelledMidwayLeaveNothing: neither goroutines nor memory.
func TestLoadsCancelledMidwayLeaveNothing(t *testing.T) {
	const sessions = 8
	var halfway sync.WaitGroup
	halfway.Add(sessions)
	store := &eventStore{tasks: 40_000, half: func(ctx context.Context) {
		halfway.Done()
		<-ctx.Done()
	}}
	c := sessionsOf(store, 1<<30, sessions, time.Nanosecond)
	defer c.Close()
	goroutines, base := runtime.NumGoroutine(), liveBytes()
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for n := range sessions {
		users.Go(func() {
			_, _, err := c.Get(ctx, ref(n))
			says.True(t, err != nil, "session %d was loaded", n)
		})
	}
	halfway.Wait()
	if u := c.usage(); u.loading != sessions || u.loadingBytes < sessions<<20 {
		t.Errorf("%+v halfway", u)
	}
	cancel()
	users.Wait()
	state := func() string {
		u := c.usage()
		var left []string
		if u != (usage{}) {
			left = append(left, fmt.Sprintf("%+v", u))
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			left = append(left, fmt.Sprintf("%d goroutines, %d before", n, goroutines))
		}
		if grown := liveBytes() - base; grown > 1<<20 {
			left = append(left, fmt.Sprintf("%d bytes more than before", grown))
		}
		return strings.Join(left, ", ")
	}
	for deadline := time.Now().Add(2 * time.Minute); state() != "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	says.Equal(t, state(), "")
}

// TestAside: a session of background work is not kept and drops none, counts against the memory, may always hold its
// share, and is the one in memory if there is one. What it held is free after an error and a panic, too.
func TestAside(t *testing.T) {
	loads := 0
	c := New(Options[*stubSession]{
		Load: func(_ context.Context, ref layout.Session, _ *progress.Counter, _ func(int64) bool) (*stubSession,
			error) {
			loads++
			return &stubSession{ref: ref, bytes: 700}, nil
		},
		Growing:  func(layout.Session, time.Time) bool { return false },
		MaxBytes: 1600, MaxLoads: 1, Log: logrus.New(), Registerer: prometheus.NewRegistry(),
	})
	defer c.Close()
	kept, other := layout.Session{Name: "kept"}, layout.Session{Name: "other"}
	_, release, err := c.Get(t.Context(), kept)
	must.OK(t, err)
	release()
	var fits []bool
	aside := func(ref layout.Session, bytes int64, fails func() error) (*stubSession, func(), error) {
		return c.Aside(t.Context(), ref, func(_ context.Context, reserve func(int64) bool) (*stubSession, error) {
			fits = append(fits, reserve(bytes))
			return &stubSession{ref: ref, bytes: bytes}, fails()
		})
	}
	fine := func() error { return nil }
	for _, of := range []struct {
		bytes int64
		fits  bool
	}{{500, true}, {501, false}, {100, true}} { // a quarter of 1600 is left free while something loads, and 700 are taken
		fits = nil
		_, release, err := aside(other, of.bytes, fine)
		says.True(t, err == nil && fits[0] == of.fits && c.loading == of.bytes, "%d bytes fit: %v, held are %d, %v",
			of.bytes, fits, c.loading, err)
		release()
		release()
		says.True(t, c.loading == 0 && c.holders == 0, "%d bytes are held after the end by %d", c.loading, c.holders)
	}
	_, ok := c.Peek(kept)
	says.True(t, ok, "a session was dropped")
	_, ok = c.Peek(other)
	says.True(t, !ok, "the session is kept")
	for _, fails := range []func() error{func() error { return errors.New("oh no") }, func() error { panic("oh no") }} {
		if _, _, err := aside(other, 100, fails); err == nil || c.loading != 0 {
			t.Errorf("held are %d, %v", c.loading, err)
		}
	}
	fits = nil
	s, release, err := aside(kept, 1, fine)
	says.True(t, err == nil && s.ref == kept && len(fits) == 0 && loads == 1,
		"the session in memory is not used: %v, %d loads, %v", fits, loads, err)
	release()
	for range 3 { // a share is free whatever others hold
		fits = nil
		c.mu.Lock()
		c.loading += 10_000
		c.mu.Unlock()
		_, release, err := aside(other, 1600/asideShare, fine)
		says.True(t, err == nil && fits[0], "its share is refused: %v", err)
		release()
		c.mu.Lock()
		c.loading -= 10_000
		c.mu.Unlock()
	}
}
