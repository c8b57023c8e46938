package logs

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rayhistory/historyserver/pkg/budget"
)

// TestSearchesWaitForTheirTurn: with as many searches as there may be, another one is refused.
func TestSearchesWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(chan struct{}, 1)
		release, err := turn(t.Context(), turns)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn(t.Context(), turns); !errors.Is(err, budget.ErrBusy) {
			t.Errorf("the second one: %v", err)
		}
		release()
		if _, err := turn(t.Context(), turns); err != nil {
			t.Error(err)
		}
	})
}
