package node

import "testing"

import "github.com/rayhistory/historyserver/internal/testkit/says"

func TestIsSession(t *testing.T) {
	const session = "session_2026-11-20_23-19-45_581717_22125"
	for name, want := range map[string]bool{
		session: true, "session_2026-11-20_23-19-45_000000_1": true, "session_2026-11-20_23-19-45_581717_4194304": true,
		session + ".bak": false, session + " (copy)": false, session + ".tar": false, session + "_old": false,
		session + "-2": false, "old_" + session: false, session + "\n": false, "session_latest": false,
		"session_2026-11-20_23-19-45_581717_": false, "session_2026-11-20_23-19-45_581717": false,
		"session_2026-11-20_23-19-45_58171_22125": false, "session_2026-02-30_23-19-45_581717_22125": false,
	} {
		says.Equal(t, IsSession(name), want, "%q: %t", name, !want)
	}
}
