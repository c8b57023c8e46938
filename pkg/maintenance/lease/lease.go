// Package lease makes sure that only one program at a time changes the stored objects of a session.
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

// ErrBusy says that another command holds the session's lease.
var ErrBusy = errors.New("another compactor is working on the session")

// ErrLost says that another command took the lease.
var ErrLost = errors.New("another compactor took over the session: this one did not renew its lease in time")

const (
	// Timeout is how long a holder counts as alive after its last renewal.
	Timeout = 10 * time.Minute
	// renewEvery leaves time to stop before another holder begins.
	renewEvery = 2 * time.Minute
)

// lease is an object that only one command can create. Safety does not rest on it alone: an object that changed since it was listed is
// never overwritten.
type lease struct {
	store blob.Store
	key   string
	token string
	stop  context.CancelCauseFunc
	done  chan struct{}
}

// Key is the key of a session's lease. It is outside of all sessions, so the lease is never one of a session's objects.
func Key(root string, ref layout.Session) string {
	return root + "/compaction/" + strings.TrimPrefix(layout.MarkerKey(root, ref), root+"/")
}

// Do calls do while it holds the session's lease. The context of do ends when the lease is lost. Another holder is ErrBusy.
func Do(ctx context.Context, store blob.Store, root string, ref layout.Session, do func(context.Context) error) error {
	held, l, err := acquire(ctx, store, Key(root, ref))
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

// acquire takes the lease; the context it returns ends when the lease is lost.
func acquire(ctx context.Context, store blob.Store, key string) (context.Context, *lease, error) {
	l := &lease{store: store, key: key, token: rand.Text(), done: make(chan struct{})}
	err := store.Create(ctx, key, strings.NewReader(l.token))
	if errors.Is(err, os.ErrExist) {
		err = l.replaceExpired(ctx)
	}
	if errors.Is(err, ErrBusy) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take the session's lease: %w", err)
	}
	ctx, l.stop = context.WithCancelCause(ctx)
	go l.keep(ctx)
	return ctx, l, nil
}

// replaceExpired takes the lease from a holder that did not renew it in time.
func (l *lease) replaceExpired(ctx context.Context) error {
	held, err := l.store.Stat(ctx, l.key)
	if err == nil {
		if age := time.Since(held.ModTime); age < Timeout {
			return fmt.Errorf("%w (its lease is %s, %s old): try again later", ErrBusy, l.key, age.Round(time.Second))
		}
		err = l.store.Delete(ctx, l.key)
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = l.store.Create(ctx, l.key, strings.NewReader(l.token))
	}
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: try again later", ErrBusy)
	}
	return err
}

func (l *lease) keep(ctx context.Context) {
	defer close(l.done)
	for backoff.Sleep(ctx, renewEvery) == nil {
		if err := l.renew(ctx); err != nil {
			l.stop(err)
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	return l.store.Put(ctx, l.key, strings.NewReader(l.token))
}

// check returns ErrLost if another command took the lease.
func (l *lease) check(ctx context.Context) error {
	r, err := l.store.Get(ctx, l.key, 0, int64(len(l.token)))
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

// release gives up the lease, also after the command was interrupted.
func (l *lease) release() error {
	l.stop(nil)
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.check(ctx)
	if err == nil {
		err = l.store.Delete(ctx, l.key)
	}
	if err != nil {
		return fmt.Errorf("release the session's lease: %w", err)
	}
	return nil
}
