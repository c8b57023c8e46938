package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestSearchByJob: a submission's ID, an entrypoint or an error's text leads to the session, on the page and in JSON.
func TestSearchByJob(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	f := start(t, func(_ *Options, store *gatedStore) {
		put(t, store, layout.SnapshotKey(root, ref, "/api/jobs/"),
			`[{"job_id":"01000000","submission_id":"raysubmit_Zz9","status":"FAILED","entrypoint":"python Train.py",
			"message":"CUDA out of memory","metadata":{"user":"ana","job_name":"Resnet"}}]`)
	})
	f.waitDescribed(t)
	for query, want := range map[string]int{
		"q=raysubmit_zz9": 1, "q=train.py": 1, "q=cuda+memory": 1, "q=ana": 1, "q=resnet&version=2.60": 1,
		"q=raysubmit_zz9+bob": 0, "": 2, "limit=1": 1, "outcome=failed": 0,
	} {
		got := f.ask(t, http.MethodGet, "/clusters?"+query)
		var rows []struct{ Session string }
		err := json.Unmarshal([]byte(got.body), &rows)
		says.True(t, err == nil && len(rows) == want && (want != 1 || rows[0].Session == name), "%q: %v, %s", query,
			err, got.body)
		rest := got.header.Get("Link")
		says.True(t, (rest != "") == (query == "limit=1"), "%q: the rest is at %q", query, rest)
	}
	f.ask(t, http.MethodGet, "/clusters?from=yesterday").wants(t, http.StatusBadRequest)
	got := f.ask(t, http.MethodGet, "/homepage?q=OUT+of+memory&from=2026-01-01", asBrowser)
	got.has(t, name, `value="2026-01-01"`, "sort=start", "from=2026-01-01").lacks(t, old)
}

// TestSearchSaysWhy: the page shows what a search found in a session that the list does not show, and the session first
// whose cluster has the name that is searched for. Its addresses have no empty parameters.
func TestSearchSaysWhy(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		for _, ref := range []layout.Session{
			{Namespace: "default", Cluster: "old-resnet", Name: "session_2026-11-10_10-00-00_000000_1"},
			{Namespace: "default", Cluster: "resnet", Name: "session_2026-11-11_10-00-00_000000_1"},
			{Namespace: "default", Cluster: "other", Name: "session_2026-11-12_10-00-00_000000_1"},
		} {
			put(t, store, layout.MarkerKey(root, ref), "")
			if ref.Cluster == "other" {
				put(t, store, layout.SnapshotKey(root, ref, "/api/jobs/"),
					`[{"job_id":"01000000","status":"FAILED","entrypoint":"python resnet.py"}]`)
			}
		}
	})
	f.waitDescribed(t)
	_, body, _ := strings.Cut(f.ask(t, http.MethodGet, "/homepage?q=resnet", asBrowser).body, `id="results"`)
	at := func(text string) int { return strings.Index(body, text) }
	exact, other, older := at(`">resnet</a>`), at(`">other</a>`), at(`">old-resnet</a>`)
	says.True(t, exact >= 0 && other >= exact && older >= other, "resnet, other and old-resnet are at %d, %d and %d",
		exact, other, older)
	why := at(`found in</span> python resnet.py<`)
	says.True(t, why >= other && why <= older && strings.Count(body, "found in<") == 1,
		"why other is found is not said: %s", body)
	says.All(t, body, `href="?outcome=failed&amp;q=resnet"`)
	says.None(t, body, `=&amp;`)
	for _, query := range []string{"", "?group=cluster&q=resnet", "?namespace=default&q=resnet&page=9"} {
		if got := f.ask(t, http.MethodGet, "/homepage"+query, asBrowser); got.status != http.StatusOK ||
			strings.Contains(got.body, "found in<") != strings.Contains(query, "page") {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}
