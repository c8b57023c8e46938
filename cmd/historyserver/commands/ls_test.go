package commands

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestListReadsPacks: what packs tell of sessions is listed without a look at these, of which nothing but markers is stored here.
func TestListReadsPacks(t *testing.T) {
	dir := t.TempDir()
	store := must.Get(local.Open(dir))(t)
	fleet := fleetgen.Options{Sessions: 20, Days: 3, End: time.Date(2025, 11, 20, 12, 0, 0, 0, time.UTC)}
	must.OK(t, fleet.Write(t.Context(), store, "log"))
	for args, want := range map[string]int{
		"--state=ended": 20, "--outcome=failed": 4, "--search=raysubmit_00000007": 1, "--cluster=rayjob-00001": 3, "--owner=training-3": 1, "--namespace=team-0": 4,
		"--namespace=team-99": 0,
	} {
		var found []listed
		if err := json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", "--local-dir="+dir, args)), &found); err != nil || len(found) != want {
			t.Errorf("ls %s: %d sessions, want %d, %v", args, len(found), want, err)
			continue
		}
		for _, e := range found {
			if e.Objects != 200 || e.Outcome == "" || e.Nodes != 4 {
				t.Errorf("ls %s: %+v", args, e)
			}
		}
	}
}

// TestListTellsFailedJobs: of a running session ls tells how many jobs have failed.
func TestListTellsFailedJobs(t *testing.T) {
	dir := t.TempDir()
	store := must.Get(local.Open(dir))(t)
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	for key, body := range map[string]string{
		layout.MarkerKey("log", ref):                 "",
		layout.SnapshotKey("log", ref, "/api/jobs/"): `[{"submission_id": "nightly-7", "status": "FAILED"}, {"submission_id": "b", "status": "RUNNING"}]`,
	} {
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
	}
	for _, args := range []string{"--quiet=10m", "--search=nightly-7", "--quiet=1ns"} {
		var found []listed
		out := mustRun(t, "ls", "-o", "json", "--local-dir="+dir, args)
		if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 {
			t.Fatalf("ls %s: %s, %v", args, out, err)
		}
		table := mustRun(t, "ls", "--local-dir="+dir, args)
		running := args != "--quiet=1ns"
		if (found[0].FailedJobs == 1) != running || strings.Contains(out, "failedJobs") != running || strings.Contains(table, "failed jobs: 1") != running {
			t.Errorf("ls %s: %s\n%s", args, out, table)
		}
		if found[0].NotYet == running || strings.Contains(table, "not known yet") == running {
			t.Errorf("ls %s: %s\n%s", args, out, table)
		}
	}
	if out := mustRun(t, "ls", "--local-dir="+dir, "--quiet=1ns", "--outcome=not-known-yet"); !strings.Contains(out, "lab") {
		t.Errorf("a session of which nobody knows how it ended is not found: %s", out)
	}
}
