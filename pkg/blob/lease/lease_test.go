package lease

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

func newStore(t *testing.T) (*local.Store, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := local.Open(dir)
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store, dir
}

// hooked calls a function after each Stat.
type hooked struct {
	blob.Store
	stated func()
}

func (h hooked) Stat(ctx context.Context, key string) (blob.Object, error) {
	o, err := h.Store.Stat(ctx, key)
	h.stated()
	return o, err
}

// TestOneTakesOver: of two that find the same expired lease only one gets it, whenever the other one comes between.
func TestOneTakesOver(t *testing.T) {
	for after := range 3 {
		store, dir := newStore(t)
		must.OK(t, store.Create(t.Context(), Key("log", ref), strings.NewReader("a dead holder")))
		past := time.Now().Add(-2 * Timeout)
		must.OK(t, os.Chtimes(filepath.Join(dir, Key("log", ref)), past, past))
		var other *lease
		stats := 0
		first := hooked{store, func() {
			if stats++; stats == after+1 {
				if _, l, err := acquire(t.Context(), store, Key("log", ref), Timeout); err == nil {
					other = l
				} else if !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
		}}
		_, l, err := acquire(t.Context(), first, Key("log", ref), Timeout)
		if (err == nil) == (other != nil) || err != nil && !errors.Is(err, ErrBusy) {
			t.Fatalf("another after %d looks: it has the lease: %v; the first one: %v", after, other != nil, err)
		}
		if other != nil {
			l = other
		}
		if err := l.release(); err != nil {
			t.Error(err)
		}
		for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
			t.Errorf("left is %s, %v", o.Key, err)
		}
	}
}

// slowClock is a store whose clock is behind this machine's.
type slowClock struct{ blob.Store }

func (s slowClock) Stat(ctx context.Context, key string) (blob.Object, error) {
	o, err := s.Store.Stat(ctx, key)
	o.ModTime = o.ModTime.Add(-2 * Timeout)
	return o, err
}

// TestClockAhead: to a machine whose clock is ahead every lease has expired. It takes none of a holder that is at work.
func TestClockAhead(t *testing.T) {
	store, _ := newStore(t)
	err := Do(t.Context(), store, "log", ref, func(ctx context.Context) error {
		err := Do(ctx, slowClock{store}, "log", ref, func(context.Context) error { return nil })
		if !errors.Is(err, ErrBusy) {
			t.Errorf("the other command: %v, want ErrBusy", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
		t.Errorf("left is %s, %v", o.Key, err)
	}
}

// hanging is a store that does not answer.
type hanging struct{ blob.Store }

func (hanging) Get(ctx context.Context, _ string, _, _ int64) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestRenewalThatHangs: a holder gives up before others may take its lease.
func TestRenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := newStore(t)
		_ = Do(t.Context(), hanging{store}, "log", ref, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), ErrLost) {
					t.Error(context.Cause(ctx))
				}
			case <-time.After(Timeout - time.Second):
				t.Error("it goes on working")
			}
			return nil
		})
	})
}
