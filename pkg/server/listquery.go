package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/catalog"
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

// Rows a page of the list, and how many of them may be asked for.
var pageSizes = []int{25, 50, 100, 250}

const defaultSort = "-start"

// parseListQuery reads ?q=&state=&kind=&sort=-start&page=1&size=25. What it does not know it takes for the default.
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
