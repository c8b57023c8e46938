package commands

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
)

// hostile are stored characters that would set a terminal's title, clear its screen, and turn text around.
const hostile = "a\x1b]0;title\x07\x1b[2J\u202eb"

// TestStoredTextDoesNotActOnATerminal, neither in a table nor in a report nor beside a match.
func TestStoredTextDoesNotActOnATerminal(t *testing.T) {
	dir := recording.Open(t).Bucket("kuberay-1.6")
	store, err := local.Open(dir)
	must.OK(t, err)
	defer store.Close()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: path.Base(recorded)}
	must.OK(t, store.Put(t.Context(), layout.Prefix("log", ref)+"foreign-"+hostile, strings.NewReader("")))
	damage, err := runCommand(t, "verify", recorded, "--local-dir="+dir)
	if err == nil {
		t.Error("a foreign object is not reported")
	}
	var report, matches strings.Builder
	f := &findings.Finding{Title: hostile, Severity: findings.Error, Advice: hostile,
		Evidence: []findings.Evidence{{Text: hostile, File: hostile}}}
	err = writeWhy(&report, "default/lab", &findings.Report{Session: recorded, Summary: hostile,
		Findings: []*findings.Finding{f}, Missing: []string{hostile}})
	p := &matchPrinter{w: &matches}
	must.OK(t, errors.Join(err, p.print(&logsearch.Match{File: hostile, Text: hostile, Before: []string{hostile}})))
	for name, out := range map[string]string{
		"show": mustRun(t, "show", recorded, "--local-dir="+dir), "verify": damage, "why": report.String(),
		"grep": matches.String(),
	} {
		if !strings.Contains(out, "]0;title") || strings.ContainsAny(out, "\x1b\x07\u202e") {
			t.Errorf("%s: %q", name, out)
		}
	}
}
