package findings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestBehindOwnWords: of a task that gave up in words of its own, that got an empty text, whose child of Java did not
// begin, or in which a library failed as it cleaned up, the title says what had happened before.
func TestBehindOwnWords(t *testing.T) {
	const save = "Traceback (most recent call last):\n  File \"/v/site-packages/torch/serialization.py\", line 965, in save\n    _save(obj)\n  File \"/v/site-packages/torch/serialization.py\", line 1266, in _save\n    zip_file.write_record(name)\n" +
		"OSError: [Errno 28] No space left on device\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/app/a.py\", line 88, in keep\n    torch.save(model, path)\n  File \"/v/site-packages/torch/serialization.py\", line 964, in save\n    with writer(f) as opened:\n" +
		"  File \"/v/site-packages/torch/serialization.py\", line 798, in __exit__\n    self.file_like.write_end_of_file()\nRuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 704 vs 598"
	raisedAt := func(code, raised string) string {
		return "Traceback (most recent call last):\n  File \"/app/a.py\", line 22, in pull\n    " + code + "\n" + raised
	}
	const expired = "attempt 5: certificate verify failed: certificate has expired"
	const noHeap = "Invalid maximum heap size: -Xmx64q"
	for name, c := range map[string]struct{ printed, raised, want string }{
		"own words":  {"WARNING a: " + expired + "\n", raisedAt("raise NotReady(said)", "a.NotReady: store not ready after 5 attempts"), "; before that pull printed: WARNING a: " + expired},
		"a library":  {"WARNING a: " + expired + "\n", raisedAt("b.pull()\n  File \"/v/site-packages/b/a.py\", line 9, in pull\n    raise NotReady(said)", "b.NotReady: store not ready after 5 attempts"), ""},
		"no failure": {"WARNING a: " + expired + "\n", raisedAt("raise BadDate(said)", "a.BadDate: 2026-13-01 is no day"), ""},
		"no text":    {"sh: 1: ffprobe: not found\n", raisedAt("float(out)", "ValueError: could not convert string to float: ''"), "; before that pull printed: sh: 1: ffprobe: not found"},
		"a text":     {"sh: 1: ffprobe: not found\n", raisedAt("float(out)", "ValueError: could not convert string to float: '4,2'"), ""},
		"Java": {noHeap + "\nError: Could not create the Java Virtual Machine.\nError: A fatal exception has occurred. Program will exit.\n",
			raisedAt("SparkSession.builder.getOrCreate()", "RuntimeError: Java gateway process exited before sending its port number"), "; before that pull printed: " + noHeap},
		"a tool in C":      {"load_model: error: tensor 3 is not within the file bounds\nload_file: failed to load model\nmain: exiting due to a loading error\n", raisedAt("post(q)", "httpx.ConnectError: [Errno 111] Connection refused"), "; before that pull printed: load_model: error: tensor 3 is not within the file bounds"},
		"two errors apart": {"error: shard 1 is missing\nloading shard 2\nerror: no shard 2 found\n", raisedAt("post(q)", "httpx.ConnectError: [Errno 111] Connection refused"), "; before that pull printed: error: no shard 2 found"},
		"it got over one":  {"could not open the cache, using none\nfailed to renew the token of vault\n", raisedAt("post(q)", "httpx.ConnectError: [Errno 111] Connection refused"), "; before that pull printed: failed to renew the token of vault"},
		"it tried again":   {"curl: (28) no answer in 5 s\ncurl: (6) could not resolve host etl\n", raisedAt("post(q)", "httpx.ConnectError: [Errno 111] Connection refused"), "; before that pull printed: curl: (6) could not resolve host etl"},
		"it was asked to":  {"received signal 10 (SIGUSR1), saving\n", raisedAt("post(q)", "httpx.ConnectError: [Errno 111] Connection refused"), ""},
		"torchrun": {"train.py FAILED\nRoot Cause (first observed failure):\n  exitcode  : -11 (pid: 4121)\n  error_file: <N/A>\n  traceback : Signal 11 (SIGSEGV) received by PID 4121\n",
			raisedAt("run(cmd)", "subprocess.CalledProcessError: Command 'torchrun' returned non-zero exit status 1."), "; before that pull printed: traceback : Signal 11 (SIGSEGV) received by PID 4121"},
		"a step of Slurm": {"srun: error: gpu-7: task 3: Segmentation fault (core dumped)\nsrun: Terminating StepId=4112.0\nslurmstepd: error: *** STEP 4112.0 ON gpu-7 CANCELLED AT 2026-11-22T10:15:55 ***\nsrun: error: gpu-7: tasks 0-2: Terminated\n",
			raisedAt("run(cmd)", "subprocess.CalledProcessError: Command 'srun' returned non-zero exit status 139."), "; before that pull printed: srun: error: gpu-7: task 3: Segmentation fault (core dumped)"},
		"a kernel": {"Indexing.cu:1369: select: block: [1,0,0], thread: [6,0,0] Assertion `i < size` failed.\n", raisedAt("x.cpu()", "torch.AcceleratorError: CUDA error: device-side assert triggered"), "; before that pull printed: Assertion `i < size` failed."},
		"a pipe":   {"[10:15:44 TP2] Scheduler hit an exception: Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory.\n[10:15:44] Received sigquit from a child process. It usually means the child failed.\n[E421 10:15:44.426 ProcessGroupGloo.cpp:143] Rank 3 received errors while waiting for rank 2. Please check rank 2 logs for faulty rank.\n", raisedAt("end.recv()", "EOFError"), "; before that pull printed: torch.OutOfMemoryError: CUDA out of memory."},
		"a file that ended": {"ERROR a: " + expired + "\n", raisedAt("pickle.load(f)", "EOFError: Ran out of input"),
			""},
		"a panic": {"thread 'DAFTCPU-3' panicked at /src/io.rs:119:27:\ncalled `Result::unwrap()` on an `Err` value: UnableToRead { path: \"s3://lake/41.gz\" }\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
			raisedAt("b.pull()\n  File \"/v/site-packages/daft/a.py\", line 9, in pull\n    raise failed",
				"daft.exceptions.DaftCoreException: DaftError::InternalError A task has panicked"), "; before that pull printed: thread 'DAFTCPU-3' panicked at /src/io.rs:119:27: called `Result::unwrap()` on an `Err` value: UnableToRead { path: \"s3://lake/41.gz\" }"},
		"Java's agent": {"Error opening zip file or JAR manifest missing : /v/raydp-agent.jar\nError occurred during initialization of VM\nagent library failed Agent_OnLoad: instrument\n", raisedAt("SparkSession.builder.getOrCreate()", "Exception: Java gateway process exited before sending its port number"),
			"; before that pull printed: Error opening zip file or JAR manifest missing : /v/raydp-agent.jar"},
		"a licence":   {"License checkout failed.\nUnable to connect to the license server.\nDiagnostic Information:\nFeature: Simulink\nLicensing error: -15,570. System Error: 115\n", raisedAt("run(cmd)", "subprocess.CalledProcessError: Command 'sim' returned non-zero exit status 1."), "; before that pull printed: Unable to connect to the license server."},
		"cleaning up": {"", save, "; before that OSError: [Errno 28] No space left on device"},
	} {
		marked := ""
		for line := range strings.Lines(c.printed) {
			marked += "\x1b[36m(pull pid=318, ip=10.0.0.2)\x1b[0m " + line
		}
		events := append(failedTask(1, "pull", "TASK_EXECUTION_EXCEPTION", c.raised), driverOf(1, "raysubmit_bad"))
		_, chain := badJob(t, submissionWithLog(t, 1, marked+c.raised+"\n", events...))
		title := chain[len(chain)-1].Title
		_, before, told := strings.Cut(title, "; before that ")
		says.True(t, told == (c.want != "") && strings.HasSuffix(c.want, before), "%s: %s", name, title)
	}
}

