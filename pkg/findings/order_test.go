package findings

import (
	"slices"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// TestOutcomesAreOrdered: jobs are listed by their outcomes, so each has a place among these.
func TestOutcomesAreOrdered(t *testing.T) {
	for _, outcome := range catalog.Outcomes {
		says.True(t, slices.Contains(worstFirst, outcome) || outcome == catalog.Unknown,
			"%s has no place: add it to worstFirst in ofjob.go", outcome)
	}
}
