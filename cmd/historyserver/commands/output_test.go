package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
)

// hostile are stored characters that would set a terminal's title, clear its screen, and turn text around.
const hostile = "a\x1b]0;title\x07\x1b[2J\u202e\u009b\x7fb"

// TestStoredTextDoesNotActOnATerminal, neither in a table nor in a report nor beside a match.
func TestStoredTextDoesNotActOnATerminal(t *testing.T) {
	dir := recording.Open(t).Bucket("kuberay-1.6")
	store, err := local.Open(dir)
	must.OK(t, err)
	defer store.Close()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: path.Base(recorded)}
	must.OK(t, store.Put(t.Context(), layout.Prefix("log", ref)+"foreign-"+hostile, strings.NewReader("")))
	start := must.Get(json.Marshal(layout.StartMetadata{OwnerKind: "RayJob", OwnerName: hostile, RayVersion: hostile}))(t)
	must.OK(t, store.Put(t.Context(), layout.MetadataKey("log", ref, layout.Start), bytes.NewReader(start)))
	damage, err := runCommand(t, "verify", recorded, "--local-dir="+dir)
	says.True(t, err != nil, "a foreign object is not reported")
	var report, matches strings.Builder
	f := &findings.Finding{Title: hostile, Severity: findings.Error, Advice: hostile,
		Evidence: []findings.Evidence{{Text: hostile, File: hostile}}}
	err = writeWhy(&report, "default/lab", &findings.Report{Session: recorded, Summary: hostile,
		Findings: []*findings.Finding{f}, Missing: []string{hostile}})
	p := &matchPrinter{w: &matches}
	must.OK(t, errors.Join(err, p.print(&logsearch.Match{File: hostile, Text: hostile, Before: []string{hostile}})))
	for name, out := range map[string]string{
		"show": mustRun(t, "show", recorded, "--local-dir="+dir), "verify": damage, "why": report.String(),
		"grep": matches.String(), "csv": mustRun(t, "ls", "--output=csv", "--local-dir="+dir),
		"json": mustRun(t, "ls", "--output=json", "--local-dir="+dir),
		"yaml": mustRun(t, "ls", "--output=yaml", "--local-dir="+dir),
	} {
		says.True(t, strings.Contains(out, "]0;title") && !strings.ContainsAny(out, "\x1b\x07\u202e\u009b\x7f"),
			"%s: %q", name, out)
	}
}

