package findings_test

import (
	"strings"
	"testing"
)

// TestAdviceFitsTheCause: what failed only because its node or actor died is not said to have a traceback, nor to be
// helped by retry_exceptions.
func TestAdviceFitsTheCause(t *testing.T) {
	seen := 0
	for _, archive := range []string{"node_death", "gone-2.60", "spot-2.60", "more-2.60"} {
		store, ref := recorded(t, archive)
		for _, f := range report(t, loadFrom(t, store, ref, nil)).Findings {
			with := ""
			switch {
			case strings.Contains(f.Title, "because its node"), strings.Contains(f.Title, "died with its node"):
				with = "the node died"
			case strings.Contains(f.Title, "because the actor had died"):
				with = "the actor died"
			default:
				continue
			}
			seen++
			if strings.Contains(f.Advice, "traceback") || !strings.Contains(f.Advice, with) {
				t.Errorf("%s: %q: %s", archive, f.Title, f.Advice)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d such findings were seen", seen)
	}
}
