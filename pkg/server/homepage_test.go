package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// entries are n sessions, newest first; every third runs, every fifth is a RayJob's.
func entries(n int) []catalog.Entry {
	list := make([]catalog.Entry, n)
	for i := range list {
		e := &list[i]
		e.Ref = layout.Session{Namespace: "default", Cluster: fmt.Sprintf("c%02d", (i*7)%n), Name: fmt.Sprintf("session_%d", i)}
		e.Start = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Add(-time.Duration(i) * time.Hour)
		e.End = e.Start.Add(time.Duration((i*5)%n) * time.Minute)
		e.Running = i%3 == 0
		e.OwnerKind, e.OwnerName = catalog.RayCluster, e.Ref.Cluster
		if i%5 == 0 {
			e.OwnerKind, e.OwnerName = catalog.RayJob, "nightly"
		}
		e.RayVersion = fmt.Sprintf("2.%d.0", 9+i%3)
		e.Bytes = int64((i * 11) % n)
	}
	return list
}

func TestListQuery(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		query       string
		count       int
		first       string // session of the first row
		from, to    int
		page, pages int
	}{
		{query: "", count: 60, first: "session_0", from: 1, to: 25, page: 1, pages: 3},
		{query: "page=3", count: 60, first: "session_50", from: 51, to: 60, page: 3, pages: 3},
		{query: "page=99&size=50", count: 60, first: "session_50", from: 51, to: 60, page: 2, pages: 2},
		{query: "page=-1&size=7&sort=nonsense&state=odd&kind=Pod", count: 60, first: "session_0", from: 1, to: 25, page: 1, pages: 3},
		{query: "sort=start", count: 60, first: "session_59", from: 1, to: 25, page: 1, pages: 3},
		{query: "sort=cluster", count: 60, first: "session_0", from: 1, to: 25, page: 1, pages: 3},
		{query: "sort=-size", count: 60, first: "session_49", from: 1, to: 25, page: 1, pages: 3},
		{query: "sort=-version", count: 60, first: "session_2", from: 1, to: 25, page: 1, pages: 3},
		{query: "sort=duration&state=ended", count: 40, first: "session_1", from: 1, to: 25, page: 1, pages: 2},
		{query: "state=running", count: 20, first: "session_0", from: 1, to: 20, page: 1, pages: 1},
		{query: "kind=rayjob&state=running", count: 4, first: "session_0", from: 1, to: 4, page: 1, pages: 1},
		{query: "q=NIGHTLY+2.11", count: 4, first: "session_5", from: 1, to: 4, page: 1, pages: 1},
		{query: "q=%3Cscript%3E", count: 0, from: 1, to: 0, page: 1, pages: 1},
	} {
		v, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		q := parseListQuery(v)
		found := q.filter(entries(60), now)
		q.order(found, now)
		rows, pager := q.page(found)
		first := ""
		if len(rows) > 0 {
			first = rows[0].Ref.Name
		}
		if len(found) != tc.count || first != tc.first || pager.From != tc.from || pager.To != tc.to || pager.Page != tc.page || pager.Pages != tc.pages {
			t.Errorf("%q: %d found, first %s, %+v", tc.query, len(found), first, pager)
		}
	}
}

func TestEverySortLinkIsUnderstood(t *testing.T) {
	q := parseListQuery(nil)
	for _, column := range q.view().Columns() {
		v, err := url.ParseQuery(strings.TrimPrefix(column.Link, "?"))
		if err != nil {
			t.Fatal(err)
		}
		again := parseListQuery(v)
		if again.Sort != column.Name {
			t.Errorf("the head of %s sorts by %s", column.Name, again.Sort)
		}
	}
}

func TestSearchKeepsTheList(t *testing.T) {
	all := entries(10)
	before := slices.Clone(all)
	q := parseListQuery(url.Values{"sort": {"-size"}})
	q.order(q.filter(all, time.Now()), time.Now())
	for i := range all {
		if all[i].Ref != before[i].Ref {
			t.Fatal("the shared list was sorted")
		}
	}
}

func TestHomepageShowsSessions(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	got := f.ask(t, http.MethodGet, "/homepage?q=lab", asBrowser)
	for _, want := range []string{
		"2 sessions of 1 cluster, 1 running", name, "nightly", "RayJob", "2.60.0", ">ended<", ">running<",
		`action="./namespaces/default/clusters/lab/sessions/` + name + `/"`, `href="./namespaces/default/clusters/lab/sessions/` + name + `/"`,
		"<option>2.55.1</option>", `value="lab"`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if got := f.ask(t, http.MethodGet, "/homepage?q=%3Cscript%3E", asBrowser); !strings.Contains(got.body, "No session matches") || strings.Contains(got.body, "<script>\"") {
		t.Errorf("%s", got.body)
	}
	for _, asset := range []string{"style.css", "home.js", "loading.js", "icon.svg"} {
		if got := f.ask(t, http.MethodGet, "/homepage/assets/"+asset); got.status != 200 || got.body == "" {
			t.Errorf("%s: %d", asset, got.status)
		}
	}
	if got := f.ask(t, http.MethodGet, "/homepage/assets/nope"); got.status != 404 {
		t.Errorf("an asset that is not there: %d", got.status)
	}
}

// TestListShowsOutcomes: the list and /clusters say how a session ended and why, as text, with a link to its findings; of sessions whose findings
// are not kept they say nothing.
func TestListShowsOutcomes(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		putOutcome(t, o, store, layout.Session{Namespace: "default", Cluster: "lab", Name: name}, "train failed: <b>oh no</b>")
	})
	f.waitDescribed(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		page := f.ask(t, http.MethodGet, "/homepage", asBrowser).body
		list := f.ask(t, http.MethodGet, "/clusters").body
		if strings.Contains(page, ">failed<") && strings.Contains(list, `"outcome":"failed"`) {
			for _, want := range []string{`href="./namespaces/default/clusters/lab/sessions/` + name + `/findings"`, "&lt;b&gt;oh no&lt;/b&gt;", ">running<"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %s", want)
				}
			}
			if strings.Contains(page, ">ended<") || strings.Count(page, `class="why"`) != 1 {
				t.Error("the page tells more outcomes than are kept")
			}
			var rows []map[string]any
			if err := json.Unmarshal([]byte(list), &rows); err != nil || rows[0]["cause"] != "train failed: <b>oh no</b>" || rows[1]["outcome"] != nil {
				t.Errorf("%v: %v", err, rows)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no outcome is shown: %s %s", page, list)
		}
	}
}
