package server

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/frontend"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// listQuery is what the homepage's address asks for.
type listQuery struct {
	catalog.Filter
	Given      url.Values // the parameters of the filter, as they came
	Sort       string     // a key of columns
	Descending bool
	Page, Size int // page counts from 1
}

// pageSizes are the numbers of rows that a page of the list may have.
var pageSizes = []int{25, 50, 100, 250}

const defaultSort = "-start"

// parseListQuery reads the parameters of a filter and &sort=-start&page=1&size=25. Unknown values stand for the defaults.
func parseListQuery(v url.Values) listQuery {
	filter, _ := catalog.ParseFilter(v)
	q := listQuery{Filter: filter, Given: v, Page: 1, Size: pageSizes[0]}
	sort := v.Get("sort")
	if columns[strings.TrimPrefix(sort, "-")] == nil {
		sort = defaultSort
	}
	q.Sort, q.Descending = strings.TrimPrefix(sort, "-"), strings.HasPrefix(sort, "-")
	if n, err := strconv.Atoi(v.Get("page")); err == nil && n > 0 {
		q.Page = n
	}
	if n, err := strconv.Atoi(v.Get("size")); err == nil && slices.Contains(pageSizes, n) {
		q.Size = n
	}
	return q
}

// view is the query as the page's form and links need it.
func (q listQuery) view() web.Query {
	given := func(name string) string { return strings.TrimSpace(q.Given.Get(name)) }
	return web.Query{
		Search: given("q"), State: q.State, Kind: q.Kind, Outcome: q.Outcome, Version: q.RayVersion, From: given("from"), To: given("to"),
		Longer: given("longer"), Larger: given("larger"), Sort: q.Sort, Descending: q.Descending, Size: q.Size, Sizes: pageSizes,
	}
}

// page cuts one page out of the list; a page after the last is the last.
func (q listQuery) page(entries []*catalog.Entry) ([]catalog.Entry, web.Pager) {
	pages := max(1, (len(entries)+q.Size-1)/q.Size)
	at := min(q.Page, pages)
	from := (at - 1) * q.Size
	to := min(from+q.Size, len(entries))
	rows := make([]catalog.Entry, to-from)
	for i := range rows {
		rows[i] = *entries[from+i]
	}
	return rows, web.Pager{Page: at, Pages: pages, From: from + 1, To: to}
}

// filter gives the entries that the query looks for, in their order.
func (q listQuery) filter(entries []catalog.Entry, now time.Time) []*catalog.Entry {
	found := make([]*catalog.Entry, 0, len(entries))
	for i := range entries {
		if q.Passes(&entries[i], now) {
			found = append(found, &entries[i])
		}
	}
	return found
}

// columns compare two entries, ascending, by the name of the sort parameter.
var columns = map[string]func(a, b *catalog.Entry, now time.Time) int{
	"cluster":   func(a, b *catalog.Entry, _ time.Time) int { return cmp.Compare(a.Ref.Cluster, b.Ref.Cluster) },
	"namespace": func(a, b *catalog.Entry, _ time.Time) int { return cmp.Compare(a.Ref.Namespace, b.Ref.Namespace) },
	"kind":      func(a, b *catalog.Entry, _ time.Time) int { return cmp.Compare(a.OwnerKind, b.OwnerKind) },
	"state": func(a, b *catalog.Entry, _ time.Time) int {
		return cmp.Or(boolToInt(b.Running)-boolToInt(a.Running), cmp.Compare(a.Outcome, b.Outcome))
	},
	"start": func(a, b *catalog.Entry, _ time.Time) int { return a.Start.Compare(b.Start) },
	"duration": func(a, b *catalog.Entry, now time.Time) int {
		return cmp.Compare(a.Duration(now), b.Duration(now))
	},
	"version": func(a, b *catalog.Entry, _ time.Time) int {
		return slices.Compare(frontend.Numbers(a.RayVersion), frontend.Numbers(b.RayVersion))
	},
	"size": func(a, b *catalog.Entry, _ time.Time) int { return cmp.Compare(a.Bytes, b.Bytes) },
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// order sorts entries, which are newest first. Equal ones keep that order.
func (q listQuery) order(entries []*catalog.Entry, now time.Time) {
	if q.Sort == strings.TrimPrefix(defaultSort, "-") && q.Descending {
		return
	}
	compare := columns[q.Sort]
	slices.SortStableFunc(entries, func(a, b *catalog.Entry) int {
		if q.Descending {
			a, b = b, a
		}
		return compare(a, b, now)
	})
}
