package findings_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestEndedWithNode: the GCS ends the jobs of drivers that nobody submitted when their node has died. Ray calls that a
// success, and what such a driver was doing then is not why it ended.
func TestEndedWithNode(t *testing.T) {
	const died = "2026-11-22 10:20:30,412"
	line := func(at string, node byte) string {
		return fmt.Sprintf("[%s I 55 55] (gcs_server) gcs_job_manager.cc:480: Node is dead, marking all jobs with drivers on this node as finished. node_id=%s\n",
			at, strings.Repeat(fmt.Sprintf("%02x", node), 28))
	}
	for name, c := range map[string]struct {
		node       byte
		ended, log string
		want       bool
	}{
		"with its node":      {2, "10:20:30.413", line(died, 2), true},
		"some time before":   {2, "10:18:30", line(died, 2), false},
		"on another node":    {1, "10:20:30.413", line(died, 2), false},
		"nothing is logged":  {2, "10:20:30.413", "", false},
		"logged of an other": {2, "10:20:30.413", line(died, 1), false},
	} {
		events := byHand(begins + `, {"state": "FINISHED", "timestamp": "2026-11-22T` + c.ended + `Z"}`)
		events[0] = strings.Replace(events[0], `"config"`, fmt.Sprintf(`"driverNodeId": "%s", "config"`,
			base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(c.node)), 28)))), 1)
		dir := rareEvents(t, append(append(events, rayevents.Of("NODE")...), runningTask("crunch")...))
		storeLog(t, dir, "gcs_server.out", c.log)
		r := report(t, load(t, dir, rayevents.Session, nil))
		first := r.Findings[0]
		own := only(r, "^Job 00000001 ended with the node of its driver, 10.0.0.2$")
		if !c.want {
			says.True(t, own == nil, "%s: %+v", name, own)
			continue
		}
		if !regexp.MustCompile(`^Node 10\.0\.0\.2 died unexpectedly: .*; with it failed job 00000001$`).MatchString(first.Title) || own == nil ||
			first.Severity != findings.Error || len(own.Because) != 1 || own.Because[0] != first.ID || r.Outcome != catalog.Failed {
			t.Errorf("%s: %s, %+v", name, r.Outcome, first)
		}
	}
}
