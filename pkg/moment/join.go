package moment

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

// Saved returns the last saved answer to url before the moment, or the first one after it if there is none before, and
// when it was given (Unix ns; 0: not known). It is nil if none is saved, or if it cannot be parsed: events still give
// the rest.
func (m *Moment) Saved(ctx context.Context, url string) (value any, taken int64, err error) {
	snap, err := m.Session.Snapshots.Last(url, m.At)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	value, err = m.Session.Snapshots.Value(ctx, snap)
	if errors.Is(err, snapshots.ErrMalformed) {
		return nil, 0, nil
	}
	return value, snap.Taken, err
}

// SavedThen returns the last answer to url that was surely saved before the moment, and when it was given (Unix ns); of
// one that does not say when, the time when it was stored counts. It is nil if there is none.
func (m *Moment) SavedThen(ctx context.Context, url string) (value any, taken int64, err error) {
	snap, err := m.Session.Snapshots.Last(url, m.At)
	if err == nil && !m.InTime(cmp.Or(snap.Taken, snap.Stored)) {
		return nil, 0, nil
	}
	return m.Saved(ctx, url)
}

// SavedData returns the "data" in Ray's envelope of the last saved answer to url, and when it was given; nil if there
// is none.
func (m *Moment) SavedData(ctx context.Context, url string) (*pyjson.Object, int64, error) {
	value, taken, err := m.Saved(ctx, url)
	envelope, _ := value.(*pyjson.Object)
	return envelope.Object("data"), taken, err
}

// SavedList returns the result of a saved list of the State API, and when it was given (Unix ns; 0: not known); nil if
// none is saved.
func (m *Moment) SavedList(ctx context.Context, path string) (*pyjson.Object, int64, error) {
	url, err := m.savedListURL(path)
	if url == "" || err != nil {
		return nil, 0, err
	}
	data, taken, err := m.SavedData(ctx, url)
	return data.Object("result"), taken, err
}

// savedListURL returns the address whose saved answer counts as the list at path; "" if none is saved. Collectors ask
// for path with several queries. Their answers are ranked: those with all columns come first, then the last one before
// the moment, then the one with the most rows. Only one of them is read, however many there are.
func (m *Moment) savedListURL(path string) (best string, err error) {
	var bestRank []int64 // all columns (1) or not (0), when it was given, rows: the greater the better
	for _, u := range m.Session.Snapshots.URLs(path) {
		_, query, _ := strings.Cut(u, "?")
		allColumns, rows, whole := layout.ListedBy(query)
		if !whole {
			continue // the query asked for some of the things only
		}
		last, err := m.Session.Snapshots.Last(u, m.At)
		if err != nil {
			return "", err
		}
		rank := []int64{0, last.Taken, int64(rows)}
		if allColumns {
			rank[0] = 1
		}
		if m.At != 0 && last.Taken > m.At {
			rank[1] = -last.Taken // after the moment, the sooner the better
		}
		if best == "" || slices.Compare(rank, bestRank) > 0 {
			best, bestRank = u, rank
		}
	}
	return best, nil
}

// RowsByKey returns the objects of a list by the string that each has under a key.
func RowsByKey(rows []any, key string) map[string]*pyjson.Object {
	m := make(map[string]*pyjson.Object, len(rows))
	for _, v := range rows {
		if row, ok := v.(*pyjson.Object); ok {
			m[row.String(key)] = row
		}
	}
	return m
}

// InTime reports whether a snapshot was taken at the moment or before it, so that nothing in it is later, such as the
// end of a thing. taken is in Unix ns; it is false for 0, a time that is not known, unless the moment is the session's
// end.
func (m *Moment) InTime(taken int64) bool {
	return m.At == 0 || taken != 0 && taken <= m.At
}

// Stored is what is stored of one thing at a moment: its events E, a row of a saved answer, or both. S is its state by
// events.
type Stored[E, S any] struct {
	ID     string // as Ray writes it, hex
	Events *E     // nil: there are none
	// ByEvents is the state by events or, of a thing without events whose saved row shows an end after the moment, the
	// state before that end; otherwise zero.
	ByEvents S
	Saved    *pyjson.Object // nil: there is no saved row
	// Newer says that ByEvents counts, not what the saved row says of the state. It is so without a saved row, too.
	Newer bool
}