// TestProgramOfPipe: a submission that succeeded has a warning about a program of its entrypoint that an exception
// ended, if the entrypoint has several and the program did not go on.
func TestProgramOfPipe(t *testing.T) {
	const module = "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n"
	const raised = "NameError: name 'best' is not defined"
	for name, c := range map[string]struct {
		entrypoint, log string
		told            bool
	}{
		"a pipe":               {"python train.py 2>&1 | tee train.log", module + "    save(best)\n" + raised + "\n", true},
		"another program":      {"python train.py; ls out", module + "    save(best)\n" + raised + "\ntotal 0\n", true},
		"or the same":          {"bash run.sh", module + "    load(best)\n" + raised + "\nusing the defaults\n", true},
		"one program":          {"python train.py", module + "    save(best)\n" + raised + "\n", false},
		"a pipe that is ended": {"python train.py | head -5", module + "    print(row)\nBrokenPipeError: [Errno 32] Broken pipe\n", false},
		"a pipe that went on":  {"python train.py | tee train.log", module + "    import best\nImportError: best\n2026-11-22 10:15:12,114\tINFO worker.py:1843 -- Connected to Ray cluster.\nepoch 1\n", false},
		"of a function":        {"python train.py | tee train.log", strings.Replace(module, "<module>", "main", 1) + "    save(best)\n" + raised + "\n", false},
		"logged":               {"python train.py | tee train.log", "2026-11-22 10:15:12,114 ERROR train: no best\n" + module + "    save(best)\n" + raised + "\n", false},
	} {
		events := []string{driverOf(1, "raysubmit_good")}
		for _, e := range submission("raysubmit_good") {
			events = append(events, strings.ReplaceAll(e, `"entrypoint": "python raysubmit_good.py"`, fmt.Sprintf(`"entrypoint": %q`, c.entrypoint)))
		}
		dir := rareEvents(t, events)
		storeLog(t, dir, "job-driver-raysubmit_good.log", c.log)
		r := report(t, load(t, dir, rayevents.Session, nil))
		how := map[bool]string{true: "ended", false: "may have ended"}[strings.HasSuffix(c.log, raised+"\n")]
		f := only(r, "^Job raysubmit_good counts as a success, but an exception "+how+" a program of its entrypoint: "+raised+"$")
		says.True(t, (f != nil) == c.told && len(r.Findings) <= 1 && (f == nil || f.Severity == findings.Warning) &&
			r.Outcome == "succeeded", "%s: %s %+v", name, r.Outcome, r.Findings)
	}
}

