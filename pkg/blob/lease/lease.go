// Package lease makes sure that only one program at a time changes the stored objects of a session, or does another
// work.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ErrBusy says that another program holds the lease.
var ErrBusy = errors.New("another program is at work on this")

// ErrLost says that another program took the lease.
var ErrLost = errors.New("another program took over the work: this one did not renew its lease in time")

// Timeout is how long the holder of a session's lease counts as alive after its last renewal.
const Timeout = 10 * time.Minute

// Until is how long it is until t, by the clock that has gone further: the monotonic one stands still while the machine
// is suspended, and the other one may be set back.
func Until(t time.Time) time.Duration { return min(time.Until(t), time.Until(t.Round(0))) }

// renewals is how often a lease is renewed within its timeout, which leaves time to stop before another holder begins.
const renewals = 5

// lease is an object that only one command can create. Safety does not rest on it alone: an object that changed since
// it was listed is never overwritten.
type lease struct {
	store     blob.Store
	key       string
	timeout   time.Duration // of the holder, as Timeout
	token     string
	endHolder context.CancelCauseFunc
	done      chan struct{}
	// renewedAt is when the last successful renewal began.
	renewedAt time.Time
}

// Key is the key of a session's lease. It is outside of all sessions, so the lease is never one of a session's objects.
func Key(root string, ref layout.Session) string {
	return root + "/compaction/" + strings.TrimPrefix(layout.MarkerKey(root, ref), root+"/")
}

// Do calls do while it holds the session's lease. The context of do ends when the lease is lost. Another holder is
// ErrBusy.
func Do(ctx context.Context, store blob.Store, root string, ref layout.Session, do func(context.Context) error) error {
	return Hold(ctx, store, Key(root, ref), Timeout, do)
}

// Hold is Do for any work that one program at a time does: the lease has a key of its own, and its holder is followed
// by another after timeout.
func Hold(ctx context.Context, store blob.Store, key string, timeout time.Duration,
	do func(context.Context) error) error {
	held, l, err := acquire(ctx, store, key, timeout)
	if err != nil {
		return err
	}
	err = do(held)
	return errors.Join(err, l.release())
}

// Held says whether somebody holds the lease of a session, or did and died.
func Held(ctx context.Context, store blob.Reader, root string, ref layout.Session) (bool, error) {
	_, err := store.Stat(ctx, Key(root, ref))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// acquire takes the lease with this key, and renews it in the background until release. The context that it returns
// ends with ErrLost when the lease is lost. The error wraps ErrBusy if another holder has the lease.
func acquire(ctx context.Context, store blob.Store, key string, timeout time.Duration) (context.Context, *lease,
	error) {
	l := &lease{store: store, key: key, timeout: timeout, token: rand.Text(), done: make(chan struct{}),
		renewedAt: time.Now()}
	err := l.createOrTakeOver(ctx, key)
	if errors.Is(err, ErrBusy) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take the lease %s: %w", key, err)
	}
	ctx, l.endHolder = context.WithCancelCause(ctx)
	go l.renewUntilDone(ctx)
	return ctx, l, nil
}

// createOrTakeOver creates the object of the lease at key, or takes it over from a holder that did not renew it in
// time. Several processes may find the same lease expired. So each first takes a second lease, for the takeover, by the
// same means: otherwise the slower one would take away the new lease of the faster one.
func (l *lease) createOrTakeOver(ctx context.Context, key string) error {
	err := l.store.Create(ctx, key, strings.NewReader(l.token))
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if l.checkHeld(ctx, key) == nil {
		return nil // an earlier attempt has created it, and its answer was lost
	}
	if err := l.checkExpired(ctx, key, time.Now()); err != nil {
		return err
	}
	takeover := key + ".takeover"
	if err := l.createOrTakeOver(ctx, takeover); err != nil {
		return err
	}
	// Now by the store's clock: to a machine whose clock is ahead, every lease has expired.
	taken, err := l.store.Stat(ctx, takeover)
	if err == nil {
		err = l.checkExpired(ctx, key, taken.ModTime)
	}
	if err == nil {
		err = l.store.Put(ctx, key, strings.NewReader(l.token))
	}
	return errors.Join(err, l.store.Delete(ctx, takeover))
}

