package server

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestHomepageShowsSessions(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	got := f.ask(t, http.MethodGet, "/homepage?q=lab", asBrowser)
	got.has(t, "2 sessions of 1 cluster, 1 running", name, "nightly", "RayJob", "2.60.0", ">ended<", ">running<",
		`action="./namespaces/default/clusters/lab/sessions/`+name+`/"`,
		`href="./namespaces/default/clusters/lab/sessions/`+name+`/"`, "<option>2.55.1</option>", `value="lab"`)
	f.ask(t, http.MethodGet, "/homepage?q=%3Cscript%3E", asBrowser).has(t, "No session matches").lacks(t, "<script>\"")
	for _, asset := range []string{"style.css", "home.js", "loading.js", "icon.svg"} {
		if got := f.ask(t, http.MethodGet, "/homepage/assets/"+asset); got.status != 200 || got.body == "" {
			t.Errorf("%s: %d", asset, got.status)
		}
	}
	f.ask(t, http.MethodGet, "/homepage/assets/nope").wants(t, 404)
}

// TestListByGroups: the list has a row for each cluster or owner, with a link to its sessions, which keeps what else is
// asked for.
func TestListByGroups(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	link := regexp.MustCompile(`<a class="name" href="(\?[^"]*)">`)
	for group, want := range map[string]string{"cluster": "cluster=lab", "owner": "owner=nightly"} {
		got := f.ask(t, http.MethodGet, "/homepage?size=50&group="+group, asBrowser)
		found := link.FindAllStringSubmatch(got.body, -1)
		i := slices.IndexFunc(found, func(m []string) bool { return strings.Contains(m[1], want) })
		must.True(t, i >= 0 && strings.Contains(got.body, `<option value="`+group+`" selected`), "by %s: %v\n%s", group,
			found, got.body)
		of := f.ask(t, http.MethodGet, "/homepage"+html.UnescapeString(found[i][1]), asBrowser)
		says.True(t, strings.Contains(of.body, name) &&
			(strings.Contains(of.body, "size=50") || strings.Contains(of.body, "<option selected>50")) &&
			!strings.Contains(of.body, "selected>Cluster"), "the link %s leads to\n%s", found[i][1], of.body)
	}
}

// TestListShowsOutcomes: the list and /clusters say how a session ended and why, as text, with a link to its findings;
// of sessions whose findings are not kept they say nothing.
func TestListShowsOutcomes(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		putOutcome(t, store, layout.Session{Namespace: "default", Cluster: "lab", Name: name},
			"train failed: <b>oh no</b>")
	})
	f.waitDescribed(t)
	var page, list string
	must.Happen(t, "that the outcome is shown", func() bool {
		page, list = f.ask(t, http.MethodGet, "/homepage", asBrowser).body, f.ask(t, http.MethodGet, "/clusters").body
		return strings.Contains(page, ">failed<") && strings.Contains(list, `"outcome":"failed"`)
	})
	says.All(t, page, `href="./namespaces/default/clusters/lab/sessions/`+name+`/findings"`,
		"&lt;b&gt;oh no&lt;/b&gt;", ">running<")
	if !strings.Contains(page, `findings" title="train failed: &lt;b&gt;oh no&lt;/b&gt;">train failed: &lt;b&gt;oh no&lt;/b&gt;</a></td></tr>`) || strings.Count(page, `<tr class="because" hidden>`) != 1 {
		t.Errorf("the line with the cause: %s", page)
	}
	says.True(t, !strings.Contains(page, ">ended<") && strings.Count(page, `class="why"`) == 1,
		"the page tells more outcomes than are kept")
	var rows []map[string]any
	err := json.Unmarshal([]byte(list), &rows)
	says.True(t, err == nil && rows[0]["cause"] == "train failed: <b>oh no</b>" && rows[1]["outcome"] == nil, "%v: %v",
		err, rows)
}

