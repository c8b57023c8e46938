package request

import (
	"errors"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

// Saved returns the last saved answer to url before the requested moment, and when it was given (0: not known); nil if there is none. An answer
// that cannot be parsed counts as none: events still give the rest.
func Saved(r *Request, url string) (value any, taken int64, err error) {
	snap, err := r.Session.Snapshots.Last(url, r.At)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	value, err = r.Session.Snapshots.Value(r.Context(), snap)
	if errors.Is(err, snapshots.ErrMalformed) {
		return nil, 0, nil
	}
	return value, snap.Taken, err
}

// SavedThen returns the last answer to url that was surely saved before the requested moment, and when it was given; nil if there is none.
func SavedThen(r *Request, url string) (value any, taken int64, err error) {
	snap, err := r.Session.Snapshots.Last(url, r.At)
	if err == nil && r.At != 0 && !(snap.Taken != 0 && snap.Taken <= r.At || snap.Taken == 0 && snap.Stored != 0 && snap.Stored <= r.At) {
		return nil, 0, nil
	}
	return Saved(r, url)
}

// SavedData returns the "data" of the last saved answer to url in Ray's envelope; nil where there is none.
func SavedData(r *Request, url string) (*pyjson.Object, int64, error) {
	value, taken, err := Saved(r, url)
	envelope, _ := value.(*pyjson.Object)
	return envelope.Object("data"), taken, err
}

// SavedList returns the result of a saved State API list: of all saved answers for path, the one with the most columns and rows. Nil if there is
// none.
func SavedList(r *Request, path string) (*pyjson.Object, int64, error) {
	best, bestScore := "", -1
	for _, u := range r.Session.Snapshots.URLs(path) {
		_, query, _ := strings.Cut(u, "?")
		q, err := url.ParseQuery(query)
		if err != nil || q.Has("filter_keys") {
			continue
		}
		score := DefaultLimit
		if n, err := strconv.Atoi(q.Get("limit")); err == nil {
			score = n
		}
		if detail, _ := Bool(q.Get("detail")); detail {
			score += 1 << 30
		}
		if score > bestScore {
			best, bestScore = u, score
		}
	}
	if best == "" {
		return nil, 0, nil
	}
	data, taken, err := SavedData(r, best)
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
// the requested moment.
func Believes(r *Request, taken int64) bool {
	return r.At == 0 || taken != 0 && taken <= r.At
}
