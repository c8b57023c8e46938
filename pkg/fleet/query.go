package fleet

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// ParseQuery reads the parameters of catalog.ParseFilter, by and top. Without "to" the last day is today; without "from" there are 30 days.
func ParseQuery(v url.Values, now time.Time) (q Query, err error) {
	q.Now, q.Top = now, DefaultTop
	if q.Filter, err = catalog.ParseFilter(v); err != nil {
		return q, err
	}
	if q.By = v.Get("by"); q.By != "" && !slices.Contains(Resources, q.By) {
		return q, fmt.Errorf("by=%.40q: want %s", q.By, strings.Join(Resources, ", "))
	}
	if top := v.Get("top"); top != "" {
		if q.Top, err = strconv.Atoi(top); err != nil || q.Top < 1 || q.Top > MaxTop {
			return q, fmt.Errorf("top=%.40q: want a number of rows, from 1 to %d", top, MaxTop)
		}
	}
	return q.Bounded()
}

// Bounded sets the days that are not given.
func (q Query) Bounded() (Query, error) {
	const day = 24 * time.Hour
	if q.To.IsZero() {
		q.To = q.Now.UTC().Truncate(day).Add(day)
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultSpan)
	}
	if !q.From.Before(q.To) {
		return q, fmt.Errorf("from=%s: want a day before %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	return q, nil
}
