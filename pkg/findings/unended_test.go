package findings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// open is a submission that had not ended when its session did.
const open = "raysubmit_open"

const (
	starting = "2026-11-22 10:15:30,000\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
	running  = starting + "Running entrypoint for job raysubmit_open: python app.py\n"
)

// aliveNodes returns the events of both nodes, of which none died.
func aliveNodes() (events []string) {
	dead := regexp.MustCompile(`, \{"state": "DEAD".*?"UNSPECIFIED"\}`)
	for _, e := range rayevents.Of("NODE") {
		events = append(events, dead.ReplaceAllString(e, ""))
	}
	return events
}

// runningTask returns the events of a task of the job 00000001 that ran from 10:15:55 on.
func runningTask(name string) []string {
	task := failedTask(1, name, "", "")
	task[1] = strings.NewReplacer(`"FAILED"`, `"RUNNING"`, `"rayErrorInfo"`, `"x"`).Replace(task[1])
	return task
}

// pendingSupervisor returns the events of the submission's supervisor, which had not started.
func pendingSupervisor() []string {
	const about = `"actorId": "c3VwZXJ2aXNvci4uAQAAAA=="`
	return []string{
		eventOf("ds", "ACTOR_DEFINITION_EVENT", "actorDefinitionEvent",
			about+`, "jobId": "AgAAAA==", "className": "JobSupervisor", "name": "_ray_internal_job_actor_raysubmit_open"`),
		eventOf("ls", "ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent",
			about+`, "stateTransitions": [{"state": "PENDING_CREATION", "timestamp": "2026-11-22T10:15:30Z"}]`),
	}
}

// noGCS is what a raylet logs again and again, at a second after 10:16, when it cannot reach the GCS.
var noGCS = "[2026-11-22 10:16:%02d,000 I 88 88] (raylet) ray_syncer.cc:108: Connection to the node was broken, reconnecting. node_id=" +
	strings.Repeat("0", 56) + "\n"

