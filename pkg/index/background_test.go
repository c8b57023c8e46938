package index

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/turns"
)

// TestBackgroundTakesTurns: a session whose data takes for ever keeps others waiting for its turn only, and ends at last though nobody waits.
func TestBackgroundTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logrus.New()
		log.SetOutput(io.Discard)
		b := NewBackground(nil, nil, nil, log, prometheus.NewRegistry())
		defer b.Close()
		ended := make(map[string]time.Duration)
		cause := make(map[string]error)
		began := time.Now()
		work := func(namespace string, takes time.Duration) {
			b.done.Go(func() {
				b.turn(namespace, func(ctx context.Context) {
					select {
					case <-time.After(takes):
					case <-ctx.Done():
					}
					ended[namespace], cause[namespace] = time.Since(began), context.Cause(ctx)
				})
			})
			synctest.Wait()
		}
		work("a", 1000*time.Hour)
		time.Sleep(time.Second)
		work("b", time.Second)
		time.Sleep(time.Hour)
		if cause["a"] != turns.ErrEnded || ended["b"] != turnTime+time.Second || cause["b"] != nil {
			t.Errorf("%v %v", ended, cause)
		}
		began = time.Now()
		work("a", 1000*time.Hour)
		time.Sleep(time.Hour)
		if cause["a"] != errTime || ended["a"] != maxTime {
			t.Errorf("%v %v", ended, cause)
		}
	})
}
