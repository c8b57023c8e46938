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
	Search     string // words, each must occur
	State      string // running, ended or empty
	Kind       string // RayCluster, RayJob, RayService or empty
	Sort       string // a key of columns
	Descending bool
	Page, Size int // page counts from 1
}

// pageSizes are the numbers of rows that a page of the list may have.
var pageSizes = []int{25, 50, 100, 250}

const defaultSort = "-start"

// parseListQuery reads ?q=&state=&kind=&sort=-start&page=1&size=25. Unknown values stand for the defaults.
func parseListQuery(v url.Values) listQuery {
	q := listQuery{Search: strings.TrimSpace(v.Get("q")), Kind: catalog.Kind(v.Get("kind")), Page: 1, Size: pageSizes[0]}
	if state := v.Get("state"); state == "running" || state == "ended" {
		q.State = state
	}
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
	return web.Query{Search: q.Search, State: q.State, Kind: q.Kind, Sort: q.Sort, Descending: q.Descending, Size: q.Size, Sizes: pageSizes}
}

// page cuts one page out of the list; a page after the last is the last.
func (q listQuery) page(entries []catalog.Entry) ([]catalog.Entry, web.Pager) {
	pages := max(1, (len(entries)+q.Size-1)/q.Size)
	at := min(q.Page, pages)
	from := (at - 1) * q.Size
	to := min(from+q.Size, len(entries))
	return entries[from:to], web.Pager{Page: at, Pages: pages, From: from + 1, To: to}
}

// filter gives the entries that the query looks for, in a slice of its own.
func (q listQuery) filter(entries []catalog.Entry) []catalog.Entry {
	words := strings.Fields(strings.ToLower(q.Search))
	found := make([]catalog.Entry, 0, len(entries))
	for _, e := range entries {
		if (q.State == "running" && !e.Running) || (q.State == "ended" && e.Running) || (q.Kind != "" && e.OwnerKind != q.Kind) {
			continue
		}
		text := strings.ToLower(strings.Join([]string{e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, e.OwnerKind, e.OwnerName, e.RayVersion}, " "))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, e)
		}
	}
	return found
}

// columns compare two entries, ascending, by the name of the sort parameter.
var columns = map[string]func(a, b catalog.Entry, now time.Time) int{
	"cluster":   func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.Ref.Cluster, b.Ref.Cluster) },
	"namespace": func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.Ref.Namespace, b.Ref.Namespace) },
	"kind":      func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.OwnerKind, b.OwnerKind) },
	"state": func(a, b catalog.Entry, _ time.Time) int {
		return boolToInt(b.Running) - boolToInt(a.Running)
	},
	"start": func(a, b catalog.Entry, _ time.Time) int { return a.Start.Compare(b.Start) },
	"duration": func(a, b catalog.Entry, now time.Time) int {
		return cmp.Compare(a.Duration(now), b.Duration(now))
	},
	"version": func(a, b catalog.Entry, _ time.Time) int {
		return slices.Compare(frontend.Numbers(a.RayVersion), frontend.Numbers(b.RayVersion))
	},
	"size": func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.Bytes, b.Bytes) },
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// order sorts entries, which are newest first. Equal ones keep that order.
func (q listQuery) order(entries []catalog.Entry, now time.Time) {
	compare := columns[q.Sort]
	slices.SortStableFunc(entries, func(a, b catalog.Entry) int {
		if q.Descending {
			a, b = b, a
		}
		return compare(a, b, now)
	})
}
