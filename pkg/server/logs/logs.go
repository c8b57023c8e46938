// Package logs serves the logs of sessions: pages of a log, searches in all logs of a session, and archives.
package logs

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logview"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Options of Handlers.
type Options struct {
	// List knows the logs of sessions that are not loaded.
	List func(context.Context, layout.Session) (*session.Session, error)
	// Dashboard is what else is known of sessions.
	Dashboard *dashboard.Dashboard
	Log       logrus.FieldLogger
}

// Handlers answer requests about logs. An error is returned only if nothing was written.
type Handlers struct {
	opts Options
	// lineIndexes are of the logs that were looked at last.
	lineIndexes logview.Indexes
	searches    chan struct{} // has one for each search under way
	archives    chan struct{} // has one for each archive under way
}

// New makes handlers, which share how much is done at once.
func New(opts Options) *Handlers {
	return &Handlers{opts: opts, searches: make(chan struct{}, maxSearches), archives: make(chan struct{}, maxArchives)}
}

// Session is a loaded session that a request is about.
type Session struct {
	Session *session.Session
	Entry   catalog.Entry
	At      int64 // Unix ns; 0 is the session's end
}

// turnWait is how long a search or an archive waits for its turn.
const turnWait = 5 * time.Second

// turn waits for one of the turns that a channel has place for.
func turn(ctx context.Context, turns chan struct{}) (release func(), err error) {
	wait := time.NewTimer(turnWait)
	defer wait.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-wait.C:
		return nil, budget.ErrBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
