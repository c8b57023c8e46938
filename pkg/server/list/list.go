// Package list serves everything about all sessions that the caller may see: the homepage, /clusters, and the fleet's
// totals.
package list

import (
	"time"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/server/frontend"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
)

// Options of Handlers.
type Options struct {
	Sessions  visible.Sessions
	Loaded    *sessioncache.Cache[*session.Session]
	Fleet     *fleet.Fleet
	Frontends *frontend.Builds
	Notes     *notes.Book
	// Label is the text of a session's link to its note, see web.Row.
	Label func(catalog.Entry) string
	// Storage says in a few words where sessions are stored.
	Storage string
	// CollectorVersion is the tag that images of collectors should have; "" if any will do.
	CollectorVersion string
	// LoadWait is how long /clusters waits for the first listing of the store.
	LoadWait time.Duration
}

// Handlers answer requests about all sessions. An error is returned only if nothing was written.
type Handlers struct {
	opts    Options
	reports *turns.Slots // of the fleet
}

// New makes handlers, which share how many reports are made at once.
func New(opts Options) *Handlers {
	return &Handlers{opts: opts, reports: turns.New(maxReports, reportTurn)}
}
