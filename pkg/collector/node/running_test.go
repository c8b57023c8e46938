package node

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestRunning(t *testing.T) {
	session := fmt.Sprintf("session_2026-11-20_23-19-45_581717_%d", os.Getpid()) // other packages' tests have raylets in the kernel's list, too
	tmp, err := os.MkdirTemp("", "ray")                                          // t.TempDir is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	socket := filepath.Join(tmp, session, "sockets", "raylet")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want bool) {
		t.Helper()
		if running, err := Running(session); err != nil || running != want {
			t.Errorf("%s: %t, %v", when, running, err)
		}
	}
	check("before it is started", false)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false) // a killed process leaves its socket's file
	check("while it runs", true)
	if running, err := Running(session[:len(session)-1]); err != nil || running {
		t.Errorf("another session: %t, %v", running, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	check("after its end", false)
}
