package index

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestBackgroundTakesTurns: a session whose data takes for ever keeps others waiting for its turn only, and ends at
// last though nobody waits.
func TestBackgroundTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBackground(&Writer{Opener: &Opener{Log: silent.Logger()}}, prometheus.NewRegistry())
		defer b.Close()
		ended := make(map[string]time.Duration)
		cause := make(map[string]error)
		began := time.Now()
		work := func(namespace string, takes time.Duration) {
			b.enqueue(layout.Session{Namespace: namespace}, func(ctx context.Context) {
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				ended[namespace], cause[namespace] = time.Since(began), context.Cause(ctx)
			})
			synctest.Wait()
		}
		work("a", 1000*time.Hour)
		time.Sleep(time.Second)
		synctest.Wait()
		work("b", time.Second)
		time.Sleep(time.Hour)
		synctest.Wait()
		if cause["a"] != turns.ErrEnded || ended["b"] != turnTime+time.Second || cause["b"] != nil {
			t.Errorf("%v %v", ended, cause)
		}
		began = time.Now()
		work("a", 1000*time.Hour)
		time.Sleep(time.Hour)
		synctest.Wait()
		if cause["a"] != errTime || ended["a"] != maxTime {
			t.Errorf("%v %v", ended, cause)
		}
	})
}

// TestBackgroundQueue: what is offered while another session is worked on is done afterwards, the latest of each
// session.
func TestBackgroundQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBackground(&Writer{Opener: &Opener{Log: silent.Logger()}}, prometheus.NewRegistry())
		defer b.Close()
		var done []string
		offer := func(name, what string) {
			b.enqueue(layout.Session{Namespace: "a", Name: name}, func(context.Context) {
				time.Sleep(time.Second)
				done = append(done, what)
			})
			synctest.Wait()
		}
		offer("first", "first")
		for _, what := range []string{"old", "new"} {
			offer("second", what)
			offer("first", "first, "+what)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		says.EqualSlices(t, done, []string{"first", "new", "first, new"}, "done")
		if len(b.waiting) > 0 {
			t.Errorf("%d wait", len(b.waiting))
		}
		offer("first", "once more")
		time.Sleep(time.Hour)
		synctest.Wait()
		if done[len(done)-1] != "once more" {
			t.Errorf("%q", done)
		}
	})
}
