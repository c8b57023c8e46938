package commands

import (
	"strings"
	"testing"
)

// TestRemovalInTheFuture: an age below zero would remove sessions that are still written.
func TestRemovalInTheFuture(t *testing.T) {
	if _, err := runCommand(t, "rm", "--older-than=-1h", "default/lab/latest",
		"--local-dir="+t.TempDir()); err == nil || !strings.Contains(err.Error(), "--older-than=-1h") {
		t.Error(err)
	}
}