// TestPager: a text is shown by the user's pager, whose Ctrl-C does not end this process, however often it is pressed.
func TestPager(t *testing.T) {
	dir := t.TempDir()
	pager := filepath.Join(dir, "pager")
	must.OK(t, os.WriteFile(pager, []byte("#!/bin/sh\nkill -INT $PPID\nkill -INT $PPID\nsed 's/^/paged /'\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	must.OK(t, os.Symlink(pager, filepath.Join(dir, "less")))
	for value, want := range map[string]string{pager: "paged why\n", "": "paged why\n", " ": "paged why\n",
		"cat": "why\n", "/nothing/here": "why\n"} {
		t.Setenv("PAGER", value)
		out := must.Get(os.Create(filepath.Join(dir, "out")))(t)
		o := &operator{out: out, errOut: io.Discard, terminal: terminal{width: 80}}
		must.OK(t, o.throughPager(func(w io.Writer) error {
			_, err := io.WriteString(w, "why\n")
			return err
		}))
		must.OK(t, out.Close())
		says.Equal(t, string(must.Get(os.ReadFile(out.Name()))(t)), want, "PAGER=%q shows", value)
	}
}

// TestWhy: a terminal shows what failed with its evidence, of the session that is named and of the cluster's latest.
func TestWhy(t *testing.T) {
	from := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")
	for _, name := range []string{recorded, "default/lab"} {
		out := mustRun(t, "why", name, from)
		says.All(t, out, ": failed\n", "ERROR  Job fail-job-1 failed", "exit code 3", "job-driver-fail-job-1.log, line ",
			"https://docs.ray.io/")
	}
	var report findings.Report
	err := json.Unmarshal([]byte(mustRun(t, "why", recorded, from, "-o", "json")), &report)
	says.True(t, err == nil && report.Errors() != 0, "as JSON: %d errors, %v", report.Errors(), err)
}

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
	says.Error(t, says.Err(runCommand(t, "status", from, "lab", "--at=noon")), `at="noon"`, "a moment that is none")
}

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

// TestFleet: a terminal shows what packed sessions came to, as tables, JSON and CSV.
func TestFleet(t *testing.T) {
	dir := t.TempDir()
	store := must.Get(local.Open(dir))(t)
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	facts := packs.Facts{
		Ref:  layout.Session{Namespace: "prod", Cluster: "a", Name: "session_2026-11-20_10-00-00_000000_1"},
		Seen: start.Add(24 * time.Hour), Start: start, End: start.Add(2 * time.Hour),
		LastWrite: start.Add(2 * time.Hour),
		Summary:   packs.Summary{OwnerKind: "RayJob", OwnerName: "nightly", Outcome: "failed"},
		Findings: []packs.Finding{{Kind: "out_of_memory", Severity: "error",
			Signature: "out_of_memory", Title: "Node ran out of memory", Count: 1}},
		Jobs:  []packs.Job{{Name: "train", Status: "FAILED"}},
		Hours: &packs.Hours{Amounts: packs.Amounts{Node: 2, CPU: 16, Memory: 64}, Used: &packs.Used{CPU: 4, Memory: 16}},
	}
	all := packs.Packs{Store: store, Root: "log"}
	must.OK(t, all.Append(t.Context(), layout.PackDay(facts.Ref), nil, []packs.Facts{facts}))
	args := []string{"fleet", "--local-dir=" + dir, "--from=2026-11-01", "--to=2026-11-30"}
	out := mustRun(t, args...)
	says.All(t, out, "1 session", "Node ran out of memory", "prod/nightly (RayJob)", "prod/train", "16.0   75 %",
		"2026-11-20")
	var report fleet.Report
	err := json.Unmarshal([]byte(mustRun(t, append(args, "-o", "json")...)), &report)
	says.True(t, err == nil && report.Total.Failed == 1 && report.By == "cpu", "as JSON: %+v, %v", report, err)
	says.All(t, mustRun(t, append(args, "-o", "csv", "--table=jobs")...), "prod,train,1,1,2,16,16,4,0.75,")
	if err := json.Unmarshal([]byte(mustRun(t, append(args, "-o", "json", "--outcome=succeeded")...)),
		&report); err != nil || report.Total.Sessions != 0 {
		t.Errorf("of those that succeeded: %+v, %v", report, err)
	}
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	must.OK(t, os.WriteFile(prices, []byte("{currency: USD, cpu: 0.5, budgets: [{namespace: prod, month: 30}]}"), 0o600))
	priced := mustRun(t, append(args, "--prices="+prices)...)
	for _, want := range []string{"COST (USD)", "8.00", "BUDGET", "30.00"} {
		says.True(t, strings.Contains(priced, want) && !strings.Contains(out, want),
			"the report with prices lacks %q, or that without has it:\n%s", want, priced)
	}
	only := mustRun(t, append(args, "--table=jobs")...)
	says.All(t, only, "prod/train")
	says.None(t, only, "Node ran out of memory", "HOURS")
	for _, wrong := range [][]string{{"--prices=" + dir + "/none"}, {"-o", "csv"}, {"--table=gold"},
		{"-o", "json", "--table=jobs"}, {"--by=gold"}, {"--top=0"}, {"--from=2026-12-01"},
		{"-o", "xml"}} {
		if out, err := runCommand(t, append(args, wrong...)...); err == nil {
			t.Errorf("%q: %s", wrong, out)
		}
	}
}
