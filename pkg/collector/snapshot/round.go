package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// round requests every URL that is due. It fails only if it can request none: the dashboard does not answer, the store does not take the
// session's marker, or the disk fails.
func (t *Taker) round(ctx context.Context, final bool) (changed bool, err error) {
	session, version, err := t.identify(ctx)
	if err != nil {
		return false, err
	}
	named := time.Now()
	if err := t.opts.Prepare(ctx, session); err != nil {
		return false, err
	}
	t.opts.Version(session, version)
	if t.session == nil || t.session.Session != session {
		if err := t.beginSession(ctx, session); err != nil {
			return false, err
		}
	}
	t.named = named
	s := t.session
	defer func() {
		if saveErr := s.save(); saveErr != nil {
			t.opts.Log.WithError(saveErr).Warn("snapshots may be stored twice after a restart")
		}
	}()
	ask := func(e endpoint) {
		if ctx.Err() == nil && t.due(e, final) {
			stored, _ := t.take(ctx, s, e, final)
			changed = changed || stored
		}
	}
	for _, url := range onceURLs {
		ask(endpoint{url: url, once: true})
	}
	for _, e := range periodic {
		ask(e)
	}
	for _, url := range t.opts.Additional {
		ask(endpoint{url: url, every: t.opts.AdditionalEvery})
	}
	return changed, nil
}

// identify requests the dashboard's session and its version of Ray.
func (t *Taker) identify(ctx context.Context) (session, rayVersion string, err error) {
	body, err := t.opts.Client.Get(ctx, "/api/version")
	if err != nil {
		return "", "", err
	}
	defer body.Close()
	var version struct {
		Ray     string `json:"ray_version"`
		Session string `json:"session_name"`
	}
	if err := json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&version); err != nil {
		return "", "", fmt.Errorf("read the dashboard's version: %w", err)
	}
	if err := layout.CheckSessionName(version.Session); err != nil {
		return "", "", fmt.Errorf("read the dashboard's version: %w", err)
	}
	if len(version.Ray) > maxVersion {
		return "", "", fmt.Errorf("read the dashboard's version: it has %d bytes", len(version.Ray))
	}
	return version.Session, version.Ray, nil
}

// checkSession returns an error if an answer that has just come may be of another session than the dashboard named before: Ray may be restarted
// while a slow store takes an earlier answer. If nobody answers now, the answer was the old dashboard's.
func (t *Taker) checkSession(ctx context.Context) error {
	if time.Since(t.named) < leastRestart {
		return nil
	}
	session, _, err := t.identify(ctx)
	switch {
	case err != nil:
		return nil
	case session != t.session.Session:
		return fmt.Errorf("the dashboard is of session %s now", session)
	}
	t.named = time.Now()
	return nil
}

// beginSession stores the kept answers of earlier sessions and continues with this one.
func (t *Taker) beginSession(ctx context.Context, session string) error {
	others, err := t.otherSessions(session)
	if err != nil {
		return err
	}
	for _, other := range others {
		earlier, err := openState(t.opts.Dir, other)
		if err == nil {
			err = t.storeKept(ctx, earlier)
		}
		if err == nil {
			err = earlier.remove()
		}
		if err != nil {
			t.opts.Log.WithError(err).WithField("session", other).Warn("could not store the last snapshots of an earlier session; it is tried again at the end and at the next start")
		}
	}
	s, err := openState(t.opts.Dir, session)
	if err != nil {
		return err
	}
	t.session, t.next, t.failures, t.nextNode, t.warned = s, make(map[string]time.Time), make(map[string]int), 0, make(map[string]bool)
	return nil
}

// due says whether to request a URL in this round. The final round requests all URLs whose answers can have changed.
func (t *Taker) due(e endpoint, final bool) bool {
	if u := t.session.URLs[e.url]; u != nil && (u.Ended || (e.once && u.Stored > 0)) {
		return false
	}
	return final || !time.Now().Before(t.next[e.url])
}
