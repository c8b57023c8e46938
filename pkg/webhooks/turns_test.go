package webhooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestSlowNamespaceDoesNotDelayOthers: sessions whose data takes for ever to read end with an unknown outcome, one
// after the other, and the sessions of other namespaces are told meanwhile. More sessions than there is room for are no
// obstacle either.
func TestSlowNamespaceDoesNotDelayOthers(t *testing.T) {
	const slow = maxWork + 20
	in, store := calm(t)
	sessions := ended(slow+3, time.Now().Add(-time.Minute))
	for i := range sessions {
		sessions[i].Ref.Namespace = "a"
	}
	others := sessions[slow:] // the newest, so they are found last
	for i := range others {
		others[i].Ref.Namespace = fmt.Sprint("b", i)
	}
	var mu sync.Mutex
	var looked []string
	o := options(store, configOf(in.URL), time.Minute, sessions)
	o.Timing.Turn = time.Second // in which a busy machine, too, sends events
	o.Findings = func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
		mu.Lock()
		looked = append(looked, e.Ref.Namespace)
		mu.Unlock()
		if e.Ref.Namespace == "a" {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return look(ctx, e)
	}
	s := New(o)
	s.Start()
	defer s.Close()
	must.Happen(t, "that the other namespaces' sessions are told", func() bool {
		events, _ := in.counts()
		return events == len(others)*perSession
	})
	mu.Lock()
	defer mu.Unlock()
	if n := len(looked); n > 40 { // some of them while b's were claimed
		t.Errorf("%d looks for %d sessions", n, len(others))
	}
}

// TestSlowSessionIsGivenUp: a session that takes longer than a claim is told with the outcome unknown, though nobody
// else waits.
func TestSlowSessionIsGivenUp(t *testing.T) {
	in, store := calm(t)
	s := replica(store, configOf(in.URL), 200*time.Millisecond, ended(1, time.Now().Add(-time.Minute)))
	s.opts.Findings = func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
		<-ctx.Done()
		return nil, errors.New("some error that says nothing of the context")
	}
	s.runUntil(t, 1)
	if events, _ := in.told(); len(events) != 1 || events[0].Type != SessionEnded {
		t.Errorf("%+v", events)
	}
}