// TestNodeToldToEnd: an actor that died with a node whose raylet was told to end died because of that node, whose title
// says what Kubernetes did to its pod.
func TestNodeToldToEnd(t *testing.T) {
	said := "The actor died because its node has died. Node Id: " + strings.Repeat("02", 28) + "\n\tthe actor's node was terminated expectedly: received SIGTERM"
	for name, c := range map[string]struct{ reason, message, want string }{
		"a probe":   {"Killing", "Container ray-worker failed liveness probe, will be restarted", "; its pod was restarted: Container ray-worker failed liveness probe, will be restarted"},
		"a machine": {"ScaleDown", "deleting pod for node scale down", "; its pod was removed with its machine: deleting pod for node scale down"},
		"ended":     {"Killing", "Stopping container ray-worker", ""},
	} {
		actor := deadActor("Indexer", "actorDiedErrorContext", said, "ACTOR_DIED")
		actor[1] = strings.NewReplacer(`"stateTransitions": [`, `"stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:15:05Z", "nodeId": "AgICAgICAgICAgICAgICAgICAgICAgICAgICAg==", "workerId": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw=="}, `,
			`{"actorDiedErrorContext": {`, `{"actorDiedErrorContext": {"reason": "NODE_DIED", `).Replace(actor[1])
		nodes := nodeLostAt("10:15:40")
		for i := range nodes {
			nodes[i] = strings.ReplaceAll(nodes[i], "UNEXPECTED_TERMINATION", "EXPECTED_TERMINATION")
		}
		events := slices.Concat(nodes, actor, []string{driverOf(1, "raysubmit_bad"), platformEvent("Pod", "lab-worker-b", c.reason, c.message, "10:15:37")})
		dir := submissionWithLog(t, 1, trace("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."), events...)
		storeWorkerLog(t, dir, "raylet.out", "[2026-11-22 10:15:38,114 I 88 88] (raylet) main.cc:1004: received SIGTERM. Existing local drain request = None\n")
		_, chain := badJob(t, dir)
		says.Equal(t, chain[len(chain)-1].Title, "Node 10.0.0.2 died: its raylet was told to end (SIGTERM) at 10:15:38 UTC"+c.want+"; with it failed actor Indexer", "%s", name)
	}
}

