package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestSuggested: the run before is offered, and the last that succeeded before it if it did not.
func TestSuggested(t *testing.T) {
	run := func(name, outcome string) Run {
		return Run{Entry: catalog.Entry{Ref: layout.Session{Namespace: "ns", Cluster: "c", Name: name},
			Start: time.Unix(1795341600, 0), Summary: catalog.Summary{Outcome: outcome}}}
	}
	runs := []Run{run("a", "succeeded"), run("b", "succeeded"), run("c", "failed"), run("d", "failed"),
		run("e", "succeeded"), run("f", "failed"), run(catalog.Live, "")}
	for of, want := range map[string][]string{
		"a": {"the run after", "b"}, "c": {"the run before", "b", "the run after", "d"},
		"d":    {"the run before", "c", "the last that succeeded", "b", "the run after", "e"},
		"f":    {"the run before", "e"},
		"gone": nil,
	} {
		page := Compare{Runs: runs, Frame: Frame{Head: &Head{Ref: layout.Session{Namespace: "ns", Cluster: "c", Name: of}}}}
		var got []string
		for _, chip := range page.Suggested() {
			got = append(got, chip.Name, chip.Link[len(chip.Link)-1:])
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s: %v, want %v", of, got, want)
		}
	}
}

// TestFiguresOfNeither: hours that neither session had, as of clusters without GPUs, are no rows.
func TestFiguresOfNeither(t *testing.T) {
	page := Compare{Report: &compare.Report{
		With: &compare.Side{Asked: compare.Hours{CPU: 2}}, Session: &compare.Side{}}}
	var names []string
	for _, f := range page.Figures() {
		if strings.Contains(f.Name, "hours") {
			names = append(names, f.Name)
		}
	}
	if want := []string{"CPU hours, of the nodes"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
