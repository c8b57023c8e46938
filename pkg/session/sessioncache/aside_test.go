package sessioncache

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/layout"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil || fits[0] != of.fits || c.loading != of.bytes {
			t.Errorf("%d bytes fit: %v, held are %d, %v", of.bytes, fits, c.loading, err)
		}
		release()
		release()
		if c.loading != 0 || c.holders != 0 {
			t.Errorf("%d bytes are held after the end by %d", c.loading, c.holders)
		}
	}
	if _, ok := c.Peek(kept); !ok {
		t.Error("a session was dropped")
	}
	if _, ok := c.Peek(other); ok {
		t.Error("the session is kept")
	}
	for _, fails := range []func() error{func() error { return errors.New("oh no") }, func() error { panic("oh no") }} {
		if _, _, err := aside(other, 100, fails); err == nil || c.loading != 0 {
			t.Errorf("held are %d, %v", c.loading, err)
		}
	}
	fits = nil
	s, release, err := aside(kept, 1, fine)
	if err != nil || s.ref != kept || len(fits) > 0 || loads != 1 {
		t.Errorf("the session in memory is not used: %v, %d loads, %v", fits, loads, err)
	}
	release()
	for range 3 { // a share is free whatever others hold
		fits = nil
		c.mu.Lock()
		c.loading += 10_000
		c.mu.Unlock()
		_, release, err := aside(other, 1600/asideShare, fine)
		if err != nil || !fits[0] {
			t.Errorf("its share is refused: %v", err)
		}
		release()
		c.mu.Lock()
		c.loading -= 10_000
		c.mu.Unlock()
	}
}
