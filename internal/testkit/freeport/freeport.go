// Package freeport finds ports for servers that tests start in processes of their own, and start again.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// Linux takes ports from 32768 on for connections and for servers that listen on port 0 (ip_local_port_range). One of
// those would be taken by another test while the server is not running.
const first, end = 20_000, 32_768

// Port is a port of 127.0.0.1 that nobody listens on. No other test gets it until this one ends, also where nobody
// listens on it meanwhile: the test holds the UDP port of the same number, which its servers do not need.
func Port(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := first + rand.IntN(end-first)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		var held net.PacketConn
		if held, err = net.ListenPacket("udp", address); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address); err != nil {
			_ = held.Close()
			continue
		}
		t.Cleanup(func() { _ = held.Close() })
		must.OK(t, l.Close())
		return port
	}
	t.Fatal(err)
	return 0
}

// Address is 127.0.0.1 with such a port.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}
