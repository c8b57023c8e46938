package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestFailedJobs: of the newest stored list of jobs those that failed, once.
func TestFailedJobs(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	store, err := local.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, body string) {
		t.Helper()
		if err := store.Create(t.Context(), key, strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	var last string
	step := func(want ...string) {
		t.Helper()
		failed, answer, err := FailedJobs(t.Context(), store, "log", ref, last)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, j := range failed {
			got = append(got, j.Submission+j.ID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("after %q: %q, want %q", last, got, want)
		}
		last = answer
	}
	step()
	first := layout.SnapshotKey("log", ref, "/api/jobs/")
	put(first, `[{"submission_id": "a", "status": "FAILED", "end_time": 5}, {"submission_id": "b", "status": "RUNNING"}]`)
	put(layout.SnapshotKey("log", ref, "/api/jobs/a"), `[]`)
	step("a")
	step()
	put(layout.SnapshotVersionKey(first, time.UnixMilli(1)), `[]`)
	put(layout.SnapshotVersionKey(first, time.UnixMilli(2)), `[{"submission_id": "b", "status": "FAILED"}, {"job_id": "01000000", "status": "FAILED"}]`)
	step("b", "01000000")
	step()
	put(layout.SnapshotVersionKey(first, time.UnixMilli(3)), `{`)
	if _, answer, err := FailedJobs(t.Context(), store, "log", ref, last); err == nil || answer != last {
		t.Errorf("%q, %v of a damaged answer", answer, err)
	}
}
