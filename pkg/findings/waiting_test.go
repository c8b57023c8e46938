package findings_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

// TestWaitingForARunningSession: the wait for the findings of a running session is bounded, although more of it is
// stored meanwhile. Whose wait ends gets the last ones; who goes on waiting gets those that are being computed.
func TestWaitingForARunningSession(t *testing.T) {
	store, ref := recorded(t, "child_oom137")
	var gate atomic.Pointer[chan struct{}]
	shut := func() (open func()) {
		closed := make(chan struct{})
		gate.Store(&closed)
		return func() { close(closed) }
	}
	slow := &storetest.Hooked{Store: store, Before: func(ctx context.Context, op storetest.Op, key string) error {
		if op == storetest.Get && strings.Contains(key, "/logs/") {
			select {
			case <-*gate.Load():
			case <-ctx.Done():
			}
		}
		return context.Cause(ctx)
	}}
	env, reader := moment.NewEnv(silent.Logger(), nil), findings.Reader{}
	read := func(s *session.Session, wait time.Duration) (*findings.Report, error) {
		ctx, cancel := findings.Within(t.Context(), wait)
		defer cancel()
		return reader.Read(ctx, &moment.Moment{Env: env, Session: s, Running: func(context.Context) bool { return true }})
	}
	open := shut()
	s := loadFrom(t, slow, ref, nil)
	_, err := read(s, time.Millisecond)
	says.ErrorIs(t, err, shared.ErrWaited)
	grow := func(name string) {
		key := layout.LogKey(layout.DefaultRoot, ref, s.Logs.Nodes()[0], name)
		must.OK(t, store.Create(t.Context(), key, strings.NewReader("a line\n")))
		s = must.Get(s.Refresh(t.Context()))(t)
	}
	grow("more.log")
	open()
	first := must.Get(read(s, 0))(t)
	open = shut()
	grow("still-more.log")
	if got, err := read(s, time.Millisecond); got != first {
		t.Errorf("while the next ones are computed: %v, %v; want the last ones", got, err)
	}
	open()
	if got := must.Get(read(s, 0))(t); got == first || got.Outcome != first.Outcome {
		t.Error("the findings are not computed again")
	}
}
