package commands

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
)

// TestCompare: a terminal shows two clusters' sessions, and a job, side by side; the same as JSON; and says what it
// cannot compare.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	for _, archive := range []string{"jobs-2.55", "jobs-2.60"} {
		must.OK(t, recording.Unpack(filepath.Join("..", "..", "..", "pkg", "findings", "testdata", archive+".tar.gz"),
			dir))
	}
	from := "--local-dir=" + dir
	out := mustRun(t, "compare", "cases/jobs260", "cases/jobs255", from)
	says.All(t, out, "other  cases/jobs255/session_", "this   cases/jobs260/session_", "DIFFERENCE", "Failed attempts", "_StatsActor.get_datasets  +190 ms",
		"ERROR Job chained failed", "gone", "CPU hours, of the nodes", "head   4")
	if out := mustRun(t, "compare", "cases/jobs260", "cases/jobs255", "--job=tokenizer", from); strings.Contains(out,
		"segv") || !strings.Contains(out, "Tokenizer.__init__") {
		t.Errorf("of a job:\n%s", out)
	}
	says.All(t, mustRun(t, "compare", "cases/jobs260", "cases/jobs255", "--top=1", from), "functions left out")
	var report compare.Report
	if err := json.Unmarshal([]byte(mustRun(t, "compare", "cases/jobs260", "cases/jobs255", "-o", "json", from)),
		&report); err != nil || report.Session.Cluster != "jobs260" || len(report.Functions) == 0 {
		t.Errorf("as JSON: %+v, %v", report, err)
	}
	for _, args := range [][]string{{"cases/jobs260"}, {"cases/none"}, {"cases/jobs260", "--job=none"},
		{"cases/jobs260", "--top=0"}} {
		if out, err := runCommand(t, append([]string{"compare", from}, args...)...); err == nil {
			t.Errorf("%q: %s", args, out)
		}
	}
}