// TestListShowsFailedJobs: the list, /clusters and an assistant's list tell how many jobs of a running session have
// failed, with a link to its findings, and the session is found by its jobs. Who may not see the session is told
// nothing.
func TestListShowsFailedJobs(t *testing.T) {
	f, _ := guarded(t)
	job := func(n int) string {
		return fmt.Sprintf(`{"submission_id": "nightly-%d", "status": "FAILED", "message": "exit code 1"}`, 7+n)
	}
	refs := []layout.Session{
		{Namespace: "default", Cluster: "busy", Name: "session_2026-11-22_10-00-00_000000_1"},
		{Namespace: "secret", Cluster: "classified", Name: "session_2026-11-22_10-00-00_000000_1"},
	}
	for i, ref := range refs {
		put(t, f.store, layout.MarkerKey(root, ref), "")
		jobs := strings.Join([]string{job(0), job(1), job(2)}[:2+i], ",")
		put(t, f.store, layout.SnapshotKey(root, ref, "/api/jobs/"), "["+jobs+"]")
	}
	must.OK(t, f.catalog.Refresh(t.Context()))
	f.waitDescribed(t)
	for who, want := range map[string]int{"ann": 0, "bob": 1} {
		bearer := "Authorization: Bearer " + who
		var rows []struct {
			Name       string
			State      string
			Outcome    string
			FailedJobs *int
		}
		list := f.ask(t, http.MethodGet, "/clusters?q=NIGHTLY-7", bearer).body
		if err := json.Unmarshal([]byte(list), &rows); err != nil || len(rows) != 1 ||
			rows[0].Name != refs[want].Cluster || rows[0].State != "running" || rows[0].Outcome != "" ||
			*rows[0].FailedJobs != want+2 {
			t.Errorf("%s: %v, %s", who, err, list)
		}
		if rest := f.ask(t, http.MethodGet, "/clusters?state=ended", bearer).body; strings.Contains(rest,
			"failedJobs") {
			t.Errorf("%s: %s", who, rest)
		}
		if failed := f.ask(t, http.MethodGet, "/clusters?outcome=failed&state=running",
			bearer).body; strings.TrimSpace(failed) != "[]" {
			t.Errorf("%s: %s", who, failed)
		}
		page := f.ask(t, http.MethodGet, "/homepage", bearer, asBrowser).body
		text, link := fmt.Sprintf("%d jobs failed", want+2), `<a class="why" href="./`+refs[want].Path()+`findings">`
		says.True(t, strings.Contains(page, text) && strings.Contains(page, link) &&
			strings.Count(page, "jobs failed") == 1 && strings.Contains(page, ">running<"), "%s: no %s with %s:\n%s",
			who, text, link, page)
		told, _ := call(t, assistantOf(t, f, who), "list_sessions", nil)
		if text := fmt.Sprintf(`"failedJobs":%d,`, want+2); strings.Count(told, "failedJobs") != 1 ||
			!strings.Contains(told, text) {
			t.Errorf("%s: an assistant is told %s", who, told)
		}
	}
}

// TestLastRuns: the list of one cluster, and each group, shows its last runs as squares that say how each ended, when
// and why; other lists show none.
func TestLastRuns(t *testing.T) {
	const runs = 45
	f := start(t, func(o *Options, store *gatedStore) {
		for i := range runs {
			put(t, store, layout.MarkerKey(root, layout.Session{Namespace: "default", Cluster: "many",
				Name: fmt.Sprintf("session_2026-11-18_00-%02d-00_000000_1", i)}), "")
		}
		putOutcome(t, store, layout.Session{Namespace: "default", Cluster: "lab", Name: name},
			"train failed: <b>oh no</b>\u202e")
	})
	f.waitDescribed(t)
	for query, want := range map[string]int{"?namespace=default&cluster=lab": 2, "?namespace=default&cluster=many": 40,
		"?owner=nightly": 1, "": 0, "?q=lab": 0, "?group=cluster": 12, "?group=owner": 12} {
		page := f.ask(t, http.MethodGet, "/homepage"+query, asBrowser).body
		says.Equal(t, strings.Count(page, `<a class="run `), want, "%q: squares: %s", query, main(page))
		if !strings.Contains(query, "many") && want > 0 {
			failed := `<a class="run failed" href="./namespaces/default/clusters/lab/sessions/` + name +
				`/findings" title="failed after 5m`
			says.All(t, page, failed, "began 2026-11-20 23:19 UTC: train failed: &lt;b&gt;oh no&lt;/b&gt;\"")
		}
	}
	// The newest is the last.
	page := f.ask(t, http.MethodGet, "/homepage?namespace=default&cluster=many", asBrowser).body
	page = page[strings.Index(page, `class="runs"`):]
	first, last := strings.Index(page, "00-05-00"), strings.Index(page, "00-44-00")
	says.True(t, first >= 0 && last >= first && !strings.Contains(page[:strings.Index(page, "</ol>")], "00-04-00"),
		"the order of runs: %d, %d", first, last)
}

