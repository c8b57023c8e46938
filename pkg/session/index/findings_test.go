package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// keepFindings keeps a session's findings as the server does.
func (s *stored) keepFindings(loaded *session.Session) {
	s.t.Helper()
	d := dashboard.New(dashboard.Options{Log: s.log})
	w := &Writer{Opener: s.opener(), Put: s.store.Put,
		Findings: func(ctx context.Context, s *session.Session, _ io.Reader) ([]byte, error) {
			report, err := d.Findings(ctx, d.MomentAt(s, 0))
			if err != nil {
				return nil, err
			}
			return findings.Encode(s, report, nil)
		}}
	must.OK(s.t, w.KeepFindings(s.t.Context(), loaded, true))
}

// TestFindingsAreKept: the server keeps the findings of a session that has ended, once for each state of it, also of
// one that is too small for an index; of one that runs it does not.
func TestFindingsAreKept(t *testing.T) {
	s := generated(t, 100)
	made := make(chan string, 10)
	w := &Writer{Opener: s.opener(), Put: s.store.Put,
		Findings: func(_ context.Context, s *session.Session, kept io.Reader) ([]byte, error) {
			if kept != nil {
				if text, err := io.ReadAll(kept); err != nil || string(text) == stateOf(s) {
					made <- "nothing"
					return nil, err
				}
			}
			made <- "findings"
			return []byte(stateOf(s)), nil
		}}
	start := func() *Background {
		b := NewBackground(w, prometheus.NewRegistry())
		t.Cleanup(b.Close)
		return b
	}
	b := start()
	// offer returns when nothing waits or is worked on any more: an offer that comes as a session is just done is
	// taken, too, and makes nothing.
	offer := func(b *Background, loaded *session.Session, want string) {
		t.Helper()
		must.Happen(t, "that findings are made", func() bool {
			b.Offer(loaded, true) // again, for a busy background takes no offer
			return len(made) > 0
		})
		must.Happen(t, "that nothing waits", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.queues) == 0
		})
		says.Equal(t, <-made, want, "made")
		for len(made) > 0 {
			says.Equal(t, <-made, "nothing", "made")
		}
	}
	loaded := s.load()
	b.Offer(loaded, false)
	offer(b, loaded, "findings")
	body := must.Get(w.KeptFindings(t.Context(), s.ref, -1))(t)
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	says.True(t, err == nil && string(text) == stateOf(loaded), "%q, %v", text, err)
	says.True(t, b.hasKept(loaded), "what is kept is not known")
	offer(start(), loaded, "nothing")
	s.end()
	offer(b, s.load(), "findings")
}

// TestFindingsInCacheDir: where the store is read-only, findings are kept where indexes are.
func TestFindingsInCacheDir(t *testing.T) {
	s := generated(t, 10)
	opener := s.opener()
	opener.Cache = NewCache(t.TempDir(), 1<<30)
	w := &Writer{Opener: opener, Put: denied{s.store}.Put,
		Findings: func(context.Context, *session.Session, io.Reader) ([]byte, error) { return []byte("kept"), nil }}
	says.ErrorIs(t, says.Err(opener.KeptFindings(t.Context(), s.ref, 2)), os.ErrNotExist,
		"nothing is kept, and reading it gave")
	must.OK(t, w.KeepFindings(t.Context(), s.load(), false))
	body := must.Get(opener.KeptFindings(t.Context(), s.ref, 2))(t)
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	says.True(t, err == nil && string(text) == "ke", "%q, %v", text, err)
}

// TestFindingsThatFail are made again at the next offer, unless they would fail again.
func TestFindingsThatFail(t *testing.T) {
	s := generated(t, 10)
	loaded := s.load()
	key := layout.FindingsKey(layout.DefaultRoot, s.ref)
	ended, end := context.WithCancelCause(t.Context())
	end(turns.ErrEnded)
	for name, tt := range map[string]struct {
		ctx        context.Context
		fail       func() error
		remembered bool
	}{
		"its turn has ended":       {ended, func() error { return ended.Err() }, false},
		"the store did not answer": {t.Context(), func() error { return errors.New("timeout") }, false},
		"they are not whole":       {t.Context(), func() error { return ErrPartial }, false},
		"the store is read-only":   {t.Context(), func() error { return fmt.Errorf("put: %w", blob.ErrPermission) }, true},
		"a panic":                  {t.Context(), func() error { panic("oh no") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			fail := tt.fail
			w := &Writer{Opener: s.opener(), Put: s.store.Put,
				Findings: func(context.Context, *session.Session, io.Reader) ([]byte, error) {
					return []byte("kept"), fail()
				}}
			b := NewBackground(w, prometheus.NewRegistry())
			defer b.Close()
			must.OK(t, s.store.Delete(t.Context(), key))
			err := b.keepFindings(tt.ctx, loaded)
			says.True(t, err != nil && b.hasKept(loaded) == tt.remembered, "%v; remembered: %t", err, b.hasKept(loaded))
			says.ErrorIs(t, says.Err(s.store.Stat(t.Context(), key)), os.ErrNotExist, "something is kept")
			fail = func() error { return nil }
			err = b.keepFindings(t.Context(), loaded)
			says.True(t, err == nil && b.hasKept(loaded), "%v; remembered: %t", err, b.hasKept(loaded))
		})
	}
}

// TestSlowMetrics: an index of metrics that takes all the time keeps no findings from being kept, and is not begun
// again soon.
func TestSlowMetrics(t *testing.T) {
	s := generated(t, minRows)
	loaded := s.load()
	for name, finish := range map[string]func(context.Context, *Background) error{
		"explained": func(ctx context.Context, b *Background) error { return b.Finish(ctx, loaded) },
		"offered": func(_ context.Context, b *Background) error {
			b.Offer(loaded, true)
			b.done.Wait()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			kept := false
			w := &Writer{Opener: s.opener(), Put: s.store.Put,
				Findings: func(ctx context.Context, _ *session.Session, _ io.Reader) ([]byte, error) {
					kept = ctx.Err() == nil
					return []byte("kept"), nil
				},
				Metrics: func(context.Context, layout.Session, bool) error {
					says.True(t, kept, "the metrics are indexed before the findings are kept")
					end(errors.New("it takes too long"))
					return errors.New("it was told to end")
				}}
			b := NewBackground(w, prometheus.NewRegistry())
			defer b.Close()
			if err := finish(ctx, b); err != nil || !b.hasKept(loaded) || b.lacksMetrics(loaded) {
				t.Errorf("%v; kept %t, lacks metrics %t", err, b.hasKept(loaded), b.lacksMetrics(loaded))
			}
		})
	}
}

// TestWrittenAfterErrors: what must happen after something was stored happens, too, if more could not be stored and if
// writing was told to end.
func TestWrittenAfterErrors(t *testing.T) {
	s := generated(t, 10)
	ctx, end := context.WithCancel(t.Context())
	written := 0
	w := &Writer{Opener: s.opener(),
		Put: func(context.Context, string, io.ReadSeeker) error {
			end()
			return context.Canceled
		},
		Metrics: func(ctx context.Context, _ layout.Session, _ bool) error { return ctx.Err() },
		Written: func(ctx context.Context, _ layout.Session) error {
			if ctx.Err() == nil {
				written++
			}
			return nil
		}}
	err := w.Write(ctx, s.load(), nil)
	says.True(t, errors.Is(err, context.Canceled) && written == 1, "index: %v; %d times", err, written)
	err = w.WriteMetrics(ctx, s.ref, false)
	says.True(t, errors.Is(err, context.Canceled) && written == 2, "metrics: %v; %d times", err, written)
}
