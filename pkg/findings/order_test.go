package findings

import (
	"slices"
	"testing"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// TestOutcomesAreOrdered: jobs are listed by their outcomes, so each has a place among these.
func TestOutcomesAreOrdered(t *testing.T) {
	for _, outcome := range catalog.Outcomes {
		if !slices.Contains(worstFirst, outcome) && outcome != catalog.Unknown {
			t.Errorf("%s has no place: add it to worstFirst in ofjob.go", outcome)
		}
	}
}
