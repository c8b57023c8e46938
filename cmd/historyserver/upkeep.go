package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/compact"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/retention"
)

// upkeepOptions are the settings of what the server does to the store by itself: nothing, unless it is told to.
type upkeepOptions struct {
	compact   bool
	retention time.Duration
	interval  time.Duration
}

func (o *upkeepOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.compact, "compact", false, "join the chunks of ended sessions, and of running sessions' closed hours; the store's credentials must allow to write and delete")
	fs.DurationVar(&o.retention, "retention", 0, "remove sessions that ended so long ago, as 720h; 0: never. Running sessions are never removed")
	fs.DurationVar(&o.interval, "upkeep-interval", time.Hour, "time between two rounds of --compact and --retention")
}

func (o *upkeepOptions) complete() error {
	switch {
	case o.retention != 0 && o.retention < time.Hour:
		return fmt.Errorf("--retention=%s: want at least 1h, or 0 to keep all sessions", o.retention)
	case o.interval < time.Minute:
		return fmt.Errorf("--upkeep-interval=%s: want at least 1m", o.interval)
	}
	return nil
}

// upkeep looks after the stored sessions.
type upkeep struct {
	options  *upkeepOptions
	store    blob.Store
	root     string
	sessions func() []catalog.Entry
	log      logrus.FieldLogger

	stop context.CancelFunc
	done sync.WaitGroup
}

// Start begins rounds in the background until Close, the first after one interval, when the sessions are known.
func (u *upkeep) Start() {
	var ctx context.Context
	ctx, u.stop = context.WithCancel(context.Background())
	if !u.options.compact && u.options.retention == 0 {
		return
	}
	u.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(u.options.interval):
				u.round(ctx, time.Now())
			}
		}
	})
}

// Close ends what Start began.
func (u *upkeep) Close() {
	u.stop()
	u.done.Wait()
}

// round looks after every session once. What goes wrong with one is tried again in the next round.
func (u *upkeep) round(ctx context.Context, now time.Time) {
	for _, e := range u.sessions() {
		if ctx.Err() != nil {
			return
		}
		log := u.log.WithField("session", e.Ref.String())
		what, err := u.session(ctx, e, now)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, compact.ErrBusy):
			log.WithError(err).Debug("left to another server")
		case err != nil:
			log.WithError(err).Warn("cannot look after a session; it is tried again")
		case what != "":
			log.Info(what)
		}
	}
}

// session removes a session or joins its chunks, and says what was done.
func (u *upkeep) session(ctx context.Context, e catalog.Entry, now time.Time) (string, error) {
	if u.options.retention > 0 && retention.Due(e, u.options.retention, now) {
		err := retention.Remove(ctx, u.store, u.root, e.Ref, now.Add(-u.options.retention), &inventory.Progress{})
		return "removed a session that ended at " + moment(e.End), err
	}
	if !u.options.compact || !e.Described {
		return "", nil
	}
	result, err := compact.Session(ctx, e.Ref, compact.Options{Store: u.store, Root: u.root, Quiet: 10 * time.Minute, Progress: &inventory.Progress{}})
	for _, left := range result.Left {
		u.log.WithField("session", e.Ref.String()).Warn("not joined: " + left)
	}
	if result.Joined == 0 {
		return "", err
	}
	return fmt.Sprintf("joined %s, removed %s", plural(result.Joined, "file"), plural(result.Removed, "chunk")), err
}
