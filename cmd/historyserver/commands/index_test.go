package commands

import (
	"math"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestShardOf(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	for _, n := range []int{1, 3, math.MaxUint32 + 1, math.MaxInt} {
		if i := shardOf(ref, n); i < 0 || i >= n {
			t.Errorf("shard %d of %d", i, n)
		}
	}
}

// TestRemovalInTheFuture: an age below zero would remove sessions that are still written.
func TestRemovalInTheFuture(t *testing.T) {
	if _, err := runCommand(t, "rm", "--older-than=-1h", "default/lab/latest", "--local-dir="+t.TempDir()); err == nil || !strings.Contains(err.Error(), "--older-than=-1h") {
		t.Error(err)
	}
}
