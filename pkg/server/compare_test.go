package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestCompare: the latest session stands beside the one before, or the one that is named, as a page and as JSON; both
// are in the cache then.
func TestCompare(t *testing.T) {
	f := logged(t)
	for _, tc := range []struct {
		path   string
		status int
		holds  []string
	}{
		{lab + "latest/compare", 200, []string{"Comparison of lab", name, old,
			`href="../../../../../../namespaces/default/clusters/lab/sessions/` + old + `/findings"`,
			`href="api/history/compare"`}},
		{lab + name + "/compare?with=" + old, 200, []string{old, `value="` + old + `"`,
			`href="api/history/compare?with=` + old + `"`}},
		{lab + old + "/compare?with=default/lab/" + name, 200, []string{"Comparison of lab", name, "Last runs",
			`class="marked"`, `"compare?with=default%2Flab%2F` + name + `"`,
			`aria-current="true"><span class="faint">the run after</span>`}},
		{lab + name + "/at/2026-11-20T23:21:00Z/compare", 200,
			[]string{"/at/1795216860000/findings", `/sessions/` + old + `/findings"`}},
		{lab + name + "/compare?with=%3Cscript%3E", 400, []string{`<input name="with"`}},
		{lab + old + "/compare", 200, []string{"Nothing earlier of this cluster is stored.", `<input name="with"`,
			name + `"><span class="faint">the run after</span>`, `aria-current="page">Compare</a>`}},
		{lab + old + "/compare?job=x", 404, []string{`<input name="with"`, `value="x"`}},
		{lab + old + "/search", 200, []string{`/compare">Compare</a>`}},
		{lab + name + "/compare?top=3", 200, []string{`<input type="hidden" name="top" value="3">`}},
		{lab + name + "/compare?with=" + name, 404, []string{"the same session twice"}},
		{lab + name + "/compare?with=session_2020-01-01_00-00-00_000000_1", 410,
			[]string{"has no session session_2020", `<input name="with"`}},
		{lab + old + "/compare?with=default/lab", 200, []string{"Comparison of lab", name}},
		{lab + old + "/compare?with=https://hs.example.com" + lab + name + "/findings", 200,
			[]string{"Comparison of lab", name}},
		{lab + name + "/compare?with=a/b&job=j", 410, []string{"a cluster b in namespace a", `value="a/b"`, `value="j"`}},
		{lab + name + "/compare?with=a/b/c/d", 400, []string{"namespace/cluster/session", `value="a/b/c/d"`}},
		{lab + name + "/compare?top=0", 400, []string{"from 1 to 200"}},
		{lab + name + "/compare?top=201", 400, []string{"from 1 to 200"}},
		{lab + name + "/compare?job=%3Cb%3Enone", 404, []string{"has no job &#34;&lt;b&gt;none&#34;"}},
		{lab + name + "/compare?with_job=x", 404, []string{"Name both jobs"}},
	} {
		got := f.ask(t, http.MethodGet, tc.path, asBrowser)
		got.wants(t, tc.status)
		for _, want := range tc.holds {
			got.has(t, want)
		}
		got.lacks(t, "<script>", "<b>none")
	}
	if got := f.ask(t, http.MethodGet, lab+name+"/compare/", asBrowser); got.header.Get("Location") != "../compare" {
		t.Errorf("with a slash at the end: %d %v", got.status, got.header)
	}
	got := f.ask(t, http.MethodGet, lab+"latest/api/history/compare")
	var answer struct {
		Result bool           `json:"result"`
		Data   compare.Report `json:"data"`
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || !answer.Result ||
		answer.Data.Session.Session != name || answer.Data.With.Session != old {
		t.Errorf("%d %v %s", got.status, err, got.body)
	}
	cache := f.Config.Handler.(*Server).opts.Sessions
	for _, session := range []string{name, old} {
		e, err := f.catalog.Find(t.Context(), catalog.Selector{Namespace: "default", Name: "lab", Session: session})
		must.OK(t, err)
		_, cached := cache.Peek(e.Ref)
		says.True(t, cached, "session %s was not loaded by the cache", session)
	}
	for _, tc := range []struct {
		path string
		want bool
	}{{name, true}, {old, true}} {
		list := f.ask(t, http.MethodGet, "/homepage", asBrowser)
		says.Equal(t, strings.Contains(list.body, "sessions/"+tc.path+"/compare"), tc.want,
			"the list leads to a comparison of %s", tc.path)
	}
}

// TestComparisonsDoNotLeak: a session that one may not see answers as one that is not there, whichever way it is named.
func TestComparisonsDoNotLeak(t *testing.T) {
	f, _ := guarded(t)
	ann, bob := "Authorization: Bearer ann", "Authorization: Bearer bob"
	for _, path := range []string{"/compare", "/api/history/compare", "/at/2026-11-20T23:20:00Z/api/history/compare"} {
		own := lab + name + path + "?with=secret/"
		for _, as := range []string{asBrowser, asProgram} {
			hidden := f.ask(t, http.MethodGet, own+"classified/"+name, as, ann)
			absent := f.ask(t, http.MethodGet, own+"nothing/"+name, as, ann)
			says.True(t, hidden.status == http.StatusForbidden && hidden.status == absent.status &&
				hidden.body == absent.body && !strings.Contains(hidden.body, "classified"),
				"%s: %d %s, and of one that is not there %d %s", path, hidden.status, hidden.body, absent.status,
				absent.body)
		}
		// Bob may see the one that is named, and not the one that the address names.
		f.ask(t, http.MethodGet, lab+name+path+"?with=secret/classified/"+name, asProgram, bob).wants(t,
			http.StatusForbidden).lacks(t, `"data":{`)
	}
}

// TestComparisonsHideSecrets: as in all answers, browsers are shown which environment variables differ and not their
// values, unless the session's dashboard was configured to show them; assistants in a browser likewise.
func TestComparisonsHideSecrets(t *testing.T) {
	for configured, hides := range map[string]bool{
		"": true, `{"result":true,"data":{"redactionEnabled":false}}`: false,
	} {
		f := start(t, func(_ *Options, store *gatedStore) {
			for session, value := range map[string]string{name: "secret-now", old: "secret-then"} {
				ref := layout.Session{Namespace: "default", Cluster: "lab", Name: session}
				put(t, store, layout.SnapshotKey(root, ref, "/api/jobs/"), `[{"type":"SUBMISSION",`+
					`"submission_id":"raysubmit_1","status":"SUCCEEDED","entrypoint":"python x.py",`+
					`"runtime_env":{"env_vars":{"TOKEN":"`+value+`"}}}]`)
				if configured != "" {
					put(t, store, layout.SnapshotKey(root, ref, "/api/v0/runtime_env_redaction"), configured)
				}
			}
		})
		f.waitDescribed(t)
		const mozilla = "User-Agent: Mozilla/5.0"
		const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"compare","arguments":` +
			`{"session":"default/lab/` + name + `"}}}`
		for _, browser := range []bool{false, true} {
			headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
			if browser {
				headers = append(headers, mozilla)
			}
			for _, got := range []answer{
				f.ask(t, http.MethodGet, lab+name+"/api/history/compare", headers...),
				f.ask(t, http.MethodGet, lab+name+"/compare", append(headers, asBrowser)...),
				f.send(t, http.MethodPost, "/mcp", call, headers...),
			} {
				got.wants(t, http.StatusOK, "env_vars.TOKEN")
				if browser && hides {
					got.lacks(t, "secret-now", "secret-then")
				} else {
					got.has(t, "secret-now", "secret-then")
				}
			}
		}
	}
}
