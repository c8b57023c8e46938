package findings_test

import (
	"strings"
	"testing"
)

// TestLostAnswer: a job that swallowed what it was told, and ended with words about an answer that did not come, has
// before them the request that a replica of Serve had left, or the replica that was too busy to say how many it has.
func TestLostAnswer(t *testing.T) {
	const (
		cut  = "INFO 2026-11-22 10:15:42,002 docs_Parser c1s a1 -- CALL parse CANCELLED 5003.0ms\n"
		busy = "WARNING 2026-11-22 10:15:41,857 serve 1560 -- Failed to get queue length from Replica(id='c1s', deployment='Parser', app='docs') within 1.0s. If this happens repeatedly it's likely caused by high network latency in the cluster.\n"
		call = "; before that a replica of Serve, docs_Parser, had not answered CALL parse"
		told = "; before that a replica of deployment Parser of application docs did not tell Serve within 1.0 s how many requests it had"
	)
	for name, c := range map[string]struct{ log, replica, proxy, want string }{
		"a request that was cut":    {"the parser gave nothing\n", cut, "", "failed with exit code 1: the parser gave nothing" + call},
		"told by the driver's own":  {busy + "no answer after 3 tries\n", "", "", "failed with exit code 1: no answer after 3 tries" + told},
		"told by a proxy":           {trace("RuntimeError: the parser did not answer"), "", busy, "failed: its driver raised RuntimeError: the parser did not answer" + told},
		"a request, and a busy one": {"no answer after 3 tries\n", cut, busy, "failed with exit code 1: no answer after 3 tries" + call},
		"other words":               {"AUC 0.61 is below 0.75\n", cut, busy, "failed with exit code 1: AUC 0.61 is below 0.75"},
		"another exception":         {trace("ValueError: no results in part 3"), cut, busy, "failed: its driver raised ValueError: no results in part 3"},
		"before the job":            {"no answer after 3 tries\n", strings.Replace(cut, "10:15:42", "09:15:42", 1), "", "failed with exit code 1: no answer after 3 tries"},
	} {
		dir := submissionWithLog(t, 1, c.log, driverOf(1, "raysubmit_bad"))
		storeLog(t, dir, "serve/replica_docs_Parser_c1s.log", c.replica)
		storeLog(t, dir, "serve/proxy_10.0.0.1.log", c.proxy)
		_, chain := badJob(t, dir)
		if got := strings.TrimPrefix(chain[len(chain)-1].Title, "Job raysubmit_bad "); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
