package findings_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// rareEvents stores events that rayevents makes. It returns the folder of the store.
func rareEvents(t *testing.T, events []string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	put(t, dir, rayevents.Key(), strings.Join(events, "\n")+"\n")
	return dir
}

// put writes an object of a store in a folder.
func put(t *testing.T, dir, key, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(key))
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(text), 0o644))
}

// TestPods: there are findings about pods that Kubernetes could not run, but not about pods that ran in the end. What
// ended the pod of a node is shown in the finding about the node.
func TestPods(t *testing.T) {
	dir := rareEvents(t, append(rayevents.Of("NODE", "PLATFORM"),
		strings.NewReplacer("lab-worker-a", "lab-worker-z", "dWlkLXNob3J0LWE=",
			"eg==").Replace(rayevents.Of("PLATFORM")[1])))
	s := load(t, dir, rayevents.Session, nil)
	r := report(t, s)
	var pods []string
	node := ""
	for _, f := range r.Findings {
		switch f.Kind {
		case findings.Pod:
			pods = append(pods, f.Title)
			says.True(t, f.Severity == findings.Warning && f.First != "" && len(f.Entities) != 0 &&
				len(f.Evidence) != 0, "%+v", f)
		case findings.NodeDied:
			node = text(f)
		}
	}
	want := []string{
		"Pod lab-worker-z, lab-worker-a could not be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
		`Pod lab-worker-c could not be started: Failed to pull image "ray:none": not found`,
		`Pod lab-worker-c could not be started: Back-off pulling image "ray:none"`,
	}
	says.EqualSlices(t, pods, want)
	says.True(t, strings.Contains(node, "Pod lab-worker-b: Evicted: The node was low on resource: memory."),
		"the node that died: %s", node)
	if again := report(t, indexed(t, folder(t, dir), s)); len(again.Findings) != len(r.Findings) {
		t.Errorf("%d findings from the index, %d from events", len(again.Findings), len(r.Findings))
	}
}

// TestAgents: of a node that died because an agent of its raylet ended, it is told why that did, and of a raylet that
// ended itself with which error. Exceptions after which the agent went on do not count.
func TestAgents(t *testing.T) {
	const (
		failed  = "dashboard_agent failed and raylet fate-shares with it."
		ended   = "[2026-11-22 10:20:30,692 I 43 68] (raylet) agent_manager.cc:83: Agent process with name %s exited, exit code %d.\n"
		trace   = "Traceback (most recent call last):\n  File \"/lib/ray/dashboard/agent.py\", line 543, in <module>\n    loop.run_until_complete(agent.run())\nImportError: no grpc\n"
		handled = "Traceback (most recent call last):\n  File \"/lib/ray/dashboard/agent.py\", line 3, in report\nOSError: no figures\n"
	)
	const (
		marked  = "[2026-11-22 10:20:30,692 C 43 68] (raylet) node_manager.cc:999: [Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS\n*** StackTrace Information ***\n"
		aborted = "[2026-11-22 10:20:30,693 E 43 68] (raylet) logging.cc:497: *** SIGABRT received at time=1795342830 on cpu 0 ***\n"
	)
	raylets := fmt.Sprintf(ended+ended, "runtime_env_agent", 0, "dashboard_agent/1015601482", 137)
	node := must.Get(rayid.Parse[rayid.Node](strings.Repeat("02", rayid.NodeSize)))(t)
	for name, c := range map[string]struct {
		reason string
		logs   map[string]string
		want   string
	}{
		"its log": {failed, map[string]string{"dashboard_agent.log": trace, "raylet.out": raylets},
			": dashboard_agent failed and raylet fate-shares with it: ImportError: no grpc"},
		"its stderr": {failed, map[string]string{"dashboard_agent.log": handled, "dashboard_agent.err": trace},
			"fate-shares with it: ImportError: no grpc"},
		"its exit code": {failed, map[string]string{"dashboard_agent.log": handled, "raylet.out": raylets},
			"fate-shares with it: it ended with exit code 137"},
		"nothing": {failed, nil, "fate-shares with it."},
		"the other agent": {"Raylet could not connect to Runtime Env Agent",
			map[string]string{"runtime_env_agent.log": trace, "dashboard_agent.log": handled},
			"Raylet could not connect to Runtime Env Agent: ImportError: no grpc"},
		"another reason": {"health check failed", map[string]string{"dashboard_agent.log": trace, "raylet.out": raylets},
			": health check failed"},
		"a raylet that lived on": {"health check failed", map[string]string{"raylet.out": raylets + marked, "raylet.err": marked + aborted},
			": health check failed; its raylet ended with: SIGABRT: [Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS"},
		"a raylet without a thread": {"health check failed", map[string]string{"raylet.err": "terminate called after throwing an instance of 'std::system_error'\n  what():  thread: Resource temporarily unavailable\n" + aborted},
			": health check failed; its raylet ended with: SIGABRT: std::system_error: thread: Resource temporarily unavailable"},
		"a raylet after a worker": {"health check failed", map[string]string{"raylet.err": "terminate called after throwing an instance of 'std::bad_alloc'\n" + marked + aborted},
			"its raylet ended with: SIGABRT: [Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS"},
		"a raylet that was told to end": {"health check failed", map[string]string{"raylet.err": strings.Replace(aborted, "ABRT", "TERM", 1)},
			": health check failed"},
		"a worker that never had logs of its own": {"health check failed",
			map[string]string{"raylet.err": strings.ReplaceAll(marked+aborted, "(raylet) ", "")}, ": health check failed"},
		"a raylet that was drained": {"health check failed", map[string]string{"raylet.out": strings.Replace(marked, " C ", " I ", 1)},
			": health check failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var events []string
			for _, e := range rayevents.Of("NODE") {
				events = append(events,
					strings.ReplaceAll(e, "health check failed due to missing too many heartbeats", c.reason))
			}
			dir := rareEvents(t, events)
			for file, text := range c.logs {
				put(t, dir, layout.LogKey(layout.DefaultRoot, rayevents.Session, node, file), text)
			}
			r := report(t, load(t, dir, rayevents.Session, nil))
			i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == findings.NodeDied })
			must.True(t, i >= 0 && strings.HasSuffix(r.Findings[i].Title, c.want), "%+v", r.Findings)
			if got := len(r.Findings[i].Evidence) > 1; got == (c.logs == nil || strings.HasSuffix(c.want, ": health check failed")) {
				t.Errorf("%s", text(r.Findings[i]))
			}
		})
	}
}

