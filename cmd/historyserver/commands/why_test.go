package commands

import (
	"encoding/json"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestWhy: a terminal shows what failed with its evidence, of the session that is named and of the cluster's latest.
func TestWhy(t *testing.T) {
	from := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")
	for _, name := range []string{recorded, "default/lab"} {
		out := mustRun(t, "why", name, from)
		says.All(t, out, ": failed\n", "ERROR  Job fail-job-1 failed", "exit code 3", "job-driver-fail-job-1.log, line ",
			"https://docs.ray.io/")
	}
	var report findings.Report
	if err := json.Unmarshal([]byte(mustRun(t, "why", recorded, from, "-o", "json")), &report); err != nil ||
		report.Errors() == 0 {
		t.Errorf("as JSON: %d errors, %v", report.Errors(), err)
	}
}
