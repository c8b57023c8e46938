package findings_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestPublicWords: drivers' logs with what people show around the cause: environments that the driver waited for,
// records of libraries just above a traceback, tracebacks in messages, and what the autoscaler says. Each title is all
// that is told.
func TestPublicWords(t *testing.T) {
	const (
		module = "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n    main()\n"
		env    = module + "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n"
		agent  = "Traceback (most recent call last):\n  File \"/v/ray/_private/runtime_env/uv.py\", line 148, in _install\n    await check()\n"
		tool   = "ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] failed with the following details.\n" +
			"Command '['/e/bin/python', '-m', 'uv', 'pip', 'install', '-r', '/e/r.txt']' returned non-zero exit status 1.\nLast 50 lines of stdout:\n"
		noVersion = "    Using Python 3.11 environment at: /e\n      × No solution found when resolving dependencies:\n" +
			"      ╰─▶ Because there is no version of acme==9 and you require acme==9, we can\n          conclude that your requirements are unsatisfiable.\n\n"
		failed   = "^Job raysubmit_bad failed: its driver raised "
		noBroker = `cimpl.KafkaException: KafkaError{code=_TRANSPORT,val=-195,str="Failed to get metadata: Local: Broker transport failure"}`
		// between the object's ID and the reason is advice
		evicted = "Failed to retrieve object 00ff. To see information about where this ObjectRef was created in Python, set X.\n\nThe object cannot be reconstructed because its lineage has been evicted to reduce memory pressure."
	)
	for name, c := range map[string]struct {
		code      int
		log, want string
		events    []string
	}{
		"uv": {1, env + agent + tool + noVersion, failed + "RuntimeEnvSetupError: × No solution found when " +
			"resolving dependencies: Because there is no version of acme==9 and .* unsatisfiable.$", nil},
		"uv, with its node": {1, env + "[Node 10.0.0.2] " + agent + tool + noVersion,
			failed + "RuntimeEnvSetupError: × No solution .* no version of acme==9 .*$", nil},
		"uv that cannot be installed": {1, env + "Could not create the actor because its associated runtime env failed to be created.\n" +
			agent + tool + "    /e/bin/python: No module named pip\n\n",
			failed + "RuntimeEnvSetupError: /e/bin/python: No module named pip$", nil},
		"a full disk": {1, env + agent + "OSError: [Errno 28] No space left on device\n\n",
			failed + `RuntimeEnvSetupError: OSError: \[Errno 28\] No space left on device$`, nil},
		"a folder that is too large": {1, "Traceback (most recent call last):\n  File \"/v/ray/packaging.py\", line 9, in upload\nValueError: Package size exceeds the maximum size\n\n" +
			"The above exception was the direct cause of the following exception:\n\n" + env + "Failed to upload the folder\n",
			failed + "ValueError: Package size exceeds the maximum size$", nil},
		"an environment that was not needed": {1, env + agent + "OSError: full\n\n" + module + "ValueError: no rows\n",
			failed + "ValueError: no rows$", nil},
		"an environment that was handled": {1, strings.Replace(env, "<module>", "warm", 1) + agent +
			"OSError: full\nwithout it\n" + module + "ValueError: no rows\n", failed + "ValueError: no rows$", nil},
		"a library in C++": {1, "[W1122 10:15:05.110 socket.cpp:752] [c10d] The client socket has failed to connect to head:29500.\n" +
			"Traceback (most recent call last):\n  File \"/v/torch/c10d.py\", line 160, in store\n    store = TCPStore(\nDistNetworkError: timed out after 60 s\n\n" +
			"The above exception was the direct cause of the following exception:\n\n" + module + "RendezvousConnectionError: no store. See inner exception.\n",
			failed + "DistNetworkError: timed out after 60 s$", nil},
		"a worker's record": {1, "\x1b[36m(f pid=7)\x1b[0m WARNING 11-22 10:13:46 utils.py:45] slow link\n" + module +
			"Unreachable: no way to a\nLast error:\nno link to b\n", failed + "Unreachable: no way to a no link to b$", nil},
		"a traceback in a message": {1, module + "ray.exceptions.RaySystemError: System error: no acme\ntraceback: " +
			"Traceback (most recent call last):\nModuleNotFoundError: no acme\n\n", failed + "RaySystemError: System error: no acme$", nil},
		"no type of nodes": {1, "\x1b[33m(autoscaler +35s)\x1b[0m Error: No available node types can fulfill resource request {'TPU': 4.0}. Add suitable node types.\n" +
			module + "TimeoutError: the cluster was not ready within 600 s\n",
			failed + `TimeoutError: the .*; before that Ray printed: No available node types can fulfill resource request \{'TPU': 4.0\}$`, nil},
		"another machine's program": {126, "/bin/sh: 1: ./score: Exec format error\n",
			`^The entrypoint of .* \(exit code 126\): /bin/sh: 1: ./score: Exec format error$`, nil},
		"dask, a part": {1, trace("OSError: torn"), "^dask:read-parquet failed: OSError: torn$",
			failedTask(1, "dask:('read-parquet-c0d7330d37f20e6efebbabdc3ffb002c', 0, 3)", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn"))},
		"dask, a call": {1, trace("OSError: torn"), "^dask:share failed: OSError: torn$",
			failedTask(1, "dask:share-0b9b4c2e-9d4e-4a3e-8a55-2c9a01f1d0aa", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn"))},
		"a program's name of a task": {1, "\x1b[36m(task, pid=62)\x1b[0m OSError: torn\n\x1b[31mERROR: Job 3 failed with return code list: [1]\x1b[0m\n",
			"return code list: \\[1\\]; before that task printed: OSError: torn$", nil},
		"told by what it is about": {1, trace("UploadError: a/4.tar"), "^up failed: UploadError: a/4.tar; before that ClientError: clock skew of 9 minutes$",
			failedTask(1, "up", "TASK_EXECUTION_EXCEPTION", reworded("UploadError: a/4.tar"))},
		"told by a number": {1, trace("PartError: 17"), "^up failed: PartError: 17; before that ClientError: clock skew of 9 minutes$",
			failedTask(1, "read", "TASK_EXECUTION_EXCEPTION", reworded("PartError: 17"))},
		"told in other words": {1, trace("UploadError: no room"), "^up failed: UploadError: no room$",
			failedTask(1, "up", "TASK_EXECUTION_EXCEPTION", reworded("UploadError: no room"))},
		"a class of trials": {1, "Trial Sweep_c1f3a_00000 started with configuration:\nTrial Sweep_c1f3a_00001 started with configuration:\n" +
			trace("OSError: torn"), "^Tune trial Sweep failed: OSError: torn$",
			failedTask(1, "ResourceTrainable.train", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn"))},
		"an exception of Java": {1, module + "ray.exceptions.CrossLanguageError: An exception raised from JAVA:\nio.ray.api.exception.RayTaskException: (pid=9, ip=10.0.0.2) Error executing task 2751d6\n" +
			"\tat io.ray.runtime.task.TaskExecutor.execute(TaskExecutor.java:186)\nCaused by: java.lang.IllegalStateException: ledger is sealed\n\tat com.acme.Ledger.post(Ledger.java:41)\n\t... 5 more\n",
			failed + "CrossLanguageError: An exception raised from JAVA: java.lang.IllegalStateException: ledger is sealed$", nil},
		"records in a message": {1, module + "RuntimeError: NPU function error: call aclnnCast failed, error code is 561103\n[ERROR] 2026-11-22-10:15:55 (PID:812, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\n" +
			"[Error]: The internal ACL of the system is incorrect.\nEZ9999: Inner Error!\n        AclOpKernelInit failed opType[FUNC:OpKernelInit]\n",
			failed + "RuntimeError: NPU function error: call aclnnCast failed, error code is 561103$", nil},
		"a stack in a message": {1, module + "XGBoostError: [10:15:54] /src/result.cc:78: \n- [tracker.cc:212]: Failed to accept connection.\nStack trace:\n  [bt] (0) /v/libxgboost.so(+0x2a6acc) [0x7f]\n",
			failed + `XGBoostError: \[10:15:54\] /src/result.cc:78: - \[tracker.cc:212\]: Failed to accept connection.$`, nil},
		"what Ray says at first": {1, "SIGTERM handler is not set because current thread is not the main thread.\n" + trace("ConnectionError: no answer"),
			failed + "ConnectionError: no answer$", nil},
		"a server that its scheduler ended": {1, "\x1b[36m(Engine pid=7)\x1b[0m [10:15:33 TP0] Scheduler hit an exception: Traceback (most recent call last):\n\x1b[36m(Engine pid=7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory.\n" +
			"\x1b[36m(Engine pid=7)\x1b[0m [10:15:33] Received sigquit from a child process. It usually means the child failed.\n\x1b[36m(generate pid=8)\x1b[0m Error: All connection attempts failed, retrying (60/60)\n" + trace("httpx.ConnectError: All connection attempts failed"),
			"^generate failed: ConnectError: All connection attempts failed; before that Engine printed: torch.OutOfMemoryError: CUDA out of memory.$",
			failedTask(1, "generate", "TASK_EXECUTION_EXCEPTION", trace("httpx.ConnectError: All connection attempts failed"))},
		"a connection that failed": {1, "\x1b[36m(read pid=8)\x1b[0m (unable to get root cause for java.lang.NoClassDefFoundError)\n" + trace("OSError: HDFS connection failed"),
			`^read failed: OSError: HDFS connection failed; before that read printed: \(unable to get root cause for java.lang.NoClassDefFoundError\)$`,
			failedTask(1, "read", "TASK_EXECUTION_EXCEPTION", trace("OSError: HDFS connection failed"))},
		"a library that only failed": {1, "\x1b[36m(fit pid=7)\x1b[0m ValueError: label 7 is unknown\n" + ofLibrary("acme.TrainError: Training failed."),
			"^fit failed: TrainError: Training failed; before that fit printed: ValueError: label 7 is unknown$",
			failedTask(1, "fit", "TASK_EXECUTION_EXCEPTION", ofLibrary("acme.TrainError: Training failed."))},
		"a library that says what failed": {1, "\x1b[36m(fit pid=7)\x1b[0m ValueError: label 7 is unknown\n" + ofLibrary("acme.TrainError: Training failed: no GPU 3"), "^fit failed: TrainError: Training failed: no GPU 3$",
			failedTask(1, "fit", "TASK_EXECUTION_EXCEPTION", ofLibrary("acme.TrainError: Training failed: no GPU 3"))},
		"a library that failed as a task had": {1, ofLibrary("acme.TrainError: Training failed."), "^read failed: OSError: torn$", failedTask(1, "read", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn"))},
		"a library that waited": {1, "\x1b[36m(Engine pid=7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory.\n" + ofLibrary("httpx.ReadTimeout: timed out"),
			"^ask failed: ReadTimeout: timed out; before that Engine printed: torch.OutOfMemoryError: CUDA out of memory.$", failedTask(1, "ask", "TASK_EXECUTION_EXCEPTION", ofLibrary("httpx.ReadTimeout: timed out"))},
		"a library that waited for what went on": {1, "\x1b[36m(Engine pid=7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory.\n" + strings.Repeat("\x1b[36m(Engine pid=7)\x1b[0m INFO:engine:served\n", 6) + ofLibrary("httpx.ReadTimeout: timed out"),
			"^ask failed: ReadTimeout: timed out$", failedTask(1, "ask", "TASK_EXECUTION_EXCEPTION", ofLibrary("httpx.ReadTimeout: timed out"))},
		"a broker": {1, "\x1b[36m(consume pid=7)\x1b[0m %3|1795342550.412|FAIL|c-1| [thrd:kafka-0:9092/bootstrap]: kafka-0:9092/bootstrap: Connect to ipv4#10.1.2.3:9092 failed: Connection refused (after 3ms in state CONNECT)\n" + ofLibrary(noBroker),
			"^consume failed: KafkaException: .*; before that consume printed: kafka-0:9092/bootstrap: Connect to ipv4#10.1.2.3:9092 failed: Connection refused", failedTask(1, "consume", "TASK_EXECUTION_EXCEPTION", ofLibrary(noBroker))},
		"fields of a worker's error": {1, "\x1b[36m(fit pid=7)\x1b[0m ValidationError: 1 validation error for Config\n\x1b[36m(fit pid=7)\x1b[0m lr\n\x1b[36m(fit pid=7)\x1b[0m   Input is invalid, cannot parse it\n" + ofLibrary("acme.TrainError: Training failed."),
			"before that fit printed: ValidationError: 1 validation error for Config lr Input is invalid, cannot parse it$", failedTask(1, "fit", "TASK_EXECUTION_EXCEPTION", ofLibrary("acme.TrainError: Training failed."))},
		"a reason below what to do": {1, trace("_pickle.UnpicklingError: Weights only load failed.\n\t(1) Set weights_only to False.\n\t(2) See the message.\n\tWeightsUnpickler error: Unsupported global: GLOBAL numpy.scalar"),
			failed + "UnpicklingError: Weights only load failed. Unsupported global: GLOBAL numpy.scalar$", nil},
		"a reason below what it is about": {1, trace("datasets.CastError: Couldn't cast\nuid: string\nto\n{'uid': 'int'}\nbecause column names don't match"), failed + "CastError: Couldn't cast because column names don't match$", nil},
		"a reason that begins a sentence": {1, trace("acme.CastError: Cannot cast\nuid: string\nBecause column names differ"), failed + "CastError: Cannot cast Because column names differ$", nil},
		"an object's reason": {1, trace("KeyError: 'x'"), "; before that join failed because an object was lost: Failed to retrieve object 00ff. The object cannot be reconstructed because its lineage has been evicted",
			failedTask(1, "join", "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED", evicted)},
		"Slurm": {1, "epoch 3 loss 1.22\nsrun: error: Node failure on node17\nslurmstepd: error: *** STEP 88123.0 ON node12 CANCELLED AT 2026-11-22T10:15:55 DUE TO NODE FAILURE ***\n" +
			"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nsrun: error: node12: task 0: Terminated\n",
			"exit code 1: srun: error: node12: task 0: Terminated; before that srun: error: Node failure on node17$", nil},
		"classes of trials": {1, "Trial A_c1f3a_00000 started with\nTrial B_c1f3b_00001 started with\n" + trace("OSError: torn"),
			"^A Tune trial failed: OSError: torn$", failedTask(1, "ResourceTrainable.train", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn"))},
	} {
		if c.events != nil {
			c.events = append(c.events, driverOf(1, "raysubmit_bad"))
		}
		_, chain := badJob(t, submissionWithLog(t, c.code, c.log, c.events...))
		root := chain[len(chain)-1]
		if !regexp.MustCompile(c.want).MatchString(root.Title) ||
			strings.HasPrefix(c.log, env) && strings.Contains(c.want, "SetupError") && root.Kind != findings.RuntimeEnv {
			t.Errorf("%s: %s: %s", name, root.Kind, root.Title)
		}
	}
}

// ofLibrary is the log of a driver, or the error of a task, with an exception that a library raised.
func ofLibrary(raised string) string {
	return "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n    run()\n" +
		"  File \"/v/site-packages/acme/api.py\", line 9, in run\n    raise error\n" + raised + "\n"
}

// reworded is the traceback of a task that raised an exception while it handled one of a library.
func reworded(raised string) string {
	const task = "ray::up() (pid=7, ip=10.0.0.2)\n"
	return task + "  File \"/app/up.py\", line 25, in up\n    s3.put(f)\n  File \"/v/site-packages/s3/client.py\", line 9, in put\n    raise error\n" +
		"s3.ClientError: clock skew of 9 minutes\n\nDuring handling of the above exception, another exception occurred:\n\n" +
		task + "  File \"/app/up.py\", line 28, in up\n    raise failed(f)\n" + raised
}