// TestPodWithoutNode: if no node is known that ran in a pod, the end of the pod is a finding of its own.
func TestPodWithoutNode(t *testing.T) {
	r := report(t, load(t, rareEvents(t, rayevents.Of("PLATFORM")), rayevents.Session, nil))
	if !slices.ContainsFunc(r.Findings,
		func(f *findings.Finding) bool { return strings.HasPrefix(f.Title, "Pod lab-worker-b was evicted: ") }) {
		t.Errorf("%+v", r.Findings)
	}
}

// TestPodsKeptOut: a pod that a machine did not admit, or that had to make room for another one, has a finding.
func TestPodsKeptOut(t *testing.T) {
	for reason, what := range map[string]string{"UnexpectedAdmissionError": "could not be started",
		"FailedCreatePodContainer": "could not be started", "Preempting": "was preempted"} {
		event := strings.NewReplacer("lab-worker-a", "lab-worker-z", "FailedScheduling",
			reason).Replace(rayevents.Of("PLATFORM")[1])
		r := report(t, load(t, rareEvents(t, []string{event}), rayevents.Session, nil))
		says.True(t, len(r.Findings) == 1 && strings.HasPrefix(r.Findings[0].Title, "Pod lab-worker-z "+what+": "),
			"%s: %+v", reason, r.Findings)
	}
}

// TestHostilePods: very long names do not make a report large.
func TestHostilePods(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var events []string
	for _, e := range rayevents.Of("PLATFORM") {
		events = append(events, strings.NewReplacer(`"objectName": "`, `"objectName": "`+long, `"Pod"`, `"Pod`+long+`"`,
			`"reason": "Failed`, `"reason": "Failed`+long).Replace(e))
	}
	text, err := json.Marshal(report(t, load(t, rareEvents(t, events), rayevents.Session, nil)))
	says.True(t, err == nil && len(text) <= 100_000 && strings.Contains(string(text), `"pod`), "%d bytes, %v",
		len(text), err)
}

// TestGroupFromEvents: a placement group that waits is found by its events alone.
func TestGroupFromEvents(t *testing.T) {
	r := report(t, load(t, rareEvents(t, rayevents.Of("NODE", "PLACEMENT")), rayevents.Session, nil))
	for _, f := range r.Findings {
		if f.Kind != findings.Unschedulable {
			continue
		}
		want := "Placement group too-large was never placed: it asks for 2 bundles of 1.5 CPU, 1 GPU on a node with the labels zone=a, STRICT_SPREAD, and no node has any GPU"
		says.True(t, f.Title == want && f.Evidence[0].Source == "event" &&
			strings.Contains(f.Evidence[0].Text, "INFEASIBLE"), "got  %s, %+v\nwant %s", f.Title, f.Evidence, want)
		return
	}
	t.Errorf("%+v", r.Findings)
}

// TestGroupOfTrials: a placement group without a name is called by the trials of Tune that wait, if all have one name.
func TestGroupOfTrials(t *testing.T) {
	const row = "│ fit_ets_bb3f2_00000   PENDING          6 │\n"
	events := append(submission("raysubmit_bad"), driverOf(1, "raysubmit_bad"))
	for _, e := range rayevents.Of("NODE", "PLACEMENT") {
		events = append(events, strings.NewReplacer("too-large", "", `"creatorJobId": "AQAAAA=="`,
			`"creatorJobId": "AAAAAQ=="`).Replace(e))
	}
	for log, of := range map[string]string{
		row + strings.ReplaceAll(row, "00000", "00001"):  "of Tune trial fit_ets in job raysubmit_bad",
		strings.ReplaceAll(row, "│ ", ""):                "of Tune trial fit_ets in job raysubmit_bad",
		row + strings.ReplaceAll(row, "fit_ets", "tft"):  "of job raysubmit_bad",
		strings.ReplaceAll(row, "PENDING", "TERMINATED"): "of job raysubmit_bad",
	} {
		dir := rareEvents(t, events)
		storeLog(t, dir, "job-driver-raysubmit_bad.log", log)
		r := report(t, load(t, dir, rayevents.Session, nil))
		says.True(t, only(r, "^Placement group [0-9a-f]{8}… "+of+" was never placed") != nil, "%s%s", log, r.Summary)
	}
}

// TestSubmissionFromEvents: a submission that failed is found by its events alone, and so is the outcome.
func TestSubmissionFromEvents(t *testing.T) {
	r := report(t, load(t, rareEvents(t, rayevents.Of("SUBMISSION")), rayevents.Session, nil))
	says.True(t, r.Outcome == catalog.Failed && len(r.Findings) != 0 && r.Findings[0].Kind == findings.JobFailed &&
		r.Findings[0].SubmissionID == "raysubmit_bad", "%s: %+v", r.Outcome, r.Findings)
}