// storeWorkerLog stores a log of the other node.
func storeWorkerLog(t *testing.T, dir, name, log string) {
	t.Helper()
	storeLog(t, dir, name, log)
	ones, twos := strings.Repeat("01", 28), strings.Repeat("02", 28)
	from := filepath.Join(dir, filepath.FromSlash(layout.Prefix(layout.DefaultRoot, rayevents.Session)), "logs", ones,
		name)
	to := filepath.Join(filepath.Dir(filepath.Dir(from)), twos, name)
	must.OK(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must.OK(t, os.Rename(from, to))
}

// TestUnended: the first finding of a job that had not ended when its session did says what it was doing or waiting
// for.
func TestUnended(t *testing.T) {
	repeated := strings.Builder{}
	for i := range 12 {
		fmt.Fprintf(&repeated, "2026-11-22 10:16:%02d attempt %d: connect to feature-db:5432: Connection refused\n", i,
			i)
	}
	const creating = "2026-11-22 10:15:31,000\tINFO runtime_env_agent.py:543 -- Creating runtime env: {\"pip\": {\"packages\": [\"torch==2.4\", \"vllm\"]}} with timeout 600 seconds.\n"
	for name, c := range map[string]struct {
		log    string
		events []string
		other  map[string]string // logs of the head
		worker string            // raylet.out of the other node
		title  string            // of the first finding
		own    string            // of the finding about the job
	}{
		"its log repeats one line": {
			log:   running + repeated.String(),
			title: `^Job raysubmit_open had not ended when the cluster did: its driver had not connected to Ray; its log ends with the same line 12 times: .*feature-db:5432: Connection refused; the head ended without notice: nothing is stored after 10:20:31 UTC$`,
		},
		"it stops Ray": {
			log: running + "starting over\n2026-11-22 10:16:01,712\tVINFO scripts.py:1415 -- Killed `\x1b[1m/env/raylet` \x1b[2m(via SIGKILL)\x1b[22m\n" +
				"2026-11-22 10:16:02,664\tSUCC scripts.py:1496 -- \x1b[32mStopped all 11 Ray processes.\x1b[39m\n",
			title: `^Job raysubmit_open had not ended when the cluster did: its driver had not connected to Ray; .*; its entrypoint ran ray stop, which ended its own node$`,
		},
		"it lasted for days": {
			log:   running + "2026-11-24 10:16:00 epoch 7\n",
			title: `nothing is stored after 2026-11-24 10:16:00 UTC$`,
		},
		"a task runs": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)),
			title: `^Job raysubmit_open had not ended when the cluster did: it was waiting for crunch, which had been running for 4m36s; the head ended without notice: nothing is stored after 10:20:31 UTC$`,
		},
		"its environment is made": {
			log: starting, events: pendingSupervisor(), other: map[string]string{"runtime_env_agent.log": creating,
				"runtime_env_setup-02000000.log": "Run cmd[3] ['python', '-m', 'pip', 'install']\n"},
			title: `^The runtime environment of job raysubmit_open was not ready: pip \(torch==2.4, vllm\) had taken 5m0s$`,
			own:   `its runtime environment was still being made; the head ended without notice: `,
		},
		"its environment was made": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)), other: map[string]string{
				"runtime_env_agent.log": creating +
					"2026-11-22 10:15:41,000\tINFO runtime_env_agent.py:580 -- Successfully created runtime env: {}, context: {}\n", "runtime_env_setup-00000001.log": "x\n",
			},
			title: `it was waiting for crunch, which had been running`,
		},
		"the head is silent": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)),
			other:  map[string]string{"gcs_server.out": "[2026-11-22 10:16:01,000 I 55 55] (gcs_server) x.cc:1: fine\n"},
			worker: fmt.Sprintf(noGCS, 5) + fmt.Sprintf(noGCS, 31),
			title:  `^Node 10.0.0.1.* ended without notice: its logs stop at 10:16:01 UTC, and then node 10.0.0.2 could not reach it any more$`,
			own:    `it was waiting for crunch`,
		},
		"its environment is made, and only the head's logs go on": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)), other: map[string]string{
				"runtime_env_agent.log":          strings.Replace(creating, "10:15:31", "10:20:30", 1),
				"runtime_env_setup-00000001.log": "x\n", "gcs_server.out": "x\n",
				"monitor.log": "2026-11-22 10:20:50,000\tINFO autoscaler.py:469 -- round\n",
			},
			title: `^The runtime environment of job raysubmit_open was not ready: pip \(torch==2.4, vllm\) had taken 20s`,
			own:   `; the head ended without notice: nothing is stored after 10:20:50 UTC$`,
		},
		"the raylet's log goes on": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)),
			other: map[string]string{"gcs_server.out": "x\n", "raylet.out": "[2026-11-22 10:21:55,000 I 88 88] (raylet) x.cc:1: fine\n"},
			title: `it was waiting for crunch, which had been running for 6m0s; the head ended without notice: nothing is stored after 10:21:55 UTC$`,
		},
		"the head's logs end before the last event": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)),
			other: map[string]string{"gcs_server.out": "x\n", "dashboard.log": "2026-11-22 10:15:55,000\tINFO head.py:1 -- fine\n"},
			title: `running for 4m36s; the head ended without notice: nothing is stored after 10:20:31 UTC$`,
		},
		"both nodes are silent": {
			log: running, events: append(runningTask("crunch"), driverOf(1, open)),
			other:  map[string]string{"gcs_server.out": "[2026-11-22 10:16:01,000 I 55 55] (gcs_server) x.cc:1: fine\n"},
			worker: "[2026-11-22 10:16:02,000 W 88 88] (raylet) gcs_client.cc:12: GCS is slow\n",
			title:  `^Job raysubmit_open had not ended`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rareEvents(t, append(c.events, aliveNodes()...))
			storeLog(t, dir, "job-driver-raysubmit_open.log", c.log)
			for name, log := range c.other {
				storeLog(t, dir, name, log)
			}
			if c.worker != "" {
				storeWorkerLog(t, dir, "raylet.out", c.worker)
			}
			r := report(t, load(t, dir, rayevents.Session, nil))
			checkOrder(t, r)
			if len(r.Findings) == 0 || !regexp.MustCompile(c.title).MatchString(r.Findings[0].Title) ||
				r.Findings[0].Severity != findings.Error {
				for _, f := range r.Findings {
					t.Log(f.Severity, f.Title)
				}
				t.Fatalf("the first finding is not like %q: %s", c.title, r.Summary)
			}
			says.Equal(t, r.Outcome, catalog.Unfinished, "the outcome")
			says.True(t,
				slices.ContainsFunc(r.Findings,
					func(f *findings.Finding) bool {
						return f.Kind == findings.Unended && f.SubmissionID == open &&
							regexp.MustCompile(c.own).MatchString(f.Title)
					}), "no finding of the job is like %q", c.own)
		})
	}
}

