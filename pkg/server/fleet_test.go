package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// began is when the sessions called name began.
var began = time.Date(2026, 11, 20, 23, 19, 45, 0, time.UTC)

// november is a query for their days.
const november = "?from=2026-11-01&to=2026-11-30"

// withPack has the server know what a pack tells of a session.
func withPack(t *testing.T, o *Options, store blob.Store, facts packs.Facts) {
	t.Helper()
	all := &packs.Packs{Store: store, Root: root}
	must.OK(t, all.Append(t.Context(), layout.PackDay(facts.Ref), nil, []packs.Facts{facts}))
	o.Fleet = &fleet.Fleet{Packs: all}
}

// TestWrongTable: a table that there is not is refused before anything is read for the report.
func TestWrongTable(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		down := &storetest.Hooked{Store: store, Before: func(context.Context, storetest.Op, string) error {
			return errors.New("the store is down")
		}}
		o.Fleet = &fleet.Fleet{Packs: &packs.Packs{Store: down, Root: root}}
	})
	for table, status := range map[string]int{"": 400, "job": 400, "jobs": 502} {
		f.ask(t, http.MethodGet, "/api/history/fleet?format=csv&table="+table).wants(t, status)
	}
}

func TestFleet(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		withPack(t, o, store, packs.Facts{
			Ref: layout.Session{Namespace: "default", Cluster: "lab", Name: name}, Seen: time.Now(), Start: began,
			End: began.Add(time.Hour), LastWrite: began.Add(time.Hour),
			Summary: packs.Summary{OwnerKind: catalog.RayJob, OwnerName: "nightly", Outcome: "failed"},
			Findings: []packs.Finding{{Kind: "task_failed", Severity: "error", Signature: "task_failed",
				Title: "Task <f> failed", Count: 1}},
			Jobs: []packs.Job{{Name: "train <x>", Status: "FAILED"}},
			Hours: &packs.Hours{Amounts: packs.Amounts{Node: 1, CPU: 8, Memory: 3},
				Used: &packs.Used{CPU: 2, Memory: 3}},
		})
	})
	f.waitDescribed(t)
	got := f.ask(t, http.MethodGet, "/api/history/fleet"+november, asProgram)
	var answer struct{ Data fleet.Report }
	err := json.Unmarshal([]byte(got.body), &answer)
	must.True(t, err == nil && got.status == http.StatusOK, "%d %v %s", got.status, err, got.body)
	r := answer.Data
	if r.Total.Sessions != 2 || r.Total.Failed != 1 || r.Total.Running != 1 || r.Total.Unmeasured != 1 ||
		r.Total.Hours.CPU.Offered != 8 || *r.Total.Hours.CPU.Unused != 0.75 || len(r.Days) != 2 {
		t.Errorf("%s", got.body)
	}
	page := f.ask(t, http.MethodGet, "/fleet"+november, asBrowser)
	page.wants(t, http.StatusOK, "Task &lt;f&gt; failed",
		`namespaces/default/clusters/lab/sessions/`+name+`/findings"`, "train &lt;x&gt;", "75 %",
		`<rect class="failed"`, `aria-label="2026-11-02: 0 sessions, 0 failed"`,
		`homepage?finding=task_failed&amp;from=2026-11-01&amp;to=2026-11-30">task failed</a></td>`,
		`aria-sort="descending"><a href="?by=cpu&amp;`, "100 % of those whose outcome is known",
		`homepage?from=2026-11-01&amp;kind=RayJob&amp;namespace=default&amp;owner=nightly&amp;to=2026-11-30"`,
		`homepage?from=2026-11-01&amp;namespace=default&amp;q=train&#43;%3Cx%3E&amp;to=2026-11-30"`,
		`homepage?from=2026-11-20&amp;to=2026-11-20"`, "The hours of 1 session are not known",
		`api/history/fleet?format=csv&amp;from=2026-11-01&amp;table=jobs&amp;to=2026-11-30"`,
		`aria-current="page">Fleet`)
	page.lacks(t, ">GPU h<")
	narrow := f.ask(t, http.MethodGet, "/fleet"+november+"&cluster=lab&q=lab", asBrowser)
	narrow.has(t, `<input type="hidden" name="cluster" value="lab">`, "Of the cluster lab only", ">Clear<",
		`q=lab&#43;train&#43;%3Cx%3E&amp;`, "q=lab&amp;table=jobs")
	for path, want := range map[string]struct {
		status int
		holds  string
	}{
		"/fleet?from=2020-01-01&to=2020-01-02": {200, "No session began on these days"},
		"/fleet?q=nobody":                      {200, "No session of these days matches"},
		"/fleet/":                              {302, ""},
		"/fleet?from=never":                    {400, "Want a date"},
		"/api/history/fleet?by=gold":           {400, "node, cpu, gpu, memory or cost"},
		"/api/history/fleet?format=xml":        {400, "json or csv"},
		"/api/history/fleet?format=csv":        {400, "one of days, causes"},
		"/api/history/fleet?top=0":             {400, "from 1 to"},
		"/api/history/fleet" + november + "&format=csv&table=causes": {200,
			"task_failed,task_failed,Task <f> failed,1,"},
		"/api/history/fleet" + november + "&format=csv&table=namespaces": {200, "default,2,1,1,8,8,2,0.75,"},
	} {
		f.ask(t, http.MethodGet, path, asProgram).wants(t, want.status, want.holds)
	}
}

// TestCostsOnPages: with prices, the page of the fleet and a session's overview have costs, and the budget is a line;
// without, nothing is said about money.
func TestCostsOnPages(t *testing.T) {
	for _, prices := range []*fleet.Prices{nil, {Currency: "€<x>", Price: fleet.Price{CPU: 2},
		Budgets: []fleet.Budget{{Namespace: "default", Month: 10}}}} {
		f := start(t, func(o *Options, store *gatedStore) {
			withPack(t, o, store, packs.Facts{
				Ref: layout.Session{Namespace: "default", Cluster: "lab", Name: name}, Seen: time.Now(), Start: began,
				End: began.Add(time.Hour), LastWrite: began.Add(time.Hour), Summary: packs.Summary{Outcome: "failed"},
				Jobs:  []packs.Job{{Name: "train", User: "ada"}},
				Hours: &packs.Hours{Amounts: packs.Amounts{Node: 1, CPU: 8}}})
			o.Fleet.Prices = prices
			o.Findings = func(context.Context, *moment.Moment) (*findings.Report, error) {
				return &findings.Report{Outcome: catalog.Failed}, nil
			}
		})
		f.waitDescribed(t)
		page := f.ask(t, http.MethodGet, "/fleet"+november, asBrowser).body
		overview := f.ask(t, http.MethodGet, lab+name+"/overview", asBrowser).body
		for _, want := range []string{"Cost by day in €&lt;x&gt;", "16.00 €&lt;x&gt;", `class="limit"`,
			`class="number worse">160 %`,
			`value="cost"`, "Cost in €"} {
			says.Equal(t, strings.Contains(page, want), (prices != nil), "prices %v: the page has %q: %v", prices, want,
				prices == nil)
		}
		says.True(t, strings.Contains(page, "Hours by user") &&
			strings.Contains(overview, "Cost of the nodes") == (prices != nil), "prices %v: %s", prices, overview)
	}
}

func TestFleetOfTooMany(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) { o.Fleet = &fleet.Fleet{MaxSessions: 1} })
	f.waitDescribed(t)
	f.ask(t, http.MethodGet, "/fleet"+november, asProgram).wants(t, http.StatusBadRequest, "Select fewer days")
}
