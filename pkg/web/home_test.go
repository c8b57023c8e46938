package web

import (
	"slices"
	"testing"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// TestCauseChips: of the kinds of findings that sessions have, those that people look for are one click away, until one
// is chosen.
func TestCauseChips(t *testing.T) {
	h := Home{Tags: catalog.Tags{Findings: []string{"job_failed", "node_died", "task_failed", "out_of_memory"}}}
	var links []string
	for _, chip := range h.CauseChips() {
		links = append(links, chip.Value, chip.Link)
	}
	want := []string{"out of memory", "?finding=out_of_memory&sort=", "node died", "?finding=node_died&sort="}
	if !slices.Equal(links, want) {
		t.Errorf("%q", links)
	}
	if h.Query.Finding = "node_died"; len(h.CauseChips()) > 0 {
		t.Errorf("chips for a chosen kind: %v", h.CauseChips())
	}
	if !h.Query.More() {
		t.Error("the field of a chosen kind is out of sight")
	}
}
