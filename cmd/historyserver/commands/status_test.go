package commands

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestStatus: `status` prints what the dashboard answers as text, at the session's end and before.
func TestStatus(t *testing.T) {
	from := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")
	for _, args := range [][]string{{"lab"}, {recorded, "--at=2026-11-20T23:20:30Z"}} {
		out := mustRun(t, append([]string{"status", from}, args...)...)
		says.All(t, out, "======== Autoscaler status: 2026-11-20 ", "\nActive:\n 1 node_", "\nTotal Usage:\n",
			" CPU\n", "Pending Demands:\n")
	}
	out := mustRun(t, "status", from, "lab", "-o", "json")
	says.All(t, out, `"clusterStatus": "======== Autoscaler status: `)
	if _, err := runCommand(t, "status", from, "lab", "--at=noon"); err == nil ||
		!strings.Contains(err.Error(), `at="noon"`) {
		t.Errorf("a moment that is none: %v", err)
	}
}
