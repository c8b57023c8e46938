package compact

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Exclusive does something to a session while no compactor is at it. The context it is given ends when that is no longer sure.
func Exclusive(ctx context.Context, store blob.Store, root string, ref layout.Session, do func(context.Context) error) error {
	held, lease, err := acquire(ctx, store, root, ref)
	if err != nil {
		return err
	}
	err = do(held)
	return errors.Join(err, lease.release())
}

// ErrBusy says that another compactor is at the session.
var ErrBusy = errors.New("another compactor is at work on the session")

var errLost = errors.New("another compactor took the session over: this one was not heard of for too long")

const (
	// leaseTime is how long a compactor counts as alive after it was last heard of.
	leaseTime = 10 * time.Minute
	// renewEvery leaves time to stop before another compactor begins.
	renewEvery = 2 * time.Minute
)

// lease keeps other compactors from a session: an object that one of them can create. Joining does not rest on it alone: an object that
// changed since it was listed is left as it is.
type lease struct {
	store blob.Store
	key   string
	token string
	stop  context.CancelCauseFunc
	done  chan struct{}
}

// leaseKey is below none of the sessions, so that nobody takes it for a part of one.
func leaseKey(root string, ref layout.Session) string {
	return root + "/compaction/" + strings.TrimPrefix(layout.MetaKey(root, ref), root+"/")
}

// acquire takes the lease; the context it gives ends when it is lost.
func acquire(ctx context.Context, store blob.Store, root string, ref layout.Session) (context.Context, *lease, error) {
	l := &lease{store: store, key: leaseKey(root, ref), token: rand.Text(), done: make(chan struct{})}
	err := store.Create(ctx, l.key, strings.NewReader(l.token))
	if errors.Is(err, os.ErrExist) {
		var held blob.Object
		if held, err = store.Stat(ctx, l.key); err == nil && time.Since(held.ModTime) < leaseTime {
			return nil, nil, fmt.Errorf("%w (its lease is %s, %s old): try again later", ErrBusy, l.key, time.Since(held.ModTime).Round(time.Second))
		}
		if err == nil {
			err = store.Delete(ctx, l.key)
		}
		if err == nil || errors.Is(err, os.ErrNotExist) {
			err = store.Create(ctx, l.key, strings.NewReader(l.token))
		}
		if errors.Is(err, os.ErrExist) {
			return nil, nil, fmt.Errorf("%w: try again later", ErrBusy)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take the session's lease: %w", err)
	}
	ctx, l.stop = context.WithCancelCause(ctx)
	go l.keep(ctx)
	return ctx, l, nil
}

func (l *lease) keep(ctx context.Context) {
	defer close(l.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery):
		}
		if err := l.renew(ctx); err != nil {
			l.stop(err)
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	if err := l.held(ctx); err != nil {
		return err
	}
	return l.store.Put(ctx, l.key, strings.NewReader(l.token))
}

// held says whether the lease is still this compactor's.
func (l *lease) held(ctx context.Context) error {
	r, err := l.store.Get(ctx, l.key, 0, int64(len(l.token)))
	if errors.Is(err, os.ErrNotExist) {
		return errLost
	}
	if err != nil {
		return err
	}
	token, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err == nil && string(token) != l.token {
		err = errLost
	}
	return err
}

// release gives the lease back, also when the command was interrupted.
func (l *lease) release() error {
	l.stop(nil)
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.held(ctx)
	if err == nil {
		err = l.store.Delete(ctx, l.key)
	}
	if err != nil {
		return fmt.Errorf("give the session's lease back: %w", err)
	}
	return nil
}
