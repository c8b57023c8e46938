package freeport

import (
	"net"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestHeldUntilTheTestEnds: a port is nobody else's while the test runs, and free for TCP.
func TestHeldUntilTheTestEnds(t *testing.T) {
	var address string
	t.Run("one test", func(t *testing.T) {
		address = Address(t)
		if other, err := net.ListenPacket("udp", address); err == nil {
			_ = other.Close()
			t.Errorf("%s can be given to another test", address)
		}
		for range 2 {
			server := must.Get(net.Listen("tcp", address))(t)
			_ = server.Close()
		}
	})
	other, err := net.ListenPacket("udp", address)
	must.OK(t, err, "%s is held after the test", address)
	_ = other.Close()
}
