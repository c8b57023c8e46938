package blob

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDenied: a refusal counts for an hour, and is new when none counts.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Denied
		if d.Holds() || !d.Set() || !d.Holds() || d.Set() {
			t.Error("the first refusal is not new, or does not hold")
		}
		time.Sleep(DeniedFor - time.Minute)
		if !d.Holds() {
			t.Error("a refusal counts for less than an hour")
		}
		time.Sleep(2 * time.Minute)
		if d.Holds() || !d.Set() {
			t.Error("a refusal counts for longer than an hour")
		}
	})
}