// TestFilterByTags: the list offers the users and labels of sessions that the caller may see, and is filtered
// by them, as /clusters is.
func TestFilterByTags(t *testing.T) {
	f, _ := guarded(t)
	for namespace, user := range map[string]string{"default": "Uma", "secret": "mallory"} {
		ref := layout.Session{Namespace: namespace, Cluster: "tagged", Name: "session_2026-11-22_10-00-00_000000_1"}
		put(t, f.store, layout.MarkerKey(root, ref), "")
		put(t, f.store, layout.MetadataKey(root, ref, layout.Start), `{"labels":{"tier":"`+user+`-1","team":"ml"}}`)
		put(t, f.store, layout.SnapshotKey(root, ref, "/api/jobs/"),
			`[{"submission_id":"raysubmit_1","status":"RUNNING","metadata":{"user":"`+user+`"}}]`)
	}
	must.OK(t, f.catalog.Refresh(t.Context()))
	f.waitDescribed(t)
	ann := "Authorization: Bearer ann"
	page := f.ask(t, http.MethodGet, "/homepage?user=UMA&label=tier", ann, asBrowser).body
	says.All(t, page, `<option value="uma">`, `<option value="tier=uma-1">`, `href="?label=tier"`,
		`name="user" list="users" value="UMA"`, "tagged")
	says.None(t, page, "mallory", ">lab<")
	if page := f.ask(t, http.MethodGet, "/homepage", ann, asBrowser).body; !strings.Contains(page,
		`href="?user=uma"><span class="faint">user</span> uma</a>`) ||
		!strings.Contains(page, `href="?label=team%3Dml"`) {
		t.Error("the page has no chips of users and labels")
	}
	if page := f.ask(t, http.MethodGet, "/homepage?finding=Node+died", ann, asBrowser).body; !strings.Contains(page,
		`<option value="node_died" selected>node died</option>`) || !strings.Contains(page, "finding node died <span") {
		t.Errorf("the page does not show the kind of finding that was asked for: %s", main(page))
	}
	for query, want := range map[string]int{"finding=node_died": 0, "finding=": 4, "user=uma": 1, "user=um": 0, "user=mallory": 0, "label=team%3Dml": 1,
		"label=tier": 1, "label=team,tier%3Duma-1": 1, "label=tier%3Duma": 0} {
		var rows []any
		body := f.ask(t, http.MethodGet, "/clusters?"+query, ann).body
		err := json.Unmarshal([]byte(body), &rows)
		says.True(t, err == nil && len(rows) == want, "%s: %v, %s", query, err, body)
	}
	f.ask(t, http.MethodGet, "/clusters?label=,", ann).wants(t, http.StatusBadRequest, "team=search")
	for _, path := range []string{"/clusters", "/homepage", "/api/history/fleet", "/fleet"} {
		f.ask(t, http.MethodGet, path+"?finding=oom", ann, asBrowser).wants(t, http.StatusBadRequest, "out_of_memory")
	}
}
