package list

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

func TestListQuery(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for query, want := range map[string]catalog.Query{
		"":                      {Sort: "start", Descending: true, Limit: 25},
		"page=3&sort=size":      {Sort: "size", Limit: 25, From: 50},
		"page=99&size=50":       {Sort: "start", Descending: true, Limit: 50, From: 98 * 50},
		"page=-1&size=7":        {Sort: "start", Descending: true, Limit: 25},
		"sort=nonsense&group=x": {Sort: "start", Descending: true, Limit: 25},
		"sort=-sessions":        {Sort: "start", Descending: true, Limit: 25},
		"sort=-sessions&group=owner&page=9999999999999": {Sort: "sessions", Descending: true, Group: "owner", Limit: 25,
			From: (maxPage - 1) * 25},
		"page=9999999999999999999999": {Sort: "start", Descending: true, Limit: 25, From: (maxPage - 1) * 25},
	} {
		v := must.Get(url.ParseQuery(query))(t)
		want.Now = now
		q, _ := parseListQuery(v, now)
		says.True(t, reflect.DeepEqual(q.Query, want), "%q: %+v, want %+v", query, q.Query, want)
	}
}

func TestEverySortLinkIsUnderstood(t *testing.T) {
	for _, group := range []string{"", "cluster", "owner"} {
		q, _ := parseListQuery(url.Values{"group": {group}}, time.Now())
		for _, column := range q.webQuery().Columns() {
			v, err := url.ParseQuery(strings.TrimPrefix(column.Link, "?"))
			must.OK(t, err)
			again, err := parseListQuery(v, time.Now())
			says.True(t, err == nil && again.Sort == column.Name && again.Group == group,
				"the head of %s, by %q, sorts by %s, by %q", column.Name, group, again.Sort, again.Group)
		}
	}
}
