// Package moment is the model of a session at one moment: its nodes, jobs, actors, workers, placement groups and the
// runs of Ray's libraries, as structs.
//
//	events (tables), saved answers of the dashboard, names and ends of logs ──► Moment ──► dashboard, findings, compare
//
// What is stored of a thing may be its events, a row of an answer that the live dashboard gave, or both. join says in
// one place which counts. What a struct does not have of a saved row stays in its field Saved, for those who show it.
package moment

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// AtEnd is the moment at which a session ended, whenever that was.
const AtEnd = 0

// Moment is one session at one moment.
type Moment struct {
	*Env
	Session *session.Session
	// At is the moment, Unix nanoseconds, or AtEnd.
	At int64
	// RayVersion is the session's in the list of sessions, "" if it is not known.
	RayVersion string
	// Running says whether the session still runs, so that more of it is being stored; nil means that it does not.
	Running func(context.Context) bool
}

// Env is what all moments share.
type Env struct {
	Log logrus.FieldLogger
	// Memory bounds the memory of what is built of a moment; nil means no bounds.
	Memory *budget.Budget

	derived *derivations
}

// NewEnv makes an Env with nothing derived yet.
func NewEnv(log logrus.FieldLogger, memory *budget.Budget) *Env {
	return &Env{Log: log, Memory: memory, derived: &derivations{bySession: map[weak.Pointer[session.Origin]]*derived{}}}
}

// Runs reports whether the session still runs.
func (m *Moment) Runs(ctx context.Context) bool { return m.Running != nil && m.Running(ctx) }

// isPast reports whether a time (Unix ns) is at the moment or before it, so that what happened then had happened.
func (m *Moment) isPast(t int64) bool { return m.At == 0 || t <= m.At }

// Life returns the time that the moment shows of the session: from when it began until the moment; or, if the moment is
// the session's end, until it ended or, if it still runs, until now. Its events may begin before and end after the
// times that its collectors stored. If nothing says when it began, that is an hour before the end.
func (m *Moment) Life(ctx context.Context) (begin, end time.Time) {
	begin, end = m.Session.Life.Start, m.Session.Life.End
	if end.IsZero() {
		end = m.Session.LastStored()
	}
	switch first := time.Unix(0, m.Session.Start); {
	case m.Session.Start == 0:
	case begin.IsZero() || first.Before(begin):
		begin = first
	case !m.Session.Life.Recorded: // lifetime knows only the hour of the first events, of a settled index not even that
		begin = layout.InZone(begin, first, time.Hour)
		if named, _, known := m.namedStart(); known && !named.After(first) {
			begin = named
		}
	}
	if last := time.Unix(0, m.Session.End); m.Session.End != 0 && last.After(end) {
		end = last
	}
	switch {
	case m.At != 0:
		end = time.Unix(0, m.At)
	case end.IsZero() || m.Runs(ctx):
		end = time.Now()
	}
	if begin.IsZero() || begin.After(end) {
		begin = end.Add(-time.Hour)
	}
	return begin, end
}

// States that several kinds of things have.
const (
	Alive = "ALIVE"
	Dead  = "DEAD"
)

// States of actors.
const (
	Restarting = "RESTARTING"
	Unready    = "DEPENDENCIES_UNREADY"
)

// Pending is the state of placement groups at first.
const Pending = "PENDING"

// wholeMillis returns a time (Unix ns) rounded down to a whole millisecond, as saved rows have it.
func wholeMillis(ns int64) int64 { return ns - ns%int64(time.Millisecond) }

// TimeIn returns the time (Unix ns) that an object has under a key in a unit. One before the year 1678 or after 2261 is
// the nearest that nanoseconds can express.
func TimeIn(o *pyjson.Object, key string, unit time.Duration) int64 {
	limit := math.MaxInt64 / int64(unit)
	return min(max(o.Int(key), -limit), limit) * int64(unit)
}

// MillisPerSecond is the milliseconds in a second.
const MillisPerSecond = int64(time.Second / time.Millisecond)

// Milliseconds returns Unix nanoseconds in whole milliseconds.
func Milliseconds(ns int64) int64 { return ns / int64(time.Millisecond) }

// Seconds returns Unix nanoseconds in seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// derived is what was computed from one session, by the struct that has it: see Cached.
type derived struct {
	mu     sync.Mutex
	byType map[reflect.Type]any
}

// derivations keeps the derived of each session for as long as the session is in memory.
type derivations struct {
	mu        sync.Mutex
	bySession map[weak.Pointer[session.Origin]]*derived
}

// ofSession returns what was derived from a session; it is empty at first. It is kept for as long as the session, or
// one that it became by a refresh, is in memory.
func (d *derivations) ofSession(s *session.Session) *derived {
	origin := s.Origin()
	key := weak.Make(origin)
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.bySession[key]
	if found == nil {
		found = &derived{byType: map[reflect.Type]any{}}
		d.bySession[key] = found
		runtime.AddCleanup(origin, d.forget, key)
	}
	return found
}

// forget drops what was derived from a session that is no longer in memory.
func (d *derivations) forget(key weak.Pointer[session.Origin]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.bySession, key)
}

// Cached returns the struct T in which its package caches something of a session: one for each thing, as jobCache. All
// moments of the session share one T, which is zero at first. What it has are shared.Values, which are computed again
// when their source has changed: a running session is refreshed every few seconds.
func Cached[T any](m *Moment) *T {
	d := m.derived.ofSession(m.Session)
	d.mu.Lock()
	defer d.mu.Unlock()
	key := reflect.TypeFor[T]()
	found, _ := d.byType[key].(*T)
	if found == nil {
		found = new(T)
		d.byType[key] = found
	}
	return found
}

// StateOf returns a text that changes whenever anything of a session changes.
func StateOf(s *session.Session) string { return fmt.Sprintf("%s %x", s.Fingerprint(), s.Contents()) }
