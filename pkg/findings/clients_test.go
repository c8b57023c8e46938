package findings_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestClients: of a Ray Client that got no server only the head's logs tell, because Ray knows no job of it.
func TestClients(t *testing.T) {
	const (
		env     = `{"pip": {"packages": ["acme-forecast==9.1"]}}`
		asks    = "2026-11-22 10:15:31,000\tINFO proxier.py:260 -- Increasing runtime env reference for ray_client_server_23000.Serialized runtime env is " + env + ".\n"
		begins  = "2026-11-22 10:15:31,004\tINFO runtime_env_agent.py:543 -- Creating runtime env: " + env + " with timeout 600 seconds.\n"
		raises  = "2026-11-22 10:15:39,000\tERROR runtime_env_agent.py:571 -- [Increase] Failed to create runtime env " + env + ".\nTraceback (most recent call last):\n  File \"/ray/runtime_env_agent.py\", line 519, in _setup_runtime_env\n    await create()\nRuntimeError: bucket wheels is gone\n"
		givesUp = "2026-11-22 10:15:40,000\tERROR runtime_env_agent.py:587 -- runtime_env creation failed 3 times, giving up.\n"
		made    = "2026-11-22 10:15:40,000\tINFO runtime_env_agent.py:580 -- Successfully created runtime env: " + env + ", context: {}\n"
		ended   = "2026-11-22 10:15:33,000\tERROR proxier.py:394 -- SpecificServer startup failed for client: e1f95a\n2026-11-22 10:15:33,004\tERROR proxier.py:768 -- Server startup failed for client: e1f95a, using JobConfig: <ray.job_config.JobConfig object at 0x7f>!\n"
	)
	for name, c := range map[string]struct{ proxy, agent, server, kind, title string }{
		"an environment": {asks, begins + raises + givesUp, "", findings.RuntimeEnv,
			"The runtime environment of a Ray Client could not be set up: RuntimeError: bucket wheels is gone"},
		"one that was made":        {asks, begins + raises + made, "", "", ""},
		"another one's":            {asks, strings.ReplaceAll(begins+raises+givesUp, "9.1", "9.2"), "", "", ""},
		"another one's, meanwhile": {asks, strings.ReplaceAll(begins, "9.1", "9.2") + begins + strings.ReplaceAll(raises, "9.1", "9.2") + givesUp + made, "", "", ""},
		"a server":                 {ended, "", "", findings.WorkerStart, "A Ray Client could not connect: its server ended as it started"},
		"a server that says why": {ended, "", "ImportError: libcudart.so.12 is not there\n", findings.WorkerStart,
			"A Ray Client could not connect: its server ended as it started: ImportError: libcudart.so.12 is not there"},
	} {
		dir := rareEvents(t, rayevents.Of("NODE"))
		for log, text := range map[string]string{"ray_client_server.err": c.proxy, "runtime_env_agent.log": c.agent, "ray_client_server_23000.err": c.server} {
			if text != "" {
				storeLog(t, dir, log, text)
			}
		}
		r := report(t, load(t, dir, rayevents.Session, nil))
		kind, title := "", ""
		for _, f := range r.Findings {
			if f.Kind == findings.RuntimeEnv || f.Kind == findings.WorkerStart {
				kind, title = f.Kind, f.Title
			}
		}
		if kind != c.kind || title != c.title || c.kind != "" && r.Outcome != catalog.Failed {
			t.Errorf("%s: %s, %s: %s", name, r.Outcome, kind, title)
		}
	}
}

// TestSpilledObjects: what waited for spilled objects that could not be read back has them as its cause, if that was
// shortly before its end.
func TestSpilledObjects(t *testing.T) {
	const gone = "2026-11-22 10:15:%s,000\tERROR __init__.py:1524 -- An unexpected internal error occurred while the IO worker was restoring spilled objects.\nTraceback (most recent call last):\n" +
		"  File \"/ray/_private/external_storage.py\", line 361, in restore_spilled_objects\n    with open(base_url, \"rb\") as f:\nFileNotFoundError: [Errno 2] No such file or directory: '/tmp/spill/0c2a-multi-4'\n"
	const title = "Spilled objects on node .* could not be read back: FileNotFoundError: .*/tmp/spill/0c2a-multi-4'"
	for name, c := range map[string]struct {
		log, said string
		root      bool
	}{
		"words of its own":        {strings.Replace(gone, "%s", "50", 1), "RuntimeError: 4 of 8 means are missing", true},
		"a timeout":               {strings.Replace(gone, "%s", "50", 1), "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.", true},
		"a mistake":               {strings.Replace(gone, "%s", "50", 1), "NameError: name 'mean' is not defined", false},
		"what it says itself":     {strings.Replace(gone, "%s", "50", 1), "ValueError: loss is NaN", false},
		"objects that were saved": {strings.NewReplacer("%s", "50", "restoring", "spilling").Replace(gone), "RuntimeError: 4 of 8 means are missing", false},
	} {
		dir := submissionWithLog(t, 1, trace(c.said), driverOf(1, "raysubmit_bad"))
		storeLog(t, dir, "io_worker-"+strings.Repeat("07", 28)+"-2805.err", c.log)
		_, chain := badJob(t, dir)
		root := chain[len(chain)-1]
		says.Equal(t, root.Kind == findings.ObjectLost && regexp.MustCompile(title).MatchString(root.Title), c.root, "%s: %s", name, root.Title)
	}
}