// checkExpired returns nil if the lease at key was last renewed at least l.timeout before now, else ErrBusy. The
// store's clock sets the time of renewal: with this machine's time as now the answer is only a first look. A lease that
// was released since is busy, too: the caller has to begin again with Create.
func (l *lease) checkExpired(ctx context.Context, key string, now time.Time) error {
	object, err := l.store.Stat(ctx, key)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: try again", ErrBusy) // it was released just now
	}
	if err != nil {
		return err
	}
	if age := now.Sub(object.ModTime); age < l.timeout {
		return fmt.Errorf("%w (its lease is %s, %s old): try again later", ErrBusy, key, age.Round(time.Second))
	}
	return nil
}

// renewUntilDone renews the lease until its holder is done, which ends ctx. A renewal that fails is tried again as long
// as the lease holds. The holder's context ends with ErrLost if another process has the lease, and also, without asking
// the store, if renewals hang or the program was suspended until others may soon take the lease: one interval before
// it expires.
func (l *lease) renewUntilDone(ctx context.Context) {
	defer close(l.done)
	for backoff.Sleep(ctx, l.timeout/renewals) == nil {
		began := time.Now()
		limit := l.renewedAt.Add(l.timeout - l.timeout/renewals)
		renewing, cancel := context.WithTimeoutCause(ctx, Until(limit), ErrLost)
		err := l.renew(renewing)
		if err != nil && renewing.Err() != nil {
			err = ErrLost // most stores return the context's error, not its cause
		}
		cancel()
		switch {
		case err == nil:
			l.renewedAt = began
		case errors.Is(err, ErrLost):
			l.endHolder(err)
			return
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	if err := l.checkHeld(ctx, l.key); err != nil {
		return err
	}
	return l.store.Put(ctx, l.key, strings.NewReader(l.token))
}

// checkHeld returns nil if this holder has the lease at key, and ErrLost if another process has it or nobody.
func (l *lease) checkHeld(ctx context.Context, key string) error {
	r, err := l.store.Get(ctx, key, 0, int64(len(l.token)))
	if errors.Is(err, os.ErrNotExist) {
		return ErrLost
	}
	if err != nil {
		return err
	}
	token, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err == nil && string(token) != l.token {
		err = ErrLost
	}
	return err
}

// release gives up the lease and stops renewing it. It works also after the holder's context has ended. If the lease
// was lost meanwhile, that is the error.
func (l *lease) release() error {
	l.endHolder(nil)
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.checkHeld(ctx, l.key)
	if err == nil {
		err = l.store.Delete(ctx, l.key)
	}
	if err != nil {
		return fmt.Errorf("release the lease %s: %w", l.key, err)
	}
	return nil
}

// ErrClock says that a session is not changed because this machine's clock is wrong: to one that is a year ahead, all
// sessions have ended and expired.
var ErrClock = errors.New("this machine's clock is ahead of the store's")

// maxAhead is how far this machine's clock may be ahead of the store's.
const maxAhead = time.Hour

// CheckClock compares the clocks by the lease of a session, which its holder has stored just now.
func CheckClock(ctx context.Context, store blob.Reader, root string, ref layout.Session) error {
	stored, err := store.Stat(ctx, Key(root, ref))
	if err != nil {
		return fmt.Errorf("read the store's clock: %w", err)
	}
	if ahead := time.Since(stored.ModTime); ahead > maxAhead {
		return fmt.Errorf("%w, by %s: correct it; until then nothing is removed or compacted", ErrClock,
			ahead.Round(time.Minute))
	}
	return nil
}