// TestStoppedByQueue: a job that had not ended when Kueue stopped its RayJob tells why, and not what KubeRay did then;
// but not of an earlier stop, after which the RayJob was started again.
func TestStoppedByQueue(t *testing.T) {
	const why = "Preempted to accommodate a workload (UID: 9f54) due to prioritization in the ClusterQueue"
	const deleted = "; what ended the cluster: RayJob nightly: DeletedRayCluster: Deleted cluster ml/lab"
	for at, want := range map[string]string{"10:20:26": "; what ended the cluster: RayJob nightly: Stopped: " + why,
		"09:30:00": deleted} {
		dir := rareEvents(t, slices.Concat(runningTask("crunch"), aliveNodes(), []string{driverOf(1, open),
			platformEvent("RayJob", "nightly", "Stopped", why, at),
			platformEvent("RayJob", "nightly", "Started", "Admitted by clusterQueue research", "09:40:00"), platformEvent("RayJob", "nightly", "DeletedRayCluster", "Deleted cluster ml/lab", "10:20:28")}))
		storeLog(t, dir, "job-driver-raysubmit_open.log", running)
		put(t, dir, layout.MetadataKey(layout.DefaultRoot, rayevents.Session, layout.End), `{"end": "2026-11-22T10:20:31Z"}`)
		r := report(t, load(t, dir, rayevents.Session, nil))
		must.True(t, len(r.Findings) > 0, "no findings")
		says.True(t, strings.HasSuffix(r.Findings[0].Title, want), "%s", r.Findings[0].Title)
	}
}

// TestOfCollective: of an actor that torch ended because a collective operation came to no end it is told what another
// worker had printed, and not once more what torch says of it.
func TestOfCollective(t *testing.T) {
	const dog = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE) ran for 600021 milliseconds before timing out."
	const peer = "ERROR step 811 failed: CUDA error: uncorrectable NVLink error detected during the execution"
	said := "[rank1]:[E1122 10:15:50.114102 ProcessGroupNCCL.cpp:632] " + dog + "\n[rank1]:[E1122 10:15:50.114390 ProcessGroupNCCL.cpp:1895] Process group watchdog thread terminated with exception: " + dog +
		"\nterminate called after throwing an instance of 'c10::DistBackendError'\n  what():  " + dog + "\n*** SIGABRT received at time=1795342555 on cpu 3 ***\n"
	actor := deadActor("Rank1", "actorDiedErrorContext", "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.", "ACTOR_DIED")
	actor[1] = strings.Replace(actor[1], `"stateTransitions": [`, `"stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:15:05Z", "nodeId": "AgICAgICAgICAgICAgICAgICAgICAgICAgICAg==", "workerId": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw=="}, `, 1)
	copied := "\x1b[36m(Rank0 pid=300)\x1b[0m " + peer + "\n"
	for line := range strings.Lines(said) {
		copied += "\x1b[36m(Rank1 pid=318, ip=10.0.0.2)\x1b[0m " + line
	}
	dir := submissionWithLog(t, 1, copied+trace("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."), append(actor, driverOf(1, "raysubmit_bad"))...)
	storeWorkerLog(t, dir, "worker-"+strings.Repeat("07", 28)+"-00000001-318.err", said)
	_, chain := badJob(t, dir)
	says.Equal(t, chain[len(chain)-1].Title, "Actor Rank1 died unexpectedly: SIGABRT: c10::DistBackendError: "+strings.TrimSuffix(dog, ".")+"; before that Rank0 printed: "+peer)
}
