package index

import (
	"context"
	"crypto/rand"
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
		says.True(t, cause["a"] == turns.ErrEnded && ended["b"] == turnTime+time.Second && cause["b"] == nil, "%v %v",
			ended, cause)
		began = time.Now()
		work("a", 1000*time.Hour)
		time.Sleep(time.Hour)
		synctest.Wait()
		says.True(t, cause["a"] == errTime && ended["a"] == maxTime, "%v %v", ended, cause)
	})
}

// TestBackgroundOneNamespace: sessions of one namespace do not end each other's work: what has begun is finished first.
func TestBackgroundOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBackground(&Writer{Opener: &Opener{Log: silent.Logger()}}, prometheus.NewRegistry())
		defer b.Close()
		cause := make(map[string]error)
		for _, name := range []string{"large", "other"} {
			b.enqueue(layout.Session{Namespace: "a", Name: name}, func(ctx context.Context) {
				select {
				case <-time.After(2 * turnTime):
				case <-ctx.Done():
				}
				cause[name] = context.Cause(ctx)
			})
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		says.True(t, len(cause) == 2 && cause["large"] == nil && cause["other"] == nil, "ended by %v", cause)
	})
}

// TestBackgroundQueue: what is offered while another session is worked on is done afterwards, the latest of each
// session, as long as not too many wait.
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
		}
		offer("first", "first")
		synctest.Wait()
		for _, what := range []string{"old", "new"} {
			offer("second", what)
			offer("first", "first, "+what)
		}
		for range 2 * maxQueue {
			offer(rand.Text(), "another")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		says.True(t, len(done) == 1+maxQueue && done[0] == "first" && done[1] == "new" && done[2] == "first, new" &&
			len(b.queues) == 0, "%q, %d queues are left", done, len(b.queues))
		offer("first", "once more")
		time.Sleep(time.Hour)
		synctest.Wait()
		says.Equal(t, done[len(done)-1], "once more", "%q", done)
	})
}
