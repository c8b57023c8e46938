package moment

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

// defaultLimit is how many rows a list of the State API has by default (ray/util/state/common.py).
const defaultLimit = 100

// Saved returns the last saved answer to url before the moment, and when it was given (0: not known); nil if there is none. An answer
// that cannot be parsed counts as none: events still give the rest.
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

// SavedThen returns the last answer to url that was surely saved before the moment, and when it was given; nil if there is none.
func (m *Moment) SavedThen(ctx context.Context, url string) (value any, taken int64, err error) {
	snap, err := m.Session.Snapshots.Last(url, m.At)
	if err == nil && m.At != 0 && !(snap.Taken != 0 && snap.Taken <= m.At || snap.Taken == 0 && snap.Stored != 0 && snap.Stored <= m.At) {
		return nil, 0, nil
	}
	return m.Saved(ctx, url)
}

// SavedData returns the "data" of the last saved answer to url in Ray's envelope; nil where there is none.
func (m *Moment) SavedData(ctx context.Context, url string) (*pyjson.Object, int64, error) {
	value, taken, err := m.Saved(ctx, url)
	envelope, _ := value.(*pyjson.Object)
	return envelope.Object("data"), taken, err
}

// SavedList returns the result of a saved State API list: of all saved answers for path, the one with the most columns and rows. Nil if there is
// none.
func (m *Moment) SavedList(ctx context.Context, path string) (*pyjson.Object, int64, error) {
	best, bestScore := "", -1
	for _, u := range m.Session.Snapshots.URLs(path) {
		_, query, _ := strings.Cut(u, "?")
		q, err := url.ParseQuery(query)
		if err != nil || q.Has("filter_keys") {
			continue
		}
		score := defaultLimit
		if n, err := strconv.Atoi(q.Get("limit")); err == nil {
			score = n
		}
		if slices.Contains([]string{"True", "true", "1"}, q.Get("detail")) {
			score += 1 << 30
		}
		if score > bestScore {
			best, bestScore = u, score
		}
	}
	if best == "" {
		return nil, 0, nil
	}
	data, taken, err := m.SavedData(ctx, best)
	return data.Object("result"), taken, err
}

// RowsByKey indexes a list of objects by the string value of a key.
func RowsByKey(rows []any, key string) map[string]*pyjson.Object {
	m := make(map[string]*pyjson.Object, len(rows))
	for _, v := range rows {
		if row, ok := v.(*pyjson.Object); ok {
			m[row.String(key)] = row
		}
	}
	return m
}

// Believes says whether a snapshot's row that shows its end is trusted if events do not show the end. The snapshot must not have been taken after
// the moment.
func (m *Moment) Believes(taken int64) bool {
	return m.At == 0 || taken != 0 && taken <= m.At
}

// Zone is the time zone of the session's cluster, UTC if no snapshot has it.
func (m *Moment) Zone(ctx context.Context) (*time.Location, error) {
	value, _, err := m.Saved(ctx, "/timezone")
	if err != nil {
		return nil, err
	}
	o, _ := value.(*pyjson.Object)
	t, err := time.Parse("-07:00", o.String("offset"))
	if err != nil {
		return time.UTC, nil
	}
	return t.Location(), nil
}
