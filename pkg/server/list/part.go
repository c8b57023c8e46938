package list

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// page narrows a list by the parameters of catalog.ParseFilter, limit and continue, newest first. next is the address of the rest, relative to this
// one, or "" if there is none. Without parameters it is the list.
func page(l catalog.Listing, v url.Values, now time.Time) (part []catalog.Entry, next string, err error) {
	q := catalog.Query{Now: now, Limit: max(1, l.Len()), After: v.Get("continue")}
	if given := v.Get("limit"); given != "" {
		limit, err := strconv.Atoi(given)
		if err != nil || limit < 1 {
			return nil, "", fmt.Errorf("limit=%.40q: want a number of at least 1", given)
		}
		q.Limit = min(limit, q.Limit)
	}
	if q.Filter, err = catalog.ParseFilter(v); err != nil {
		return nil, "", err
	}
	p, err := l.Part(q)
	if err != nil {
		return nil, "", err
	}
	if p.Next != "" {
		v = cloneValues(v)
		v.Set("continue", p.Next)
		next = "?" + v.Encode()
	}
	return p.Entries, next, nil
}

func cloneValues(v url.Values) url.Values {
	out := make(url.Values, len(v))
	for name, values := range v {
		out[name] = slices.Clone(values)
	}
	return out
}
