package lease

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

// TestOneTakesOver: of two that find the same expired lease only one gets it, whenever the other one comes between.
func TestOneTakesOver(t *testing.T) {
	for after := range 3 {
		store := storetest.New()
		must.OK(t, store.Create(t.Context(), Key("log", ref), strings.NewReader("a dead holder")))
		store.Written(Key("log", ref), time.Now().Add(-2*Timeout))
		var other *lease
		stats := 0
		first := &storetest.Hooked{Store: store, After: storetest.On(storetest.Stat,
			func(context.Context, string) error {
				if stats++; stats == after+1 {
					if _, l, err := acquire(t.Context(), store, Key("log", ref), Timeout); err == nil {
						other = l
					} else if !errors.Is(err, ErrBusy) {
						t.Error(err)
					}
				}
				return nil
			})}
		_, l, err := acquire(t.Context(), first, Key("log", ref), Timeout)
		must.True(t, (err == nil) != (other != nil) && (err == nil || errors.Is(err, ErrBusy)),
			"another after %d looks: it has the lease: %v; the first one: %v", after, other != nil, err)
		if other != nil {
			l = other
		}
		says.OK(t, l.release())
		for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
			t.Errorf("left is %s, %v", o.Key, err)
		}
	}
}

// TestClockAhead: to a machine whose clock is ahead every lease has expired. It takes none of a holder that is at work.
func TestClockAhead(t *testing.T) {
	store := storetest.New()
	behind := &storetest.Hooked{Store: store, Object: func(o *blob.Object) { o.ModTime = o.ModTime.Add(-2 * Timeout) }}
	err := Do(t.Context(), store, "log", ref, func(ctx context.Context) error {
		err := Do(ctx, behind, "log", ref, func(context.Context) error { return nil })
		says.ErrorIs(t, err, ErrBusy, "the other command")
		return nil
	})
	says.OK(t, err)
	for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
		t.Errorf("left is %s, %v", o.Key, err)
	}
}

// TestRenewalThatFails: a store that is away for a moment takes no lease away, and one that stays away does, in time.
func TestRenewalThatFails(t *testing.T) {
	for away, lost := range map[time.Duration]bool{Timeout / 2: false, 2 * Timeout: true} {
		synctest.Test(t, func(t *testing.T) {
			store, began := storetest.New(), time.Now()
			failing := &storetest.Hooked{Store: store, Before: storetest.On(storetest.Get,
				func(context.Context, string) error {
					if since := time.Since(began); since < away {
						return errors.New("503 Service Unavailable")
					}
					return nil
				})}
			err := Do(t.Context(), failing, "log", ref, func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					says.True(t, lost && errors.Is(context.Cause(ctx), ErrLost) && time.Since(began) < Timeout,
						"away for %s: it ends after %s with %v", away, time.Since(began), context.Cause(ctx))
				case <-time.After(3 * Timeout):
					says.True(t, !lost, "it goes on working")
				}
				return nil
			})
			says.True(t, lost || err == nil, err)
		})
	}
}

// TestRenewalThatHangs: a holder gives up before others may take its lease, whatever error the store makes of its
// context.
func TestRenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.New()
		hanging := &storetest.Hooked{Store: store, Before: storetest.On(storetest.Get, storetest.Hang)}
		_ = Do(t.Context(), hanging, "log", ref, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				says.ErrorIs(t, context.Cause(ctx), ErrLost)
			case <-time.After(Timeout - time.Second):
				t.Error("it goes on working")
			}
			return nil
		})
	})
}

// TestUntil: what is measured while the machine is suspended has ended by the clock, and if the clock is set back the
// time that has passed counts.
func TestUntil(t *testing.T) {
	// moved is a time of which the monotonic reading, time.Time's second field, is off.
	moved := func(at time.Time, by time.Duration) time.Time {
		*(*int64)(unsafe.Add(unsafe.Pointer(&at), unsafe.Sizeof(uint64(0)))) += int64(by)
		return at
	}
	for name, at := range map[string]time.Time{
		"suspended": moved(time.Now().Add(-time.Hour), 2*time.Hour),
		"set back":  moved(time.Now().Add(time.Hour), -2*time.Hour),
	} {
		left := Until(at)
		says.True(t, left <= -30*time.Minute, "%s: %s are left", name, left)
	}
}

// TestLostAnswer: a lease that this command created is its own, also if the store has sent the request again and cannot
// compare what it found.
func TestLostAnswer(t *testing.T) {
	store := storetest.New()
	repeating := &storetest.Hooked{Store: store, After: storetest.On(storetest.Create,
		func(context.Context, string) error { return os.ErrExist })}
	done := false
	must.OK(t, Do(t.Context(), repeating, "log", ref, func(context.Context) error {
		done = true
		return nil
	}))
	says.True(t, done && len(store.Keys()) == 0, "it has worked: %v, left is %q", done, store.Keys())
	must.OK(t, store.Create(t.Context(), Key("log", ref), strings.NewReader("another holder")))
	says.ErrorIs(t, Do(t.Context(), repeating, "log", ref, func(context.Context) error { return nil }), ErrBusy,
		"of another holder")
}