// kind says how the saved rows and the events of one kind of thing belong together.
type kind[E, S any] struct {
	events   []E
	id       func(*E) string                     // as in Stored
	eventsOf func(id string) *E                  // nil if there are no events
	stateAt  func(*E, int64) (s S, existed bool) // at a moment, see Moment.At

	savedID   func(row *pyjson.Object) string     // as in Stored
	began     func(row *pyjson.Object) int64      // Unix ns; 0: not known
	ended     func(row *pyjson.Object) bool       // the row shows that the thing has ended
	sameState func(row *pyjson.Object, s *S) bool // the row shows the state

	endedAt func(row *pyjson.Object) int64 // Unix ns; 0: not known. Nil: no row of the kind says it
	unended func(row *pyjson.Object) S     // the state before the end that the row shows; nil as endedAt
}

// join puts together what is stored of all things of a kind that existed at the moment: first the things with a saved
// row, in the order of rows, then the others, in the order of k.events. taken is when the rows were saved (Unix ns; 0:
// not known).
func join[E, S any](m *Moment, k kind[E, S], rows []any, taken int64) []Stored[E, S] {
	var joined []Stored[E, S]
	seen := map[string]bool{}
	for _, v := range rows {
		row, ok := v.(*pyjson.Object)
		if !ok {
			continue
		}
		thing := Stored[E, S]{ID: k.savedID(row), Saved: row}
		// Ray lists each thing once, but a damaged list may have millions of rows. A busy dashboard also lists an actor
		// under no ID: of what it took from the GCS at once it keeps each actor's last message, and only the first has
		// the ID (_poll_updated_actor_table_data in ray/dashboard/modules/node/node_head.py).
		if thing.ID == "" || seen[thing.ID] || len(seen) == maxRows {
			continue
		}
		seen[thing.ID] = true
		existed := false
		if thing.Events = k.eventsOf(thing.ID); thing.Events == nil {
			existed = m.isPast(k.began(row))
			if k.endedAt != nil && k.ended(row) && !m.isPast(k.endedAt(row)) {
				thing.ByEvents, thing.Newer = k.unended(row), true
			}
		} else if thing.ByEvents, existed = k.stateAt(thing.Events, m.At); existed {
			thing.Newer = m.Overrides(taken, k.sameState(row, &thing.ByEvents), k.ended(row))
		}
		if existed {
			joined = append(joined, thing)
		}
	}
	for i := range k.events {
		e := &k.events[i]
		id := k.id(e)
		if seen[id] {
			continue
		}
		if state, existed := k.stateAt(e, m.At); existed {
			joined = append(joined, Stored[E, S]{ID: id, Events: e, ByEvents: state, Newer: true})
		}
	}
	return joined
}

// Overrides reports whether the state by events replaces that of a row that was saved at a time (taken, Unix ns; 0: not
// known). same says that both show the same state: then the row counts, because its times are Ray's, and those of
// events are some milliseconds later. If they differ, events count, because the row is older, with one exception: if
// the row shows an end (ended) that events do not show, the row counts, because events may be lost, and nothing that
// ended starts again.
func (m *Moment) Overrides(taken int64, same, ended bool) bool {
	return !same && !(ended && m.InTime(taken))
}

// findIn calls find with an ID that is given in hex; it returns nil if that is no ID.
func findIn[T rayid.ID, E any](id string, find func(T) *E) *E {
	parsed, err := rayid.Parse[T](id)
	if err != nil {
		return nil
	}
	return find(parsed)
}

// maxRows is how many rows of one saved list count: collectors store no list with so many, and what is made of a row
// takes more memory than the row.
const maxRows = 100_000

// Objects returns the objects of a list, at most maxRows of them.
func Objects(list []any) []*pyjson.Object {
	var all []*pyjson.Object
	for _, v := range list {
		if o, ok := v.(*pyjson.Object); ok && len(all) < maxRows {
			all = append(all, o)
		}
	}
	return all
}
