package commands

import (
	"math"
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
