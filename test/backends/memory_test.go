package backends

import "testing"

// TestMemory is not parallel, so it runs while no other test does: what it measures is the heap of the process.
func TestMemory(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		want(t, "local")
		localContract().Memory(t)
	})
	for _, kind := range guardedKinds {
		t.Run(kind.server, func(t *testing.T) {
			want(t, kind.server)
			g := kind.start(t, 4**faultShare, stallWithFaults) // it sends a dozen requests
			t.Run("plain", g.openBucket.contract(g.url, stall).Memory)
			t.Run("faults", g.openBucket.contract(g.proxy.URL, g.stall).Memory)
			t.Log(g.proxy)
		})
	}
}
