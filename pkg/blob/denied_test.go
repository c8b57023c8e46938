package blob

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestDenied: a refusal counts for an hour, and is new when none counts.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Denied
		says.True(t, !d.Holds() && d.Set() && d.Holds() && !d.Set(), "the first refusal is not new, or does not hold")
		time.Sleep(DeniedFor - time.Minute)
		says.True(t, d.Holds(), "a refusal counts for less than an hour")
		time.Sleep(2 * time.Minute)
		says.True(t, !d.Holds() && d.Set(), "a refusal counts for longer than an hour")
	})
}
