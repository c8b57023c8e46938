package web

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// Query says which part of the list is shown, in which order.
type Query struct {
	Filter     url.Values // those of catalog.FilterParams that are set, as they were given
	Group      string     // cluster, owner or "": each session is a row
	Sort       string
	Descending bool
	Size       int
	Sizes      []int
}

// The form always shows the fields of homeInSight. The filters of homeHidden have no fields. The fields of other
// filters are folded.
var (
	homeInSight = []string{"q", "namespace", "outcome", "state"}
	homeHidden  = []string{"cluster", "shorter", "smaller"}
)

// Hidden are the filters without a field.
func (q Query) Hidden() []Param { return paramsOf(q.Filter, homeHidden) }

// OpensMore says whether one of the filters is set whose fields are folded, so that they have to be open.
func (q Query) OpensMore() bool {
	for name := range q.Filter {
		if !slices.Contains(homeInSight, name) && !slices.Contains(homeHidden, name) {
			return true
		}
	}
	return false
}

// Narrowed says whether the query filters the list.
func (q Query) Narrowed() bool { return len(q.Filter) > 0 }

// SortParam is the sort parameter of the query.
func (q Query) SortParam() string {
	if q.Descending {
		return "-" + q.Sort
	}
	return q.Sort
}

// newestFirst is the order of a list for which none is chosen.
const newestFirst = "-start"

// link is the address of a page of the list in an order, relative to the list.
func (q Query) link(sort string, page int) string {
	return "?" + q.values(sort, page).Encode()
}

// firstPage is the number of the list's first page.
const firstPage = 1

// values are the parameters of a page of the list in an order; a parameter that has its default is left out.
func (q Query) values(sort string, page int) url.Values {
	v := url.Values{}
	maps.Copy(v, q.Filter)
	if sort != newestFirst {
		v.Set("sort", sort)
	}
	if len(q.Sizes) > 0 && q.Size != q.Sizes[0] {
		v.Set("size", strconv.Itoa(q.Size))
	}
	if q.Group != "" {
		v.Set("group", q.Group)
	}
	if page > firstPage {
		v.Set("page", strconv.Itoa(page))
	}
	return v
}

// Chip is a filter with one value. Link adds it to the list's filters or, if it is Chosen, takes it away.
type Chip struct {
	Name, Value, Link string
	Chosen            bool
}

// filterChip is a link that adds a filter to the list, or removes it if it is chosen.
func (q Query) filterChip(name, value string) Chip {
	v := q.values(q.SortParam(), 1)
	chosen := v.Get(name) == value
	if chosen {
		v.Del(name)
	} else {
		v.Set(name, value)
	}
	return Chip{Name: name, Value: value, Link: "?" + v.Encode(), Chosen: chosen}
}

// Chosen are the filters that are set and name something, such as a cluster or a user: each with a link that removes
// it. Other filters, such as those by state, are shown as choices, see States.
func (q Query) Chosen() (chips []Chip) {
	names := []string{"cluster", "owner", "namespace", "user", "label", "finding", "kubernetes_cluster"}
	for _, set := range paramsOf(q.Filter, names) {
		chip := q.filterChip(set.Name, set.Value)
		switch set.Name {
		case "kubernetes_cluster":
			chip.Name = "Kubernetes cluster"
		case "finding":
			chip.Value = kindText(set.Value)
		}
		chips = append(chips, chip)
	}
	return chips
}

// States are the filters by state and outcome that people choose most.
func (q Query) States() []Chip {
	chips := []Chip{q.filterChip("state", catalog.Running)}
	for _, outcome := range []string{catalog.Failed, catalog.Unfinished, catalog.Succeeded} {
		chips = append(chips, q.filterChip("outcome", outcome))
	}
	return chips
}

// PageLink is the address of another page of the same list.
func (q Query) PageLink(page int) string { return q.link(q.SortParam(), page) }

// GroupLink is the address of the sessions of a group.
func (q Query) GroupLink(g catalog.Group) string {
	v := q.values(newestFirst, firstPage)
	v.Set("namespace", g.Namespace)
	if q.Group == "owner" {
		v.Set("owner", g.Name)
		v.Set("kind", g.Kind)
	} else {
		v.Set("cluster", g.Name)
	}
	v.Del("group")
	return "?" + v.Encode()
}

// Column is the head of one column.
type Column struct {
	Name, Title string
	Link        string // address of the list sorted by the column, or in reverse if it is sorted by it
	Order       string // value of aria-sort: "none", "ascending" or "descending"
}

// IsColumn says whether a list can be sorted by a name, whatever it is grouped by.
func IsColumn(name string) bool {
	for _, group := range []string{"", "cluster", "owner"} {
		if slices.ContainsFunc(Query{Group: group}.Columns(), func(c Column) bool { return c.Name == name }) {
			return true
		}
	}
	return false
}

// Columns are the list's columns in order. The link of a column sorts by it: the other way round if the list is sorted
// by it already, otherwise numbers and times from the greatest on, and texts from the first on.
func (q Query) Columns() []Column {
	columns := []Column{
		{Name: "cluster", Title: "Cluster"}, {Name: "namespace", Title: "Namespace"},
		{Name: "sessions", Title: "Sessions"}, {Name: "state", Title: "Failed"},
		{Name: "start", Title: "Newest"}, {Name: "duration", Title: "Duration"}, {Name: "size", Title: "Size"},
	}
	switch q.Group {
	case "owner":
		columns[0].Title = "Owner"
		columns = slices.Insert(columns, 2, Column{Name: "kind", Title: "Kind"})
	case "":
		columns = []Column{
			{Name: "cluster", Title: "Cluster and session"}, {Name: "namespace", Title: "Namespace"},
			{Name: "kind", Title: "Owner"},
			{Name: "state", Title: "Outcome"}, {Name: "start", Title: "Start"},
			{Name: "duration", Title: "Duration"},
			{Name: "version", Title: "Ray"}, {Name: "size", Title: "Size"},
		}
	}
	for i := range columns {
		c := &columns[i]
		descendingFirst := slices.Contains([]string{"start", "duration", "size", "version", "sessions"}, c.Name) ||
			c.Name == "state" && q.Group != "" // of groups it is the number of failed sessions
		sort := c.Name
		switch {
		case c.Name == q.Sort && q.Descending:
			c.Order = "descending"
		case c.Name == q.Sort:
			sort, c.Order = "-"+c.Name, "ascending"
		default:
			c.Order = "none"
			if descendingFirst {
				sort = "-" + c.Name
			}
		}
		c.Link = q.link(sort, firstPage)
	}
	return columns
}

// ColumnCount is the number of columns of the table of sessions: those of Columns, and one with buttons.
func (q Query) ColumnCount() int { return len(q.Columns()) + 1 }
