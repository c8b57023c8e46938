package list

import (
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// maxPart is how many sessions a part has at most: it is held in memory while it is sent.
const maxPart = 10_000

// page narrows a list by the parameters of catalog.ParseFilter, limit and continue, newest first. next is the address
// of the rest, relative to this one, or "" if there is none. Without parameters it is the list.
func page(l catalog.Listing, v url.Values, now time.Time) (part iter.Seq[catalog.Entry], next string, err error) {
	q := catalog.Query{Now: now, Limit: maxPart, After: v.Get("continue")}
	given := v.Get("limit")
	if given != "" {
		limit, err := strconv.Atoi(given)
		if err != nil || limit < 1 {
			return nil, "", &param.Error{Name: "limit", Value: given, Want: "a number of at least 1"}
		}
		q.Limit = min(limit, q.Limit)
	}
	if q.Filter, err = catalog.ParseFilter(v); err != nil {
		return nil, "", err
	}
	if given == "" && q.After == "" {
		return l.Matching(q.Filter, now), "", nil
	}
	p, err := l.Part(q)
	if err != nil {
		return nil, "", err
	}
	if p.Next != "" {
		v = maps.Clone(v)
		v.Set("continue", p.Next)
		next = "?" + v.Encode()
	}
	return slices.Values(p.Entries), next, nil
}
