package list

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/web"
)

// listQuery is the query of the homepage's address.
type listQuery struct {
	catalog.Query
	Given url.Values // the parameters, as they came
}

// pageSizes are the numbers of rows that a page of the list may have.
var pageSizes = []int{25, 50, 100, 250}

// maxPage is the highest number of a page.
const maxPage = 1 << 30

// HomepageParams are the names of the homepage's parameters.
var HomepageParams = slices.Concat(catalog.FilterParams, []string{"sort", "group", "page", "size"})

// parseListQuery reads the parameters of a filter and, for example, &sort=-start&group=owner&page=1&size=25. For a
// value that cannot be used it takes the default. The error is a *param.Error about the first such value.
func parseListQuery(v url.Values, now time.Time) (listQuery, error) {
	filter, err := catalog.ParseFilter(v, now)
	if err == nil {
		err = findings.CheckKind(filter)
	}
	form := param.Form{Values: v, Err: err}
	q := listQuery{Query: catalog.Query{Filter: filter, Now: now, Limit: pageSizes[0], Sort: "start", Descending: true},
		Given: v}
	q.Group = form.OneOf("group", "cluster", "owner")
	form.Parse("sort", func(given string) bool {
		column := strings.TrimPrefix(given, "-")
		if slices.ContainsFunc(q.webQuery().Columns(), func(c web.Column) bool { return c.Name == column }) {
			q.Sort, q.Descending = column, column != given
			return true
		}
		// When people begin to group, the form still has the order, by a column that groups may not have. This is no
		// mistake; the default order is used.
		return web.IsColumn(column)
	}, "the name of a column, such as start, or -start for the reverse")
	form.Parse("size", func(given string) bool {
		n, err := strconv.Atoi(given)
		known := err == nil && slices.Contains(pageSizes, n)
		if known {
			q.Limit = n
		}
		return known
	}, "25, 50, 100 or 250")
	page := min(max(1, form.Number("page", 1, math.MaxInt64)), maxPage)
	q.From = int(page-1) * q.Limit
	return q, form.Err
}

func (q listQuery) webQuery() web.Query {
	filter := catalog.FilterForm(q.Given)
	// The page's lists of kinds and findings select an option by its exact spelling, so these two have the parsed
	// value.
	for name, value := range map[string]string{"kind": q.Kind, "finding": q.Finding} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	return web.Query{Filter: filter, Group: q.Group, Sort: q.Sort, Descending: q.Descending, Size: q.Limit,
		Sizes: pageSizes}
}

// pager says which of the found rows the page shows, counted from 1.
func (q listQuery) pager(p *catalog.Part) web.Pager {
	return web.Pager{
		Page: p.From/q.Limit + 1, Pages: max(1, (p.Found+q.Limit-1)/q.Limit), From: p.From + 1,
		To: p.From + len(p.Entries) + len(p.Groups),
	}
}
