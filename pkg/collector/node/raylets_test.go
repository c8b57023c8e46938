package node

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRaylets(t *testing.T) {
	session := fmt.Sprintf("session_2026-11-20_23-19-45_581717_%d", os.Getpid()) // other packages' tests have raylets in the kernel's list, too
	tmp, err := os.MkdirTemp("", "a ray")                                        // t.TempDir is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	sockets := filepath.Join(tmp, session, "sockets")
	if err := os.MkdirAll(sockets, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want bool) {
		t.Helper()
		if running, err := Raylets(); err != nil || running[session] != want {
			t.Errorf("%s: %v, %v", when, running, err)
		}
	}
	check("before it is started", false)
	for _, name := range []string{"raylet", "raylet.1"} { // a raylet that comes after a killed one has a name of its own
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(sockets, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false) // a killed process leaves its socket's file
		check(name+" runs", true)
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		check(name+" has ended", false)
	}
}

func TestListening(t *testing.T) {
	const run = "session_2026-11-20_23-19-45_581717_1"
	line := func(flags, path string) string {
		return "0000000000000000: 00000002 00000000 " + flags + " 0001 01 35051 " + path
	}
	list := strings.Join([]string{
		"Num       RefCount Protocol Flags    Type St Inode Path",
		line("00010000", "/tmp/ray/"+run+"/sockets/raylet"),
		line("00010000", "/my files/ray/"+run+"2/sockets/raylet.12"),
		line("00000000", "/tmp/ray/"+run+"3/sockets/raylet"), // a connection, not a listener
		line("00010000", "/tmp/ray/"+run+"4/sockets/plasma_store"),
		line("00010000", "/tmp/ray/"+run+"5/raylet"),
		line("00010000", "/tmp/ray/session_latest/sockets/raylet"),
		line("00010000", "@/tmp/"+run+"6"),
		line("00010000", ""),
		line("00010000", "raylet"),
	}, "\n")
	got, err := listening(strings.NewReader(list))
	if want := map[string]string{run: "/tmp/ray", run + "2": "/my files/ray"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}
