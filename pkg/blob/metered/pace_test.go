package metered

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// TestPaced: with a limiter each request waits for its turn, also each page of a listing; without one none does, and
// none outlives its context.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(storetest.New(), prometheus.NewRegistry())
		for i := range 2*pageObjects + 1 {
			must.OK(t, s.Create(t.Context(), fmt.Sprintf("a/%04d", i), strings.NewReader("x")))
		}
		paced := Paced(t.Context(), rate.NewLimiter(1, 1))
		for name, of := range map[string]struct {
			seconds int
			do      func(ctx context.Context) error
		}{
			"get": {1, func(ctx context.Context) error {
				body, err := s.Get(ctx, "a/0000", 0, -1)
				if err == nil {
					err = body.Close()
				}
				return err
			}},
			"stat":   {1, func(ctx context.Context) error { _, err := s.Stat(ctx, "a/0000"); return err }},
			"put":    {1, func(ctx context.Context) error { return s.Put(ctx, "b", strings.NewReader("x")) }},
			"delete": {1, func(ctx context.Context) error { return s.Delete(ctx, "b") }},
			"a listing of three pages": {3, func(ctx context.Context) error {
				for _, err := range s.List(ctx, "a/", blob.ListOptions{}) {
					if err != nil {
						return err
					}
				}
				return nil
			}},
		} {
			if err := of.do(paced); err != nil { // takes what is free
				t.Fatal(name, err)
			}
			began := time.Now()
			if err := of.do(paced); err != nil || time.Since(began) != time.Duration(of.seconds)*time.Second {
				t.Errorf("%s took %s, want %d s, %v", name, time.Since(began), of.seconds, err)
			}
			began = time.Now()
			if err := of.do(t.Context()); err != nil || time.Since(began) != 0 {
				t.Errorf("%s took %s without a limiter, %v", name, time.Since(began), err)
			}
			ended, cancel := context.WithCancel(paced)
			cancel()
			if err := of.do(ended); err == nil {
				t.Errorf("%s succeeds after its context has ended", name)
			}
		}
	})
}

// TestPacedForOthers: requests of a load that others may join do not wait, but those that come next wait for them, too.
func TestPacedForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(storetest.New(), prometheus.NewRegistry())
		must.OK(t, s.Put(t.Context(), "a", strings.NewReader("x")))
		paced := Paced(t.Context(), rate.NewLimiter(1, 1))
		began := time.Now()
		var v shared.Value[int]
		must.Get(v.Get(paced, func(ctx context.Context) (int, error) {
			for range 3 {
				must.Get(s.Stat(ctx, "a"))(t)
			}
			return 0, nil
		}))(t)
		if took := time.Since(began); took != 0 {
			t.Errorf("others wait %s", took)
		}
		must.Get(s.Stat(paced, "a"))(t)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the next one waits %s, want 3 s: one each", took)
		}
	})
}
