package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

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
	if err := json.Unmarshal([]byte(mustRun(t, append(args, "-o", "json")...)), &report); err != nil ||
		report.Total.Failed != 1 || report.By != "cpu" {
		t.Errorf("as JSON: %+v, %v", report, err)
	}
	says.All(t, mustRun(t, append(args, "-o", "csv", "--table=jobs")...), "prod,train,1,1,2,16,16,4,0.75,")
	if err := json.Unmarshal([]byte(mustRun(t, append(args, "-o", "json", "--outcome=succeeded")...)),
		&report); err != nil || report.Total.Sessions != 0 {
		t.Errorf("of those that succeeded: %+v, %v", report, err)
	}
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	must.OK(t, os.WriteFile(prices, []byte("{currency: USD, cpu: 0.5, budgets: [{namespace: prod, month: 30}]}"), 0o600))
	priced := mustRun(t, append(args, "--prices="+prices)...)
	for _, want := range []string{"COST (USD)", "8.00", "BUDGET", "30.00"} {
		if !strings.Contains(priced, want) || strings.Contains(out, want) {
			t.Errorf("the report with prices lacks %q, or that without has it:\n%s", want, priced)
		}
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
