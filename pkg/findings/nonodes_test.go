package findings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestNoNodeCame: of what no node could take it is told why no further node came while it waited, by the autoscaler or
// by the pods that did not start.
func TestNoNodeCame(t *testing.T) {
	waits := failedTask(1, "embed", "", "")
	waits[0] = strings.Replace(waits[0], `"CPU": 1.0`, `"GPU": 1.0`, 1)
	waits[1] = strings.NewReplacer(`"FAILED"`, `"PENDING_NODE_ASSIGNMENT"`, "10:15:55Z", "10:10:00Z", `"rayErrorInfo"`, `"x"`).Replace(waits[1])
	const (
		never    = "embed could never be scheduled: it asks for 1 GPU, and no node has any GPU"
		launcher = "2026-11-22 10:16:20,502\tERROR node_launcher.py:128 -- NodeLauncher1: Failed to launch 1 node(s) of type gpu. (InsufficientInstanceCapacity): no capacity in eu-west-1a.\n"
		update   = "2026-11-22 10:16:25,102\tERROR autoscaler.py:372 -- StandardAutoscaler: Error during autoscaling.\nTraceback (most recent call last):\n  File \"/v/ray/node_provider.py\", line 310, in patch\nrequests.exceptions.HTTPError: 403 Client Error: Forbidden\n"
		capacity = "; the autoscaler got no node: Failed to launch 1 node(s) of type gpu. (InsufficientInstanceCapacity): no capacity in eu-west-1a."
		attached = "; Pod w-3 has a volume that could not be attached: Multi-Attach error"
	)
	pod := func(reason, at string) []string {
		return []string{platformEvent("Pod", "w-3", reason, "Multi-Attach error", at)}
	}
	for name, c := range map[string]struct {
		log    string
		events []string
		want   string
	}{
		"nothing is known": {"2026-11-22 10:16:20,502\tINFO autoscaler.py:141 -- The autoscaler took 0.1 seconds\n", nil, ""},
		"no capacity":      {launcher, nil, capacity},
		"no rights":        {launcher + update, nil, "; the autoscaler got no node: HTTPError: 403 Client Error: Forbidden"},
		"no rights, told by the second autoscaler": {strings.Replace(update, "StandardAutoscaler: Error during autoscaling.", "403 Client Error: Forbidden", 1), nil, "; the autoscaler got no node: HTTPError: 403 Client Error: Forbidden"},
		"no rights to launch":                      {strings.Replace(update, "autoscaler.py:372 -- StandardAutoscaler: Error during autoscaling.", "cloud_provider.py:178 -- Error launching nodes: 403 Client Error: Forbidden", 1), nil, "; the autoscaler got no node: HTTPError: 403 Client Error: Forbidden"},
		"no rights to end nodes":                   {strings.Replace(update, "autoscaler.py:372 -- StandardAutoscaler: Error during autoscaling.", "cloud_provider.py:152 -- Error terminating nodes: 403 Client Error: Forbidden", 1), nil, ""},
		"asked again":                              {"2026-11-22 10:16:20,820\tINFO instance_manager.py:263 -- Update instance REQUESTED->QUEUED (id=fa6d, type=gpu, cloud_instance_id=, ray_id=): queue again to launch after timeout=600s\n", nil, "; the autoscaler got no node: (id=fa6d, type=gpu, cloud_instance_id=, ray_id=): queue again to launch after timeout=600s"},
		"it came":                                  {"2026-11-22 10:16:20,820\tINFO instance_manager.py:263 -- Update instance REQUESTED->ALLOCATED (id=fa6d, type=gpu): allocated\n", nil, ""},
		"it is stuck": {"2026-11-22 10:16:20,820\tWARNING reconciler.py:1021 " +
			"-- Instance fa6d(QUEUED) is stuck in QUEUED for 300.0 seconds.\n", nil, "; " +
			"the autoscaler got no node: QUEUED for 300.0 seconds."},
		"it is stuck as it ends": {"2026-11-22 10:16:20,820\tWARNING reconciler.py:1021 " +
			"-- Instance fa6d(RAY_STOPPING) is stuck in RAY_STOPPING for 300.0 seconds.\n", nil, ""},
		"before it waited":   {strings.Replace(launcher, "10:16", "10:06", 1), nil, ""},
		"a volume":           {"", pod("FailedAttachVolume", "10:12:20"), attached},
		"a volume, before":   {"", pod("FailedAttachVolume", "10:01:20"), ""},
		"a pod that started": {"", append(pod("FailedAttachVolume", "10:12:20"), pod("Started", "10:13:20")...), ""},
		"a pod that ended":   {"", pod("OOMKilling", "10:12:20"), ""},
		"both":               {launcher, pod("FailedAttachVolume", "10:12:20"), capacity},
	} {
		dir := rareEvents(t, slices.Concat(submission(open), []string{driverOf(1, open)}, aliveNodes(), waits, c.events))
		storeLog(t, dir, "monitor.log", c.log)
		f := only(report(t, load(t, dir, rayevents.Session, nil)), "^embed could never be scheduled")
		must.True(t, f != nil, "%s", name)
		says.Equal(t, f.Title, never+c.want, "%s", name)
	}
}

// TestStopsNoPod: a warning about how a pod ends, or of an audit, does not say that the pod did not start.
func TestStopsNoPod(t *testing.T) {
	for reason, found := range map[string]int{"OutOfcpu": 1, "FailedKillPod": 0, "FailedPreStopHook": 0, "PolicyViolation": 0, "MissingClusterDNS": 0} {
		warning := strings.Replace(platformEvent("Pod", "w-3", reason, "no answer", "10:12:20"), `"severity": "INFO"`, `"severity": "WARNING"`, 1)
		r := report(t, load(t, rareEvents(t, append(aliveNodes(), warning)), rayevents.Session, nil))
		says.Equal(t, len(r.Findings), found, "%s: %+v", reason, r.Findings)
	}
}
