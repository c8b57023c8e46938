package commands

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
)

// TestStatus: `status` prints what the dashboard answers as text, at the session's end and before.
func TestStatus(t *testing.T) {
	from := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")
	for _, args := range [][]string{{"lab"}, {recorded, "--at=2026-11-20T23:20:30Z"}} {
		out := mustRun(t, append([]string{"status", from}, args...)...)
		for _, want := range []string{"======== Autoscaler status: 2026-11-20 ", "\nActive:\n 1 node_",
			"\nTotal Usage:\n",
			" CPU\n", "Pending Demands:\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("status %q lacks %q:\n%s", args, want, out)
			}
		}
	}
	out := mustRun(t, "status", from, "lab", "-o", "json")
	if !strings.Contains(out, `"clusterStatus": "======== Autoscaler status: `) {
		t.Errorf("as JSON:\n%s", out)
	}
	if _, err := runCommand(t, "status", from, "lab", "--at=noon"); err == nil ||
		!strings.Contains(err.Error(), `at="noon"`) {
		t.Errorf("a moment that is none: %v", err)
	}
}
