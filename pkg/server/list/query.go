package list

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/web"
)

// listQuery is what the homepage's address asks for.
type listQuery struct {
	catalog.Query
	Given url.Values // the parameters, as they came
}

// pageSizes are the numbers of rows that a page of the list may have.
var pageSizes = []int{25, 50, 100, 250}

// maxPage bounds the numbers of pages.
const maxPage = 1 << 30

// HomepageParams are the names of the homepage's parameters.
var HomepageParams = slices.Concat(catalog.FilterParams, []string{"sort", "group", "page", "size"})

// parseListQuery reads the parameters of a filter and &sort=-start&group=owner&page=1&size=25. A value that cannot be
// used stands for the default, and the error, a *param.Error, names the first one.
func parseListQuery(v url.Values, now time.Time) (listQuery, error) {
	filter, err := catalog.ParseFilter(v)
	refuse := func(name, want string) {
		if err == nil && v.Get(name) != "" {
			err = &param.Error{Name: name, Value: v.Get(name), Want: want}
		}
	}
	q := listQuery{Query: catalog.Query{Filter: filter, Now: now, Limit: pageSizes[0]}, Given: v}
	if group := v.Get("group"); group == "cluster" || group == "owner" {
		q.Group = group
	} else {
		refuse("group", "cluster or owner")
	}
	sort := strings.TrimPrefix(v.Get("sort"), "-")
	known := q.view().Columns()
	if slices.ContainsFunc(known, func(c web.Column) bool { return c.Name == sort }) {
		q.Sort, q.Descending = sort, sort != v.Get("sort")
	} else {
		q.Sort, q.Descending = "start", true
		if !web.IsColumn(sort) { // the form keeps the order when it begins to group, which may have no such column
			refuse("sort", "the name of a column, such as start, or -start for the reverse")
		}
	}
	if n, err := strconv.Atoi(v.Get("size")); err == nil && slices.Contains(pageSizes, n) {
		q.Limit = n
	} else {
		refuse("size", "25, 50, 100 or 250")
	}
	if n, err := strconv.Atoi(v.Get("page")); n > 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		q.From = (min(n, maxPage) - 1) * q.Limit
	} else {
		refuse("page", "a number of at least 1")
	}
	return q, err
}

// view is the query as the page's form and links need it.
func (q listQuery) view() web.Query {
	given := func(name string) string { return strings.TrimSpace(q.Given.Get(name)) }
	return web.Query{
		Search: given("q"), KubernetesCluster: q.KubernetesCluster, Namespace: q.Namespace, Cluster: q.Cluster,
		Owner: q.Owner, User: given("user"), Label: given("label"), Finding: q.Finding, State: q.State, Kind: q.Kind,
		Outcome: q.Outcome, Version: q.RayVersion,
		From: given("from"), To: given("to"), Longer: given("longer"), Larger: given("larger"), Group: q.Group,
		Sort: q.Sort, Descending: q.Descending, Size: q.Limit, Sizes: pageSizes,
	}
}

// pager says which part of what was found a page shows.
func (q listQuery) pager(p *catalog.Part) web.Pager {
	return web.Pager{
		Page: p.From/q.Limit + 1, Pages: max(1, (p.Found+q.Limit-1)/q.Limit), From: p.From + 1,
		To: p.From + len(p.Entries) + len(p.Groups),
	}
}
