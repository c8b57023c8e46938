package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestAddresses: what people know of a job leads to the job in the newest session that has it, and never to a part of a
// longer ID.
func TestAddresses(t *testing.T) {
	newer := layout.Session{Namespace: "team", Cluster: "nightly-abcde", Name: "session_2026-11-21_00-00-00_000000_1"}
	newest := layout.Session{Namespace: "team", Cluster: "nightly-fghij", Name: "session_2026-11-22_00-00-00_000000_1"}
	f := start(t, func(_ *Options, store *gatedStore) {
		jobs := func(ref layout.Session, ids ...string) {
			var rows []string
			for _, id := range ids {
				rows = append(rows, fmt.Sprintf(
					`{"submission_id":%q,"status":"FAILED","entrypoint":"python raysubmit_entry"}`, id))
			}
			put(t, store, layout.SnapshotKey(root, ref, "/api/jobs/"), "["+strings.Join(rows, ",")+"]")
		}
		jobs(layout.Session{Namespace: "default", Cluster: "lab", Name: name}, "raysubmit_Zz9", "both", "odd id?&%",
			"../up")
		for _, ref := range []layout.Session{newer, newest} {
			put(t, store, layout.MarkerKey(root, ref), "")
			put(t, store, layout.MetadataKey(root, ref, layout.Start),
				`{"ownerKind":"RayJob","ownerName":"nightly","rayVersion":"2.60.0"}`)
			put(t, store, layout.MetadataKey(root, ref, layout.End), `{"end":"2026-11-22T23:25:00Z"}`)
		}
		jobs(newer, "both", "nightly-vwxyz")
		jobs(newest, "nightly-a1b2c", "nightly-second-1", "raysubmit_Zz9longer")
	})
	f.waitDescribed(t)
	home := lab + name + "/"
	team := "/namespaces/team/clusters/" + newest.Cluster + "/sessions/" + newest.Name + "/"
	for path, want := range map[string]string{
		"/jobs/raysubmit_Zz9":          home + "#/jobs/raysubmit_Zz9",
		"/jobs/raysubmit_Zz9/findings": home + "findings?submission_id=raysubmit_Zz9",
		"/jobs/both/findings": "/namespaces/team/clusters/" + newer.Cluster +
			"/sessions/" + newer.Name + "/findings?submission_id=both",
		"/jobs/odd%20id%3F&%25/findings":                   home + "findings?submission_id=odd+id%3F%26%25",
		"/namespaces/team/rayjobs/nightly/latest":          team + "#/jobs/nightly-a1b2c",
		"/namespaces/team/rayjobs/nightly/latest/findings": team + "findings?submission_id=nightly-a1b2c",
		// which of its jobs is the RayJob's is not known
		"/namespaces/default/rayjobs/nightly/latest": home + "#/jobs",
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser)
		at, err := url.Parse(f.URL + path)
		must.OK(t, err)
		to, err := at.Parse(got.header.Get("Location"))
		if err != nil || got.status != http.StatusFound || strings.TrimPrefix(to.String(), f.URL) != want {
			t.Errorf("%s: %d to %v, %v; want %s", path, got.status, to, err, want)
		}
	}
	for _, path := range []string{
		"/jobs/raysubmit_Zz", "/jobs/raysubmit", "/jobs/Zz9", "/jobs/%0A", "/jobs/raysubmit_Zz9%0Aboth",
		"/jobs/python%20raysubmit", "/jobs/" + strings.Repeat("x", 3000),
		"/namespaces/team/rayjobs/night/latest", "/namespaces/team/rayservices/nightly/latest",
		"/namespaces/other/rayjobs/nightly/latest/findings",
	} {
		f.ask(t, http.MethodGet, path, asProgram).wants(t, http.StatusNotFound, "/homepage")
	}
}

// TestAddressesOfOthers: a job of a namespace that the caller may not see is answered as one that does not exist.
func TestAddressesOfOthers(t *testing.T) {
	f, _ := guarded(t)
	const job = "/jobs/raysubmit_classified/findings"
	f.ask(t, http.MethodGet, job, asProgram, "Authorization: Bearer bob").wants(t, http.StatusFound)
	hidden := f.ask(t, http.MethodGet, job, asProgram, "Authorization: Bearer ann")
	unknown := f.ask(t, http.MethodGet, "/jobs/raysubmit_unknown/findings", asProgram, "Authorization: Bearer ann")
	if hidden.status != http.StatusNotFound || hidden.body != strings.ReplaceAll(unknown.body, "raysubmit_unknown",
		"raysubmit_classified") {
		t.Errorf("as ann: %d %s, want what is answered of a job that does not exist: %s", hidden.status, hidden.body,
			unknown.body)
	}
}
