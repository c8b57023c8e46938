// Package logs serves the logs of sessions: pages of a log, searches in all logs of a session, and archives.
package logs

import (
	"context"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logview"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// Options of Handlers.
type Options struct {
	// List lists the logs of a session that is not loaded.
	List func(context.Context, layout.Session) (*moment.Moment, error)
	Log  logrus.FieldLogger
}

// Handlers answer requests about logs. An error is returned only if nothing was written.
type Handlers struct {
	opts Options
	// lineIndexes are the indexes of the lines of logs that were requested last, by session, node and file.
	lineIndexes *cache.Cache[string, *logview.Index]
	searches    *turns.Slots
	archives    *turns.Slots
}

// maxIndexes is how many indexes of logs are kept.
const maxIndexes = 256

// New makes handlers, which together run only so many searches and archives at a time.
func New(opts Options) *Handlers {
	return &Handlers{
		opts: opts, lineIndexes: cache.New[string, *logview.Index](maxIndexes, cache.Forever, nil),
		searches: turns.New(maxSearches, turnTime), archives: turns.New(maxArchives, turnTime),
	}
}

// Session is a loaded session that a request is about, at the moment shown.
type Session struct {
	*moment.Moment
	Entry catalog.Entry
}

const (
	// turnTime is how long a search or an archive may go on while others wait.
	turnTime = 15 * time.Second
	// turnWait is how long a search or an archive waits for its turn: within that time one that runs has to give way.
	turnWait = turnTime + 10*time.Second
)

// takeTurn waits for the caller's turn, at most wait; then the error is turns.ErrBusy. The context working ends when
// the turn has taken its time and others wait. done ends the turn.
func takeTurn(r *http.Request, slots *turns.Slots, wait time.Duration) (working context.Context, done func(),
	err error) {
	return slots.Take(r.Context(), access.CallerOf(r), wait)
}

// TimesOf says what times that people type mean: they are in the time zone of the session's logs, and relative to the
// moment shown or to the session's end.
func TimesOf(ctx context.Context, m *moment.Moment) (param.Times, error) {
	clock, err := dashboard.LogClock(ctx, m)
	t := param.Times{Zone: clock.Zone, End: time.Unix(0, clock.To)}
	if m.At != 0 {
		t.End = time.Unix(0, m.At)
	}
	if t.Zone == nil {
		t.Zone = time.UTC
	}
	return t, err
}
