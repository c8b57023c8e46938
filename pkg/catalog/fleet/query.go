package fleet

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// Query says which sessions count, and how the report shows them.
type Query struct {
	// Filter is the filter of the list. From and To are set.
	catalog.Filter
	By  string // one of Resources; "": gpu if nodes had any, else cpu
	Top int    // rows of each ranked table at most
	Now time.Time
}

const (
	defaultSpan = 30 * 24 * time.Hour
	// DefaultTop is how many rows ranked tables have, MaxTop how many they may have.
	DefaultTop = 20
	MaxTop     = 5000
)

// Params are the names of the parameters that ParseQuery reads.
var Params = slices.Concat(catalog.FilterParams, []string{"by", "top"})

// ParseQuery reads the parameters Params. Without "to" the last day is today; without "from" there are 30 days.
func ParseQuery(v url.Values, now time.Time) (q Query, err error) {
	q.Now = now
	if q.Filter, err = catalog.ParseFilter(v, now); err != nil {
		return q, err
	}
	form := param.Form{Values: v}
	q.By, q.Top = form.OneOf("by", Resources...), cmp.Or(int(form.Number("top", 1, MaxTop)), DefaultTop)
	if form.Err != nil {
		return q, form.Err
	}
	return q.WithPeriod()
}

// Form returns the parameters of which ParseQuery makes the query again.
func (q *Query) Form() url.Values {
	form := q.Filter.Form()
	form.Set("by", q.By)
	form.Set("top", strconv.Itoa(q.Top))
	return form
}

// WithPeriod returns the query with defaults for From and To where they are zero; the error is a *param.Error if From
// is not before To.
func (q Query) WithPeriod() (Query, error) {
	const day = 24 * time.Hour
	if q.To.IsZero() {
		q.To = q.Now.UTC().Truncate(day).Add(day)
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultSpan)
	}
	if !q.From.Before(q.To) {
		return q, &param.Error{Name: "from", Value: q.From.Format(time.RFC3339),
			Want: "a day before " + q.To.Format(time.RFC3339)}
	}
	return q, nil
}

// Before returns the same query for the span of equal length that ends at From.
func (q Query) Before() Query {
	q.From, q.To = q.From.Add(q.From.Sub(q.To)), q.From
	return q
}

// period returns the first and the last day in UTC, such as 2026-11-20. To itself is not in the period.
func (q Query) period() (from, to string) {
	return q.From.UTC().Format(time.DateOnly), q.To.Add(-time.Nanosecond).UTC().Format(time.DateOnly)
}
