package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
)

// TestCauseChips: of the kinds of findings that sessions have, those that people look for are one click away, until one
// is chosen.
func TestCauseChips(t *testing.T) {
	h := Home{Tags: catalog.Tags{Findings: []string{"job_failed", "node_died", "task_failed", "out_of_memory"}}}
	var links []string
	for _, chip := range h.CauseChips() {
		links = append(links, chip.Value, chip.Link)
	}
	want := []string{"out of memory", "?finding=out_of_memory&sort=", "node died", "?finding=node_died&sort="}
	if !slices.Equal(links, want) {
		t.Errorf("%q", links)
	}
	if h.Query.Filter = (url.Values{"finding": {"node_died"}}); len(h.CauseChips()) > 0 {
		t.Errorf("chips for a chosen kind: %v", h.CauseChips())
	}
	if !h.Query.More() {
		t.Error("the field of a chosen kind is out of sight")
	}
}

// TestFiltersStay: whatever narrows the list or the totals stays in their forms and links, also what has no field, and
// times, which fields of dates do not show.
func TestFiltersStay(t *testing.T) {
	for value, field := range map[string]string{"2026-11-20": "date", "2026-11-20T23:00:00Z": "text"} {
		filtersStay(t, value, field)
	}
}

func filtersStay(t *testing.T, value, field string) {
	all := url.Values{}
	for _, name := range catalog.FilterParams {
		all.Set(name, value)
	}
	list := Home{Totals: catalog.Totals{Sessions: 1}, Query: Query{Filter: all}}
	totals := Fleet{Form: all, Report: &fleet.Report{From: "2026-11-20", To: "2026-11-20"}}
	for _, page := range []struct {
		Page
		link string
	}{{list, list.Query.PageLink(2)}, {totals, totals.List()}} {
		w := httptest.NewRecorder()
		Write(w, http.StatusOK, page.Page)
		_, query, _ := strings.Cut(page.link, "?")
		linked := must.Get(url.ParseQuery(query))(t)
		for _, name := range catalog.FilterParams {
			if linked.Get(name) != value || !strings.Contains(w.Body.String(), ` name="`+name+`"`) {
				t.Errorf("%s loses %s: %s\n%s", page.template(), name, page.link, w.Body)
			}
		}
		for _, name := range []string{"from", "to"} {
			want := fmt.Sprintf(`<input type="%s" name="%s" value="%s"`, field, name, value)
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s lacks %s", page.template(), want)
			}
		}
	}
}
