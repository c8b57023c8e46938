package output

import "testing"

// TestOwnLines: what Ray copied has a colour or another node's address before it; without both the lines are of
// processes of the program itself.
func TestOwnLines(t *testing.T) {
	for line, own := range map[string]bool{
		"\x1b[36m(f pid=7)\x1b[0m saved\n":                                                   false,
		"\x1b[36m(pid=7)\x1b[0m no module\n":                                                 false,
		"\x1b[36m(pid=gcs_server)\x1b[0m [2026-11-27 02:40:33,862 E 30 30] a.cc:5: closed\n": false,
		"(Map(f)->Write pid=7, ip=10.0.0.2) saved\n":                                         false,
		"(pid=7, ip=10.0.0.2) saved\n":                                                       false,
		"\x1b[33m(raylet, ip=10.0.0.2)\x1b[0m a task died":                                   false,
		"(autoscaler +3s) no node\n":                                                         false,
		"(EngineCore_DP0 pid=7) saved\n":                                                     true,
		"\x1b[1;36m(EngineCore pid=7)\x1b[0;0m saved\n":                                      true,
		"(3 workers) saved\n":                                                                true,
		"started (f pid=7, ip=10.0.0.2), and (raylet) too ":                                  true,
	} {
		if got := OwnLines(line); got != map[bool]string{true: line}[own] {
			t.Errorf("%q: %q", line, got)
		}
	}
}