// TestHeadEndedAlone: a head whose collector stored the end of the session ended without notice if it was not told to
// end and another node went on for much longer than nodes do that are deleted together.
func TestHeadEndedAlone(t *testing.T) {
	const fine = "[2026-11-22 10:16:01,000 I 55 55] (raylet) x.cc:1: fine\n"
	for name, c := range map[string]struct {
		raylet, other string // raylet.out of the head and of the other node
		want          bool
	}{
		"it alone":        {fine, fmt.Sprintf(noGCS, 3) + fmt.Sprintf(noGCS, 27), true},
		"told to end":     {fine + strings.Replace(fine, "fine", "Raylet received SIGTERM", 1), fmt.Sprintf(noGCS, 3) + fmt.Sprintf(noGCS, 27), false},
		"both in a grace": {fine, fmt.Sprintf(noGCS, 3) + fmt.Sprintf(noGCS, 11), false},
		"nobody misses it": {fine, fmt.Sprintf("[2026-11-22 10:16:%02d,000 I 88 88] (raylet) x.cc:1: fine\n", 27),
			false},
	} {
		dir := rareEvents(t, append(append(runningTask("crunch"), driverOf(1, open)), aliveNodes()...))
		storeLog(t, dir, "job-driver-raysubmit_open.log", running)
		storeWorkerLog(t, dir, "raylet.out", c.other)
		storeLog(t, dir, "raylet.out", c.raylet)
		storeLog(t, dir, "gcs_server.out", fine)
		put(t, dir, layout.MetadataKey(layout.DefaultRoot, rayevents.Session, layout.End),
			`{"end": "2026-11-22T10:16:31Z"}`)
		r := report(t, load(t, dir, rayevents.Session, nil))
		says.Equal(t, r.Findings[0].Kind == findings.NodeDied, c.want, "%s: the first finding is %s", name,
			r.Findings[0].Title)
	}
}

// TestGCSStoodStill: a GCS stood still if the autoscaler, which had asked it regularly, and it itself have no more
// lines while the head's raylet goes on, and the autoscaler gave up, a driver was not answered, or it lasted for
// minutes. That the autoscaler ended first, or had nothing to log, is not enough.
func TestGCSStoodStill(t *testing.T) {
	lines := func(format string, seconds ...int) (log string) {
		for _, s := range seconds {
			log += fmt.Sprintf(format, s/60, s%60)
		}
		return log
	}
	const (
		round  = "2026-11-22 10:%02d:%02d,000\tINFO autoscaler.py:469 -- The autoscaler took 0.001 seconds to complete the update iteration.\n"
		failed = "2026-11-22 10:%02d:%02d,000\tERROR monitor.py:457 -- Monitor: Execution exception. Trying again...\n"
		told   = "[2026-11-22 10:%02d:%02d,000 I 88 88] (raylet) main.cc:9: Raylet received SIGTERM, shutting down...\n"
		fine   = "[2026-11-22 10:%02d:%02d,000 I 88 88] (raylet) x.cc:1: fine\n"
		core   = "[2026-11-22 10:%02d:%02d,000 W 9 9] task_event_buffer.cc:943: [1] GCS or the event aggregator hasn't replied to the previous flush events call (likely overloaded). [gcs_grpc_in_progress=1]\n"
	)
	noGCS := strings.Replace(noGCS, "10:16:", "10:%02d:", 1)
	regular, late := lines(round, 960, 965, 970), lines(core, 980)
	for name, c := range map[string]struct {
		monitor, raylet string
		driver, other   string // the log of a driver's core, and raylet.out of the other node
		want            string // "": no finding is about the GCS
	}{
		"it stood still":                   {regular, lines(fine, 960, 1000), late, "", "stopped answering at 10:16:11 UTC"},
		"the autoscaler gave up":           {regular + lines(failed, 1035), lines(fine, 960, 1060), "", "", "at 10:16:11 UTC"},
		"told to end long after":           {regular, lines(fine, 1000) + lines(told, 1200), "", "", "at 10:16:11 UTC"},
		"the autoscaler ended first":       {regular, lines(fine, 960, 1000), "", "", ""},
		"told to end a little later":       {regular, lines(fine, 960) + lines(told, 996), "", "", ""},
		"a driver was not answered before": {regular, lines(fine, 960, 1000), lines(core, 960), "", ""},
		"only events were not taken": {regular, lines(fine, 960, 1000), strings.ReplaceAll(late, "gcs_grpc_in_progress=1",
			"gcs_grpc_in_progress=0"), "", ""},
		"told to end with the others":   {regular, lines(told, 972) + lines(fine, 1000), late, "", ""},
		"the autoscaler just started":   {lines(round, 970), lines(fine, 960, 1000), late, "", ""},
		"the autoscaler has no rounds":  {lines(failed, 960, 965, 970), lines(fine, 960, 1000), late, "", ""},
		"the autoscaler has no rhythm":  {lines(round, 900, 930, 970), lines(fine, 960, 1000), late, "", ""},
		"the head was lost a while ago": {regular, lines(fine, 960, 1000), late, lines(noGCS, 1010, 1031), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rareEvents(t, append(append(runningTask("crunch"), driverOf(1, open)), aliveNodes()...))
			storeLog(t, dir, "job-driver-raysubmit_open.log", running)
			storeLog(t, dir, "gcs_server.out", lines(fine, 971))
			storeLog(t, dir, "monitor.log", c.monitor)
			if c.driver != "" {
				storeLog(t, dir, "python-core-driver-01000000_9.log", c.driver)
			}
			if c.other != "" {
				storeWorkerLog(t, dir, "raylet.out", c.other)
			}
			storeLog(t, dir, "raylet.out", c.raylet)
			got := ""
			for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
				if f.Kind == findings.GCSDied {
					got += f.Title
				}
			}
			says.True(t, (c.want == "") == (got == "") && strings.Contains(got, c.want), "%q, want %q", got, c.want)
		})
	}
}

