package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
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
	says.EqualSlices(t, links, want)
	if h.Query.Filter = (url.Values{"finding": {"node_died"}}); len(h.CauseChips()) > 0 {
		t.Errorf("chips for a chosen kind: %v", h.CauseChips())
	}
	says.True(t, h.Query.OpensMore(), "the field of a chosen kind is out of sight")
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
			says.True(t, linked.Get(name) == value && strings.Contains(w.Body.String(), ` name="`+name+`"`),
				"%s loses %s: %s\n%s", page.template(), name, page.link, w.Body)
		}
		for _, name := range []string{"from", "to"} {
			want := fmt.Sprintf(`<input type="%s" name="%s" value="%s"`, field, name, value)
			says.True(t, strings.Contains(w.Body.String(), want), "%s lacks %s", page.template(), want)
		}
	}
}

// TestTotalsLinkToTheList: links from totals to the list have only filters, because the list refuses what else totals
// take; and only filters narrow the totals.
func TestTotalsLinkToTheList(t *testing.T) {
	given, others := url.Values{}, url.Values{"from": {"2026-11-20"}, "to": {"2026-11-20"}}
	for _, name := range fleet.Params {
		given.Set(name, "x")
		if !slices.Contains(catalog.FilterParams, name) {
			others.Set(name, "x")
		}
	}
	_, query, _ := strings.Cut(Fleet{Form: given, Report: &fleet.Report{}}.List(), "?")
	linked := must.Get(url.ParseQuery(query))(t)
	for name := range linked {
		says.True(t, slices.Contains(catalog.FilterParams, name), "a link to the list has %s", name)
	}
	says.Equal(t, len(linked), len(catalog.FilterParams), "parameters of a link to the list")
	says.True(t, !Fleet{Form: others}.Narrowed(), "%s narrows the totals", others.Encode())
}

// TestStyleOfMergedLogs: the style sheet has a colour and a column for each log of those side by side, and no more.
func TestStyleOfMergedLogs(t *testing.T) {
	sheet := must.Get(assetFiles.ReadFile("assets/style.css"))(t)
	check := func(want bool, rule string, number int) {
		if rule = fmt.Sprintf(rule, number); strings.Contains(string(sheet), "\n"+rule+" {") != want {
			t.Errorf("%q is in the style sheet: %v, want %v", rule, !want, want)
		}
	}
	for i := range MaxMerged + 1 { // the last one is one too many
		has := i < MaxMerged
		check(has, ".of.c%d", i)
		if i > 0 { // the first log has the first column, a single one all of the room
			check(has, ".wide .c%d .text", i)
			check(has, ".wide.of%d .line", i+1)
		}
	}
}

// TestClocksOfNodes: what nodes cost and jobs took goes by the nodes' clocks, also if these are ahead of the store's.
func TestClocksOfNodes(t *testing.T) {
	began := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	ended := began.Add(time.Hour)
	const ahead = 15 * time.Minute
	o := Overview{
		Frame: Frame{Head: &Head{Start: began, End: ended}}, Entry: catalog.Entry{Start: began, End: ended},
		Began: began, Ended: ended.Add(ahead),
		Nodes:  []*moment.Node{{Start: began.Add(ahead).UnixNano()}},
		Report: &findings.Report{Jobs: []findings.Job{{JobID: "01000000"}}},
		OfJobs: []moment.Job{{ID: "01000000", Start: began.Add(2 * ahead).UnixNano()}},
		Prices: &fleet.Prices{Currency: "USD", Price: fleet.Price{Node: 2}},
	}
	cost, took := o.Cost(), o.Jobs()[0].Took
	says.True(t, cost == "2.00 USD" && took == time.Hour-ahead, "%s, %s", cost, took)
}

// TestSuggested: the run before is offered, and the last that succeeded before it if it did not.
func TestSuggested(t *testing.T) {
	run := func(name, outcome string) Run {
		return Run{Entry: catalog.Entry{Ref: layout.Session{Namespace: "ns", Cluster: "c", Name: name},
			Start: time.Unix(1795341600, 0), Summary: catalog.Summary{Outcome: outcome}}}
	}
	runs := []Run{run("a", "succeeded"), run("b", "succeeded"), run("c", "failed"), run("d", "failed"),
		run("e", "succeeded"), run("f", "failed"), run(catalog.Live, "")}
	for of, want := range map[string][]string{
		"a": {"the run after", "b"}, "c": {"the run before", "b", "the run after", "d"},
		"d":    {"the run before", "c", "the last that succeeded", "b", "the run after", "e"},
		"f":    {"the run before", "e"},
		"gone": nil,
	} {
		page := Compare{Runs: runs, Frame: Frame{Head: &Head{Ref: layout.Session{Namespace: "ns", Cluster: "c", Name: of}}}}
		var got []string
		for _, chip := range page.Suggested() {
			got = append(got, chip.Name, chip.Link[len(chip.Link)-1:])
		}
		says.EqualSlices(t, got, want, "of %s", of)
	}
}

// TestFiguresOfNeither: hours that neither session had, as of clusters without GPUs, are no rows.
func TestFiguresOfNeither(t *testing.T) {
	page := Compare{Report: &compare.Report{
		With: &compare.Side{Asked: compare.Hours{CPU: 2}}, Session: &compare.Side{}}}
	var names []string
	for _, f := range page.Figures() {
		if strings.Contains(f.Name, "hours") {
			names = append(names, f.Name)
		}
	}
	want := []string{"CPU hours, of the nodes"}
	says.True(t, slices.Equal(names, want), "%q, want %q", names, want)
}

// TestOutcomesAreDrawn: each outcome that says how jobs ended has a sign, and a colour wherever it is shown.
func TestOutcomesAreDrawn(t *testing.T) {
	grey := []string{catalog.Stopped, catalog.Unknown}
	style := string(must.Get(assetFiles.ReadFile("assets/style.css"))(t))
	for _, outcome := range catalog.Outcomes {
		run := Run{Entry: catalog.Entry{Summary: catalog.Summary{Outcome: outcome}}}
		says.True(t, run.Sign() != "" || outcome == catalog.Unknown, "%s has no sign: add it to Run.Sign", outcome)
		for _, place := range []struct{ file, text, selector string }{{"assets/style.css", style, ".run."},
			{"assets/style.css", style, ".chip."}, {"bar.css", barStyle, ".outcome."}} {
			says.True(t, slices.Contains(grey, outcome) || strings.Contains(place.text, place.selector+outcome),
				"%s has no %s%s: add its colour, or name it as grey here", place.file, place.selector, outcome)
		}
	}
}
