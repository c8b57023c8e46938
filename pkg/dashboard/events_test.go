package dashboard

import (
	"net/url"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// TestDownloadNames: what is saved has the log's own name, unless the request gives one.
func TestDownloadNames(t *testing.T) {
	a, node := withLogs(t, map[string]string{"raylet.out": "x\n", "serve/replica_Front.log": "x\n"})
	for file, want := range map[string]string{"raylet.out": "raylet.out",
		"serve/replica_Front.log": "replica_Front.log"} {
		got := a.get("/api/v0/logs/file?node_id=" + node + "&filename=" +
			url.QueryEscape(file)).Header().Get("Content-Disposition")
		if got != `attachment; filename="`+want+`"` {
			t.Errorf("%s is saved as %s", file, got)
		}
	}
}

// TestClusterEventsOfBothKinds: events whose time is a text and those whose time is a number are one list, in order of
// time.
func TestClusterEventsOfBothKinds(t *testing.T) {
	a, _ := withLogs(t, map[string]string{
		"events/event_JOBS.log":   `{"event_id": "b", "source_type": "JOBS", "message": "", "timestamp": "1795217000", "custom_fields": {}}` + "\n",
		"events/event_GCS.log":    `{"event_id": "c", "source_type": "GCS", "message": "", "timestamp": 1795217001, "custom_fields": {}}` + "\n",
		"events/event_RAYLET.log": `{"event_id": "a", "source_type": "RAYLET", "message": "", "timestamp": 1795216999, "custom_fields": {}}` + "\n",
	})
	ids := ""
	for _, v := range a.data("/api/v0/cluster_events").Object("result").List("result") {
		ids += v.(interface{ String(string) string }).String("event_id")
	}
	if ids != "abc" {
		t.Errorf("the order is %q", ids)
	}
}

// TestLogOfAJobWithoutDriver: a browser is told where the log of a submission is whose runtime environment failed;
// tools get what Ray says.
func TestLogOfAJobWithoutDriver(t *testing.T) {
	a, node := withLogs(t, map[string]string{
		"job-driver-bad-env.log": "2026-11-20 23:20:00,000\tINFO job_manager.py:1 -- Runtime env is setting up.\n"})
	a.session.Submissions = []entities.Submission{{ID: "bad-env",
		Transitions: []entities.SubmissionTransition{{State: "PENDING", Time: 1}, {State: "FAILED", Time: 2}}}}
	for header, want := range map[string]string{"Referer": `"driver_node_id": "` + node + `"`,
		"X-Tool": `"driver_node_id": null`} {
		for _, url := range []string{"/api/jobs/", "/api/jobs/bad-env"} {
			if got := a.with(header, "http://localhost/", url); !strings.Contains(got, want) {
				t.Errorf("%s with %s: no %s in %s", url, header, want, got)
			}
		}
	}
}