// TestTrainsOwn: actors of classes that Train's controller has, too, are Ray's only in a job with such a controller.
func TestTrainsOwn(t *testing.T) {
	for _, class := range []string{"DatasetManager", "DatasetState", "PlacementGroupCleaner", "PreemptionWatcher",
		"SynchronizationActor"} {
		events := deadActor(class, "actorDiedErrorContext", "The actor died unexpectedly.", "ACTOR_DIED")
		told := func(events []string) bool {
			r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
			return slices.ContainsFunc(r.Findings, func(f *findings.Finding) bool {
				return strings.Contains(f.Title, class)
			})
		}
		says.True(t, told(events), "no finding is about the program's own %s", class)
		controller := deadActor("TrainController", "x", "", "x")[:1]
		if got, want := told(append(events, controller...)), class == "DatasetState"; got != want {
			t.Errorf("beside a controller of Train: %s: %t", class, got)
		}
	}
}

// TestWaitsNow: the summary of a job that runs says what it waits for.
func TestWaitsNow(t *testing.T) {
	pending := strings.NewReplacer(`"RUNNING"`, `"PENDING_NODE_ASSIGNMENT"`)
	lacking := runningTask("embed")
	lacking[0] = strings.Replace(lacking[0], `{"CPU": 1.0}`, `{"GPU": 4.0}`, 1)
	lacking[1] = pending.Replace(lacking[1])
	const made = "2026-11-22 10:15:31,000\tINFO runtime_env_agent.py:543 -- Creating runtime env: {\"pip\": {\"packages\": [\"torch==2.4\"]}} with timeout 600 seconds.\n"
	for name, c := range map[string]struct {
		events []string
		logs   map[string]string
		want   string
	}{
		"a task runs":       {events: runningTask("crunch"), want: "is running: it has waited for crunch since 10:15:55 UTC."},
		"nothing runs":      {want: "is running."},
		"no node has it":    {events: lacking, want: "is running: embed could never be scheduled: it asks for 4 GPU, and no node has any GPU."},
		"two tasks run":     {events: append(runningTask("crunch"), runningTask("fetch")...), want: "is running: it has waited for crunch, fetch since 10:15:55 UTC."},
		"one of them lacks": {events: append(runningTask("crunch"), lacking...), want: "is running: embed could never be scheduled: "},
		"its environment is made": {
			logs: map[string]string{"runtime_env_agent.log": made, "runtime_env_setup-00000001.log": "x\n"},
			want: "is running: The runtime environment of job raysubmit_open was not ready: pip (torch==2.4) had taken 5m0s."},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rareEvents(t, append(append(c.events, driverOf(1, open)), aliveNodes()...))
			storeLog(t, dir, "job-driver-raysubmit_open.log", running)
			for name, log := range c.logs {
				storeLog(t, dir, name, log)
			}
			s := load(t, dir, rayevents.Session, nil)
			r := reportKept(t, dir, s, true)
			at := slices.IndexFunc(r.Jobs, func(j findings.Job) bool { return j.SubmissionID == open })
			says.True(t, at >= 0 && strings.Contains(r.Jobs[at].Summary, c.want), "want %q: %+v", c.want, r.Jobs)
		})
	}
	dir, ref := cluster(t, "actor_deadlock")
	s := load(t, dir, ref, nil)
	r, err := findings.Reader{}.Read(t.Context(), &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: s,
		At: s.Start + (s.End-s.Start)/10*7})
	must.OK(t, err)
	const want = "is running: it has waited for ShardOwner.run since 00:07:23 UTC; in it preprocess_shard waited for 1 CPU: ShardOwner held 6 of 6 CPU."
	says.True(t, strings.HasSuffix(r.Jobs[0].Summary, want), "the end of a chain: %s", r.Jobs[0].Summary)
}
