package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Final takes the last snapshots of the session. Finish must follow.
func (t *Taker) Final(ctx context.Context) {
	if _, err := t.round(ctx, true); err != nil {
		t.opts.Log.WithError(err).Debug("the dashboard no longer answers; its last answers are stored")
	}
}

// Finish stores the answers that are kept on disk, of this session and of earlier ones: the last one about the nodes with all figures, and
// those that the store did not take before. It does not ask the dashboard, which may have ended.
func (t *Taker) Finish(ctx context.Context) error {
	var failed error
	current := ""
	if t.session != nil {
		current = t.session.Session
		failed = t.storeKept(ctx, t.session)
	}
	earlier, err := t.otherSessions(current)
	failed = errors.Join(failed, err)
	for _, session := range earlier {
		s, err := openState(t.opts.Dir, session)
		if err == nil {
			err = t.storeKept(ctx, s)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// otherSessions lists the sessions other than current that have a folder.
func (t *Taker) otherSessions(current string) (sessions []string, err error) {
	entries, err := os.ReadDir(t.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of snapshots: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != current && layout.CheckSessionName(entry.Name()) == nil {
			sessions = append(sessions, entry.Name())
		}
	}
	return sessions, nil
}

// storeKept stores the answers of a session that are kept on disk.
func (t *Taker) storeKept(ctx context.Context, s *sessionState) error {
	var failed error
	for url, u := range s.URLs {
		if u.Kept == 0 {
			continue
		}
		file, err := regular.OpenFile(s.keptPath(url))
		if errors.Is(err, fs.ErrNotExist) {
			s.drop(url)
			continue
		}
		if err == nil {
			err = t.store(ctx, s, url, u, file, time.UnixMilli(u.Kept))
			_ = file.Close()
		}
		if err != nil {
			failed = err
			continue
		}
		s.drop(url)
	}
	return errors.Join(failed, s.save())
}
