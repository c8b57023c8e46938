package findings_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestDriverLogs: a driver's log says what ended the driver, even if the driver or the processes that it started wrote
// more to it. The logs have the form in which Python 3.11, torch 2 and rich 14 write them.
func TestDriverLogs(t *testing.T) {
	const module = "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n"
	engine := func(header string, lines ...string) string {
		return "(EngineCore_DP0 pid=61) " + header + strings.Join(lines, "\n(EngineCore_DP0 pid=61) "+header) + "\n"
	}
	const server = "(APIServer pid=59) Traceback (most recent call last):\n" +
		"(APIServer pid=59)   File \"/lib/vllm/api_server.py\", line 10, in <module>\n" +
		"(APIServer pid=59)     sys.exit(main())\n" +
		"(APIServer pid=59) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
	ofPool := func(functions ...string) (frames string) {
		for _, f := range functions {
			frames += "  File \"/v/site-packages/pool/pool.py\", line 7, in " + f + "\n    x()\n"
		}
		return frames
	}
	var ranks string
	for rank := range 2 {
		const header = "\r\n(Worker_TP%[1]d pid=7%[1]d) ERROR 11-27 10:00:09 [multiproc_executor.py:597] "
		ranks += fmt.Sprintf(strings.Join([]string{"", "WorkerProc failed to start.",
			"Traceback (most recent call last):", "  File \"/lib/vllm/hub.py\", line 9, in load",
			"    raise OSError(\"no such model\")", "OSError: no such model\r\n"}, header), rank)
	}
	const clientEnv = "Traceback (most recent call last):\n  File \"/lib/ray/proxier.py\", line 303, in _create_runtime_env\n    raise RuntimeError(\n" +
		"RuntimeError: Failed to create runtime_env for Ray client server, it is caused by:\n"
	const noMemory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.14 GiB is free. Process 12 has 78.00 GiB memory in use. " +
		"Of the allocated memory 70.00 GiB is allocated by PyTorch, and 7.00 GiB is reserved\n"
	for name, c := range map[string]struct {
		code             int
		log, kind, title string
		evidence         string // what the finding's evidence must contain
	}{
		"progress bar": {1, "\r  0%|          | 0/5 [00:00<?, ?it/s]\r 40%|####      | 2/5 [00:00<00:00, 23.6it/s]" +
			module + "    step(batch)\nValueError: batch 2 is empty\n",
			findings.JobFailed, "its driver raised ValueError: batch 2 is empty$", ""},
		"what came after": {1, module + "    raise KeyError(k)\nKeyError: 'learning_rate'\n" +
			"Exception ignored in atexit callback: <function f at 0x7efe6ed604a0>\nTraceback (most recent call last):\n  File \"/app/train.py\", line 5, in f\nOSError: late\n" +
			"Exception ignored in: <function A.__del__ at 0x7efe6eb78720>\nTraceback (most recent call last):\n  File \"/app/train.py\", line 3, in __del__\nAttributeError: 'A' object has no attribute 'nope'\n",
			findings.JobFailed, "its driver raised KeyError: 'learning_rate'$", ""},
		"a thread that failed after it": {1, module + "    load()\nValueError: no rows\n" +
			"Exception in thread Thread-3 (_pin_memory_loop):\nTraceback (most recent call last):\n  File \"/lib/threading.py\", line 1016, in _bootstrap_inner\nConnectionResetError: peer\n" +
			"Traceback (most recent call last):\n  File \"/lib/python3.11/multiprocessing/queues.py\", line 250, in _feed\nBrokenPipeError: [Errno 32] Broken pipe\n" +
			"--- Logging error ---\nTraceback (most recent call last):\n  File \"/lib/logging/__init__.py\", line 1113, in emit\nValueError: I/O operation on closed file.\n",
			findings.JobFailed, "its driver raised ValueError: no rows$", ""},
		"a thread, and what was printed before it": {1, "Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in read\nOSError: no cache\n" +
			"Exception in thread Thread-1 (feed):\nTraceback (most recent call last):\n  File \"/lib/threading.py\", line 1016, in _bootstrap_inner\nKeyError: 'sku'\n",
			findings.JobFailed, "its driver raised KeyError: 'sku'; before that OSError: no cache$", ""},
		"a thread, long after a traceback of the module": {1, module + "    import fast\nImportError: no fast JSON\n" + strings.Repeat("step is done\n", 20) +
			"Exception in thread Thread-1 (feed):\nTraceback (most recent call last):\n  File \"/lib/threading.py\", line 1016, in _bootstrap_inner\nKeyError: 'sku'\n",
			findings.JobFailed, "its driver raised KeyError: 'sku'", ""},
		"a thread, and what Python printed at its end": {1, "Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in read\nOSError: no cache\n" +
			"Exception in thread Thread-1 (feed):\nTraceback (most recent call last):\n  File \"/lib/threading.py\", line 1016, in _bootstrap_inner\nKeyError: 'sku'\n" +
			"Traceback (most recent call last):\n  File \"/lib/python3.11/multiprocessing/queues.py\", line 250, in _feed\nBrokenPipeError: [Errno 32] Broken pipe\n" +
			"--- Logging error ---\nTraceback (most recent call last):\n  File \"/lib/logging/__init__.py\", line 1113, in emit\nValueError: I/O operation on closed file.\n" +
			"Exception ignored in: <function A.__del__ at 0x7efe6eb78720>\nTraceback (most recent call last):\n  File \"/app/train.py\", line 3, in __del__\nAttributeError: 'A' object has no attribute 'nope'\n",
			findings.JobFailed, "its driver raised KeyError: 'sku'; before that OSError: no cache$", ""},
		"what asyncio logged at the end": {1, module + "    load()\nValueError: no rows\nERROR:asyncio:Unclosed client session\n2026-11-23 20:49:11,092 ERROR asyncio: Task was destroyed but it is pending!\n",
			findings.JobFailed, "its driver raised ValueError: no rows$", ""},
		"a worker that names what lacks": {1, "\x1b[36m(clean pid=7)\x1b[0m shop b: margin left out, 40 nulls\n\x1b[36m(clean pid=7)\x1b[0m saved\n" + module + "    f[k]\nKeyError: \"['margin'] not in index\"\n",
			findings.JobFailed, `its driver raised KeyError: "\['margin'\] not in index"; before that clean printed: shop b: margin left out, 40 nulls$`, ""},
		"Tune whose time is over, and what its workers print as it ends them": {1, "2026-11-22 10:00:01,111\tINFO worker.py:2029 -- Connected to Ray cluster.\n2026-11-22 10:01:15,959\tINFO timeout.py:54 -- Reached timeout of 12 seconds. Stopping all trials.\n" +
			"- fit_a_25f7a_00000: FileNotFoundError('Could not fetch metrics for fit_a_25f7a_00000')\n\x1b[36m(fit_a pid=7)\x1b[0m Exception ignored in: <function _remove at 0x7f5a>\n\x1b[36m(fit_a pid=7)\x1b[0m SystemExit: 1\n" +
			module + "    f()\nRuntimeError: No best trial found for the given metric: wape.\n",
			findings.JobFailed, `No best trial found for the given metric: wape; before that Ray printed: Reached timeout of 12 seconds\. Stopping all trials\.$`, ""},
		"Tune whose time is over, and a metric that lacks": {1, "2026-11-22 10:01:15,959\tINFO timeout.py:54 -- Reached timeout of 12 seconds. Stopping all trials.\n" + module + "    f()\nKeyError: 'wape'\n",
			findings.JobFailed, `KeyError: 'wape'; before that Ray printed: Reached timeout of 12 seconds\. Stopping all trials\.$`, ""},
		"no trial, and how Ray connects": {1, "2026-11-22 10:00:01,058\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.77.0.11:6379...\n2026-11-22 10:00:01,111\tINFO worker.py:2029 -- Connected to Ray cluster.\n" +
			module + "    f()\nRuntimeError: No best trial found for the given metric: wape.\n",
			findings.JobFailed, `No best trial found for the given metric: wape\.$`, ""},
		"a worker's progress that names it": {1, "\x1b[36m(f pid=7)\x1b[0m INFO batch 7 written\n" + module + "    f()\nRuntimeError: could not publish batch 7\n",
			findings.JobFailed, "its driver raised RuntimeError: could not publish batch 7$", ""},
		"a worker that names it, and an error before": {1, "\x1b[36m(f pid=7)\x1b[0m batch 7 written\nERROR topic is closed\n" + module + "    f()\nRuntimeError: could not publish batch 7\n",
			findings.JobFailed, "could not publish batch 7; before that ERROR topic is closed$", ""},
		"a file that no worker names": {1, "\x1b[36m(f pid=7)\x1b[0m 100 rows in 3 s\n" + module + "    f()\nFileNotFoundError: [Errno 2] No such file or directory: '/data/trian.csv'\n",
			findings.JobFailed, "No such file or directory: '/data/trian.csv'$", ""},
		"a worker that names something else": {1, "\x1b[36m(clean pid=7)\x1b[0m shop b: 3 margins kept\n" + module + "    f[k]\nKeyError: 'margin'\n",
			findings.JobFailed, "its driver raised KeyError: 'margin'$", ""},
		"an exit code of a shell": {3, "ERROR:root:manifest: AccessDenied\nstarting\n" + module + "    start()\nRuntimeError: cannot start\n",
			findings.JobFailed, "exit code 3; the last exception in its log is RuntimeError: cannot start; before that ERROR:root:manifest: AccessDenied$", ""},
		"printed by a function": {1, "Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in read\n    f()\nOSError: no cache\nevaluating\nAUC 0.61 is below 0.75\n",
			findings.JobFailed, "failed with exit code 1: AUC 0.61 is below 0.75; the last exception in its log is OSError: no cache$", "no cache"},
		"another program that uses Ray": {1, module + "    warm()\nOSError: no cache\n2026-11-22 10:10:00,123\tINFO worker.py:2014 -- Connected to Ray cluster.\n" +
			"step is done\nAUC 0.61 is below 0.75\n",
			findings.JobFailed, "failed with exit code 1: AUC 0.61 is below 0.75; the last exception in its log is OSError: no cache$", "no cache"},
		"a crash behind an exception": {134, module + "    load()\nKeyError: 'lr'\ndouble free or corruption (!prev)\n",
			findings.DriverKilled, `SIGABRT \(exit code 134\): double free or corruption \(!prev\); before that it raised KeyError: 'lr'$`, ""},
		"killed, long after one that it handled": {137, module + "    import fast\nImportError: no fast JSON\nstep is done\n",
			findings.DriverKilled, `SIGKILL \(exit code 137\)$`, ""},
		"killed, as a child process failed": {137, "[2026-05-16 12:09:36 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"scheduler.py\", line 2, in run\n    step()\ntorch.OutOfMemoryError: CUDA out of memory. Tried\n\n" +
			"[2026-05-16 12:09:37] Received sigquit from a child process. It usually means the child failed.\nrun.sh: line 28:  1058 Killed                  python serve.py\n",
			findings.DriverKilled, `SIGKILL \(exit code 137\); the last it printed: \[2026-05-16 12:09:37\] Received sigquit .* the child failed; before that torch.OutOfMemoryError: CUDA out of memory. Tried$`, ""},
		"aborted by OpenMP": {134, "loading\nOMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized.\nOMP: Hint This means that multiple copies are linked, which is unsupported.\nAborted (core dumped)\n",
			findings.DriverKilled, `SIGABRT \(exit code 134\); the last it printed: OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized\.$`, ""},
		"no threads for OpenBLAS": {139, "OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily unavailable\nOpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 513046 max\n",
			findings.DriverKilled, `SIGSEGV \(exit code 139\); the last it printed: OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily unavailable$`, ""},
		"of hydra": {1, "Error executing job with overrides: []\nTraceback (most recent call last):\n  File \"/app/train.py\", line 3, in main\n    f()\nValueError: no rows\nbye\n",
			findings.JobFailed, "its driver raised ValueError: no rows$", ""},
		"a record above it": {1, "ERROR:root:manifest: AccessDenied\n" + module + "    start()\nRuntimeError: cannot start\n",
			findings.JobFailed, "its driver raised RuntimeError: cannot start; before that ERROR:root:manifest: AccessDenied$", ""},
		"a coroutine of nobody": {1, module +
			"    asyncio.run(main())\nValueError: main failed\nTask exception was never retrieved\n" +
			"future: <Task finished name='Task-2' coro=<bg() done, defined at /app/train.py:2> exception=RuntimeError('bg failed')>\n" +
			"Traceback (most recent call last):\n  File \"/app/train.py\", line 2, in bg\nRuntimeError: bg failed\n",
			findings.JobFailed, "its driver raised ValueError: main failed$", ""},
		"only what was ignored": {3, "Exception ignored in: <function A.__del__ at 0x7efe6eb78720>\nTraceback (most recent call last):\n  File \"/app/train.py\", line 3, in __del__\nOSError: closed\n",
			findings.JobFailed, "exit code 3; the last exception in its log is OSError: closed$",
			"Exception ignored in"},
		"a process": {1, "Traceback (most recent call last):\n  File \"/app/step.py\", line 1, in <module>\nPermissionError: cannot write /models\n" + module +
			"    subprocess.run([sys.executable, \"step.py\"], check=True)\nsubprocess.CalledProcessError: Command '['python', 'step.py']' returned non-zero exit status 1.\n",
			findings.JobFailed, "a process that its driver ran raised PermissionError: cannot write /models; then the driver raised CalledProcessError: Command .* exit status 1.$", "step.py\", line 1"},
		"a program of a pipe": {1, module + "    read()\nOSError: snapshot is too old\n" + module +
			"    load()\nValueError: no rows\n",
			findings.JobFailed, "its driver raised ValueError: no rows; before that OSError: snapshot is too old$", ""},
		"what a library met while it cleaned up": {1, "ERROR: the metrics were not sent\n" + "Traceback (most recent call last):\n" + ofPool("take", "find") + "LookupError: no shelf 99\n\n" +
			"During handling of the above exception, another exception occurred:\n\n" + module + ofPool("take", "close") + "pool.CloseError: 3 shelves are in use\n",
			findings.JobFailed, "its driver raised CloseError: 3 shelves are in use; before that LookupError: no shelf 99$", ""},
		"what a library says in other words": {1, "ERROR: the metrics were not sent\n" + "Traceback (most recent call last):\n" + ofPool("take", "find") + "LookupError: shelf 99\n\n" +
			"During handling of the above exception, another exception occurred:\n\n" + module + ofPool("take", "refuse") + "pool.NoShelf: there is no shelf 99\n",
			findings.JobFailed, "its driver raised NoShelf: there is no shelf 99$", ""},
		"a traceback that its program printed": {1, "Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in read\nOSError: no cache\n" + module +
			"    load()\nValueError: no rows\n",
			findings.JobFailed, "its driver raised ValueError: no rows$", ""},
		"a traceback of an earlier line of its module": {1, "Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in <module>\nImportError: no fast JSON\n" + module +
			"    load()\nValueError: no rows\n",
			findings.JobFailed, "its driver raised ValueError: no rows$", ""},
		"a logged traceback": {1, "ERROR:root:no tracking\n" + module +
			"    f()\nKeyError: 'run'\nevaluating\nvalidation failed: AUC 0.61 is below 0.75\nbye\n",
			findings.JobFailed, "failed with exit code 1: validation failed: AUC 0.61 is below 0.75; the last exception in its log is KeyError: 'run'$", ""},
		"a message of several lines": {1,
			module + "    f()\nRuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other call.\n",
			findings.JobFailed, "its driver raised RuntimeError: CUDA error: device-side assert triggered$", ""},
		"advice of a library, under make": {2, module + "    f()\nRuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other call.\nmake: *** [train] Error 1\n",
			findings.JobFailed, "ended with exit code 2; the last exception in its log is RuntimeError: CUDA error: device-side assert triggered$", ""},
		"a launcher's record of a status": {1, module + "    import flash_attn\nModuleNotFoundError: No module named 'flash_attn'\n[2024-03-20 20:31:29,210] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 7\n" +
			"[2024-03-20 20:31:29,269] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = 1\n",
			findings.JobFailed, "its driver raised ModuleNotFoundError: No module named 'flash_attn'$", ""},
		"torchrun's record of a status": {1, module + "    f()\nRuntimeError: x\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 2) of binary: /python\n" + module +
			"    main()\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n",
			findings.JobFailed, "a process that its driver ran raised RuntimeError: x; then the driver raised ChildFailedError", ""},
		"ranks": {1, "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/app/train.py\", line 10, in <module>\n[rank0]:     main()\n[rank1]: Traceback (most recent call last):\n" +
			"[rank0]: ValueError: bad shape [3, 4]\n[rank1]:   File \"/app/train.py\", line 10, in <module>\n[rank1]: ConnectionError: reset by rank 0\n" +
			"E1122 10:00:00.000000 123 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: 1) local_rank: 0 (pid: 123) of binary: /usr/bin/python\n" +
			"Traceback (most recent call last):\n  File \"/usr/local/bin/torchrun\", line 8, in <module>\n    sys.exit(main())\n" +
			"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n-----\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n=====\n",
			findings.JobFailed, "raised ValueError: bad shape \\[3, 4\\]; then the driver raised ChildFailedError$",
			"Root Cause"},
		"a rank alone": {1, "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/app/train.py\", line 3, in load\n[rank0]: KeyError: 'weights'\n[rank0]: \n" +
			"[rank0]: During handling of the above exception, another exception occurred:\n[rank0]: \n" +
			"[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/app/train.py\", line 10, in <module>\n[rank0]: ValueError: no weights\n",
			findings.JobFailed, "its driver raised ValueError: no weights$", "KeyError: 'weights'"},
		"what workers print after it": {1, module + "    f()\nValueError: no rows\n" +
			strings.Repeat("\x1b[36m(MapBatches(crash) pid=1158, ip=10.78.0.2)\x1b[0m OSError: it is told again\n",
				100) + "\x1b[33m(raylet)\x1b[0m bye\n",
			findings.JobFailed,
			`its driver raised ValueError: no rows; before that MapBatches\(crash\) printed: OSError: it is told again$`,
			"f()\nValueError: no rows\njob raysubmit_bad"},
		"too long for asyncio": {1, "Traceback (most recent call last):\n  File \"/lib/asyncio/tasks.py\", line 500, in wait_for\nasyncio.exceptions.CancelledError\n\n" +
			"The above exception was the direct cause of the following exception:\n\n" + module +
			"    asyncio.run(main())\nTimeoutError\n", findings.Timeout, "its driver raised TimeoutError$", ""},
		"too long for faulthandler": {1,
			module + "    1 / 0\nZeroDivisionError: division by zero\nagain\nTimeout (0:00:04)!\nThread 0x00007f8335ffb640 (most recent call first):\n  File \"/lib/threading.py\", line 327 in wait\n",
			findings.Timeout, `took too long: faulthandler ended its driver: Timeout \(0:00:04\)!$`, "threading.py"},
		"what workers print": {1, "\x1b[36m(f pid=12)\x1b[0m Traceback (most recent call last):\n\x1b[36m(f pid=12)\x1b[0m   File \"/app/f.py\", line 3, in f\n\x1b[36m(f pid=12)\x1b[0m ValueError: caught\nno result\n",
			findings.JobFailed, "failed with exit code 1: no result; before that f printed: ValueError: caught$",
			"no result"},
		"processes of vLLM": {1, engine("", "Process EngineCore_DP0:", "Traceback (most recent call last):",
			"  File \"/lib/python3.12/multiprocessing/process.py\", line 314, in _bootstrap", "    self.run()",
			"ValueError: No available memory for the cache blocks.") + server + "\x1b[36m(f pid=7)\x1b[0m bye\n", findings.JobFailed,
			"a process that its driver ran raised ValueError: No available memory for the cache blocks.; " +
				"then the driver raised RuntimeError: Engine core initialization failed.", "line 314"},
		"processes of vLLM, and theirs": {1, ranks + engine("", "Traceback (most recent call last):",
			"  File \"/lib/python3.12/multiprocessing/process.py\", line 314, in _bootstrap",
			"Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.") + server,
			findings.JobFailed, "a process that its driver ran raised OSError: no such model; then the driver raised RuntimeError: Engine core initialization failed.", "hub.py"},
		"a server of vLLM alone": {1, server, findings.JobFailed, "its driver raised RuntimeError: Engine core initialization failed.", "api_server.py"},
		"a box": {1, "starting\n╭──────── Traceback (most recent call last) ────────╮\n│ /app/train.py:6 in <module>                       │\n│                                                   │\n" +
			"│ ❱ 6 load(\"s3://b/x\")                               │\n╰───────────────────────────────────────────────────╯\nNoSuchShard: s3://b/x\n",
			findings.JobFailed, "its driver raised NoSuchShard: s3://b/x$", "/app/train.py:6"},
		"a box after another program": {1, module + "    prepare()\nOSError: no cache\ntraining\n╭──── Traceback (most recent call last) ────╮\n│ /app/train.py:6 in <module>               │\n╰───────────────────────────────────────────╯\nNoSuchShard: s3://b/x\n",
			findings.JobFailed, "its driver raised NoSuchShard: s3://b/x; before that OSError: no cache$", "/app/train.py:6"},
		"not compiled, after another program": {1, module + "    prepare()\nOSError: no cache\n  File \"/app/train.py\", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax\n",
			findings.JobFailed, "its driver raised SyntaxError: invalid syntax; before that OSError: no cache$", "line 2"},
		"not compiled, imported": {1, module + "    import shards\n  File \"/app/shards.py\", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax\n",
			findings.JobFailed, "its driver raised SyntaxError: invalid syntax$", "import shards"},
		"JSON": {1, `{"asctime": "2026-11-23 20:49:11,092", "levelname": "INFO", "message": "step 1"}` + "\n" +
			`{"asctime": "2026-11-23 20:49:11,092", "levelname": "ERROR", "message": "step failed", "exc_text": "Traceback (most recent call last):\n  File \"/app/train.py\", line 9, in <module>\n    raise LookupError(\"no partition 7\")\nLookupError: no partition 7"}` + "\n",
			findings.JobFailed, "LookupError: no partition 7$", "step failed"},
		"a group": {1, "  + Exception Group Traceback (most recent call last):\n  |   File \"/app/train.py\", line 7, in <module>\n  |     asyncio.run(main())\n" +
			"  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n" +
			"    |   File \"/app/train.py\", line 3, in load\n    | ValueError: shard 3 is missing\n    +---------------- 2 ----------------\n    | OSError: shard 4 is torn\n" +
			"    +------------------------------------\n", findings.JobFailed,
			"its driver raised ValueError: shard 3 is missing and 1 more in its group$", "shard 4 is torn"},
		"Java": {1, "Exception in thread \"main\" java.lang.RuntimeException: job failed\n\tat com.x.Main.main(Main.java:5)\nCaused by: java.io.IOException: disk is full\n\tat com.x.Main.write(Main.java:9)\n\t... 1 more\n",
			findings.JobFailed, "failed with exit code 1: java.io.IOException: disk is full$", "Main.java:9"},
		"Go": {2, "start\npanic: lr is negative\n\n" +
			strings.Repeat("goroutine 1 [running]:\nmain.step(...)\n\t/app/main.go:12 +0x1d\n\n", 9000) +
			"exit status 2\n",
			findings.JobFailed, "failed with exit code 2: panic: lr is negative$",
			"panic: lr is negative\n\ngoroutine 1"},
		"Go, after Python": {2, module + "    prepare()\nOSError: no cache\nstart\npanic: lr is negative\n\ngoroutine 1 [running]:\nmain.step(...)\n\t/app/main.go:12 +0x1d\nexit status 2\n",
			findings.JobFailed, "failed with exit code 2: panic: lr is negative; the last exception in its log is OSError: no cache$", "main.go:12"},
		"Go, with a name like an error": {2, module + "    prepare()\nOSError: no cache\npanic: lr is negative\n\ngoroutine 1 [running]:\nmain.onError(...)\n\t/app/main.go:12 +0x1d\nexit status 2\n",
			findings.JobFailed, "failed with exit code 2: panic: lr is negative; ", "main.go:12"},
		"a tool, after Python": {3, module + "    prepare()\nOSError: no cache\ndeploy: unknown environment\n",
			findings.JobFailed, "failed with exit code 3: deploy: unknown environment; the last exception in its log is OSError: no cache$", ""},
		"a tool, after a long message": {3, module + "    f()\n" + noMemory + "deploy: unknown environment\n",
			findings.JobFailed, "failed with exit code 3: deploy: unknown environment; the last exception in its log is OutOfMemoryError: CUDA out of memory", ""},
		"caught, with a long message": {1, module + "    f()\n" + noMemory + "2026-11-23 20:49:12,092 ERROR accuracy 0.3 is below 0.9\n",
			findings.JobFailed, "exit code 1: 2026-11-23 20:49:12,092 ERROR accuracy 0.3 is below 0.9; the last exception in its log is OutOfMemoryError: CUDA", ""},
		"an error, after a thread of Java": {1, "Exception in thread \"heartbeat\" java.io.IOException: closed\n\tat com.x.Beat.run(Beat.java:5)\nreading\nERROR: table orders has no rows\n",
			findings.JobFailed, "failed with exit code 1: ERROR: table orders has no rows; before that java.io.IOException: closed$", "Beat.java:5"},
		"of glibc": {134, "loading\nfree(): invalid pointer\nAborted (core dumped)\n",
			findings.DriverKilled, `SIGABRT \(exit code 134\): free\(\): invalid pointer$`, "invalid pointer"},
		"arguments of a program that it ran": {1, "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --foo\n" + module +
			"    run(check=True)\nsubprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 2.\n",
			findings.JobFailed, "exit status 2; before that train.py: error: unrecognized arguments: --foo$", ""},
		"a service that does not answer": {1, module + "    cache.get(k)\n  File \"/usr/lib/python3/site-packages/redis/connection.py\", line 500, in read_response\n    raise TimeoutError\nredis.exceptions.TimeoutError: Timeout reading from socket\n",
			findings.JobFailed, "its driver raised TimeoutError: Timeout reading from socket$", ""},
		"an assertion": {1, module + "    check(rows)\n  File \"/app/train.py\", line 3, in check\n    assert rows > 0\n           ^^^^^^^^\nAssertionError\n",
			findings.JobFailed, "its driver raised AssertionError: assert rows > 0$", ""},
		"a check of C++": {134, "loading\nF1125 03:00:00.120000 4711 loader.cc:88] Check failed: rows > 0 (0 vs. 0) shard 7\n*** Check failure stack trace: ***\n    @     0x7f1c2a  google::LogMessage::Fail()\n",
			findings.DriverKilled, `SIGABRT \(exit code 134\): Check failed: rows > 0 \(0 vs. 0\) shard 7$`,
			"loader.cc:88"},
		"several lines": {1, module + "    ray.init()\nRuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.9.0\nThis process was started with:\n    Ray: 2.8.1\n\n",
			findings.JobFailed, "RuntimeError: Version mismatch: The cluster was started with: Ray: 2.9.0 This process was started with: Ray: 2.8.1$", "ray.init"},
		"loguru": {1, loguru(`"load failed\nValueError: shard 7 is torn\n"`,
			`{"type": "ValueError", "value": "shard 7 is torn", "traceback": false}`),
			findings.JobFailed, "exit code 1: ValueError: shard 7 is torn$", "load failed"},
		"loguru without text": {1, loguru(`"load failed\n"`, `{"type": "KeyError", "value": "'a'", "traceback": true}`),
			findings.JobFailed, "exit code 1: KeyError: 'a'$", "load failed"},
		"loguru with text": {1, loguru(
			`"load failed\nTraceback (most recent call last):\n\n> File \"/app/train.py\", line 7, in <module>\n    {}[\"a\"]\n\nKeyError: 'a'\n"`, `{"type": "KeyError", "value": "'a'", "traceback": true}`),
			findings.JobFailed, "raised KeyError: 'a'$", "train.py"},
		"structlog": {1, `{"event": "load failed", "level": "error", "exception": [{"exc_type": "OSError", "exc_value": "torn", "is_cause": false, "frames": []}, {"exc_type": "KeyError", "exc_value": "'a'", "is_cause": true}, {"exc_type": "IndexError", "exc_value": "0", "is_cause": false}]}` + "\n",
			findings.JobFailed, "exit code 1: KeyError: 'a'$", "load failed"},
		"OpenTelemetry": {1, `{"body": "load failed", "severity_text": "ERROR", "attributes": {"exception.type": "KeyError", "exception.stacktrace": "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n    {}[\"a\"]\nKeyError: 'a'\n"}}` + "\n",
			findings.JobFailed, "raised KeyError: 'a'; before that ERROR load failed$", "train.py"},
		"JSON without exception": {1, loguru(`"disk is full\n"`, "null"), findings.JobFailed,
			"exit code 1: load failed$", "disk is full"},
		"caught, logged by another library": {1, module + "    1 / 0\nZeroDivisionError: division by zero\n" +
			`{"level": "error", "msg": "accuracy 0.3 is below 0.9"}` + "\n",
			findings.JobFailed, "exit code 1: accuracy 0.3 is below 0.9; the last exception in its log is ZeroDivisionError", "accuracy 0.3"},
		"an error of Ray's own threads": {1, module +
			"    1 / 0\nZeroDivisionError: division by zero\n[2026-11-23 20:49:11,092 E 12 34] gcs_rpc_client.h:179: Failed to connect to GCS\n",
			findings.JobFailed, "its driver raised ZeroDivisionError: division by zero$", ""},
		"UTF-16": {1, "\xff\xfe" + strings.Join(strings.Split(module+"    main()\nValueError: no rows\n", ""),
			"\x00") + "\x00", findings.JobFailed, "its driver raised ValueError: no rows$", "main()"},
		"Latin-1": {1, module + "    main()\nOSError: donn\xe9es introuvables\n", findings.JobFailed,
			"its driver raised OSError: données introuvables$", "main()"},
		"coloured by Python 3.13": {1, "Traceback (most recent call last):\n  File \x1b[35m\"/app/a.py\"\x1b[0m, line \x1b[35m3\x1b[0m, in \x1b[35m<module>\x1b[0m\n    \x1b[31mload\x1b[0m\x1b[1;31m()\x1b[0m\n\x1b[1;35mValueError\x1b[0m: \x1b[35mno rows\x1b[0m\nbye\n",
			findings.JobFailed, "its driver raised ValueError: no rows$", "line 3, in <module>"},
		"behind bars": {1, strings.Repeat("\repoch:  10%|█         | 1/10 [00:01<00:09,  1.00it/s, loss=0.1] ", 80000) +
			module + "    step()\nValueError: loss is nan\n",
			findings.JobFailed, "its driver raised ValueError: loss is nan$", "step()"},
		"not compiled": {1, "  File \"/app/train.py\", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax\n",
			findings.JobFailed, "its driver raised SyntaxError: invalid syntax$", "line 2"},
		"caught": {1, module + "    1 / 0\nZeroDivisionError: division by zero\nfalling back to the CPU\nerror: accuracy 0.3 is below 0.9\n", findings.JobFailed, "failed with exit code 1: error: accuracy 0.3 is below 0.9; the last exception in its log is ZeroDivisionError: division by zero$", "accuracy 0.3"},
		"caught, logged": {1, module +
			"    1 / 0\nZeroDivisionError: division by zero\n2026-11-23 20:49:11,092 INFO trying again\n2026-11-23 20:49:12,092 ERROR accuracy 0.3 is below 0.9\n",
			findings.JobFailed, "exit code 1: 2026-11-23 20:49:12,092 ERROR accuracy 0.3 is below 0.9; the last exception in its log is ZeroDivisionError", "accuracy 0.3"},
		"names in lower case": {1, module +
			"    socket.getaddrinfo(host, 80)\nsocket.gaierror: [Errno -2] Name or service not known\n",
			findings.JobFailed, `raised gaierror: \[Errno -2\] Name or service not known$`, ""},
		"a class in a function": {1, module + "    main()\nmain.<locals>.Bad: local class\n", findings.JobFailed,
			"raised Bad: local class$", ""},
		"an argument": {2, "usage: train.py [-h] --c C\ntrain.py: error: argument --c: can't open 'nope.yaml': [Errno 2] No such file or directory: 'nope.yaml'\n", findings.JobFailed, "failed with exit code 2: train.py: error: argument --c: can't open", "argument --c"},
		"no script": {2, "python3: can't open file '/app/nope.py': [Errno 2] No such file or directory\n",
			findings.Entrypoint, "can't open file '/app/nope.py'", ""},
		"the last that was not found": {127, "\x1b[36m(f pid=12)\x1b[0m cat: rows: No such file or directory\ncp: cannot stat 'a': No such file or directory\nsh: 1: trian: not found\n" +
			"\x1b[36m(f pid=12)\x1b[0m cat: rows: No such file or directory\n",
			findings.Entrypoint, "sh: 1: trian: not found$", "trian"},
		"no script of sh": {2, "sh: 0: cannot open nope.sh: No such file\n", findings.Entrypoint,
			"cannot open nope.sh", ""},
		"no module": {1, "/usr/bin/python3.11: No module named nope\n", findings.Entrypoint,
			"No module named nope", ""},
		"an environment of Ray Client": {1, module + "    ray.init(\"ray://head:10001\", runtime_env=env)\nConnectionAbortedError: Initialization failure from server:\n" + clientEnv +
			"[Node 10.0.0.1] Traceback (most recent call last):\n  File \"/lib/ray/pip.py\", line 252, in _install\n    await check()\nray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] failed with the following details.\n" +
			"Command '['pip', 'install']' returned non-zero exit status 1.\nLast 50 lines of stdout:\n    ERROR: Could not find a version that satisfies the requirement geo==2.1 (from versions: none)\n    ERROR: No matching distribution found for geo==2.1\n\n",
			findings.RuntimeEnv, "its driver raised RuntimeEnvSetupError: .*geo==2.1", ""},
		"an environment of Ray Client that takes too long": {1, module + "    ray.init(\"ray://head:10001\", runtime_env=env)\nConnectionAbortedError: Initialization failure from server:\n" + clientEnv +
			"[Node 10.0.0.1] Failed to install runtime_env within the timeout of 600 seconds.\n",
			findings.RuntimeEnv, "its driver raised RuntimeEnvSetupError: .*600 s", ""},
		"an environment of Ray Client that was not needed": {1, module + "    ray.init(\"ray://head:10001\", runtime_env=env)\nConnectionAbortedError: Initialization failure from server:\n" + clientEnv +
			"[Node 10.0.0.1] Failed to install runtime_env within the timeout of 600 seconds.\n" + module + "    step()\nValueError: no rows\n",
			findings.JobFailed, "its driver raised ValueError: no rows", ""},
		"an engine that refers to its output": {1, "\x1b[36m(Engine pid=7)\x1b[0m IndexError: token id 152064 is out of the table\n" + module + "    ask()\nllm.EngineDeadError: Background loop is not running. If it was running, inspect the output to find the stacktrace.\n",
			findings.JobFailed, "; before that Engine printed: IndexError: token id 152064 is out of the table$", ""},
		"an engine that had failed": {1, "\x1b[36m(Engine pid=7)\x1b[0m IndexError: token id 152064 is out of the table\n" + module + "    ask()\nllm.EngineDeadError: Background loop has errored already.\n",
			findings.JobFailed, "; before that Engine printed: IndexError: token id 152064 is out of the table$", ""},
		"no package": {1, "/usr/bin/python: Error while finding module specification for 'nope.mod' (ModuleNotFoundError: No module named 'nope')\n", findings.Entrypoint, "No module named 'nope'", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := submissionWithLog(t, c.code, c.log)
			r := report(t, load(t, dir, rayevents.Session, nil))
			i := slices.IndexFunc(r.Findings,
				func(f *findings.Finding) bool { return f.SubmissionID == "raysubmit_bad" })
			must.True(t, i >= 0, "%+v", r.Findings)
			f := r.Findings[i]
			if f.Kind != c.kind || !regexp.MustCompile(c.title).MatchString(f.Title) ||
				!strings.Contains(text(f), c.evidence) {
				t.Errorf("%s: %s", f.Kind, text(f))
			}
		})
	}
}

// loguru is a record as loguru serializes it.
func loguru(text, exception string) string {
	return `{"text": ` + text + `, "record": {"elapsed": {"repr": "0:00:00.039825", "seconds": 0.039825}, "exception": ` + exception + `, "extra": {}, ` +
		`"level": {"icon": "❌", "name": "ERROR", "no": 40}, "line": 4, "message": "load failed", "module": "lg", "name": "__main__", ` +
		`"time": {"repr": "2026-11-25 03:57:19.678706+00:00", "timestamp": 1795579039.678706}}}` + "\n"
}

// submissionWithLog stores a submission whose driver wrote a log and ended with an exit code, and other events. It
// returns the folder of the store.
func submissionWithLog(t *testing.T, code int, log string, events ...string) (dir string) {
	t.Helper()
	for _, e := range rayevents.Of("SUBMISSION") {
		events = append(events, strings.ReplaceAll(e, `"driverExitCode": 3`, fmt.Sprintf(`"driverExitCode": %d`, code)))
	}
	dir = rareEvents(t, events)
	storeLog(t, dir, "job-driver-raysubmit_bad.log", log)
	return dir
}

// storeLog stores a log of the head node of the session that rayevents makes.
func storeLog(t *testing.T, dir, name, log string) {
	t.Helper()
	node := must.Get(rayid.Parse[rayid.Node](strings.Repeat("01", rayid.NodeSize)))(t)
	put(t, dir, layout.LogKey(layout.DefaultRoot, rayevents.Session, node, name), log)
}

// TestMarksWithoutColour: with RAY_COLOR_PREFIX=0 a worker's lines have nothing but its process's ID, which the name of
// its own log has, too. A process of the program itself has another ID.
func TestMarksWithoutColour(t *testing.T) {
	const raised = "(f pid=7) Traceback (most recent call last):\n(f pid=7)   File \"/app/f.py\", line 3, in f\n" +
		"(f pid=7) ValueError: caught\n"
	for name, want := range map[string]string{
		fmt.Sprintf("worker-%056x-00000005-7.out", 1): "failed with exit code 1: no result; before that f printed: ValueError: caught",
		fmt.Sprintf("worker-%056x-00000005-8.out", 1): "its driver raised ValueError: caught",
	} {
		dir := submissionWithLog(t, 1, strings.Repeat("loading\n", 1000)+raised+"no result\n")
		storeLog(t, dir, name, ":job_id:05000000\n")
		r := report(t, load(t, dir, rayevents.Session, nil))
		if !strings.Contains(r.Findings[0].Title, want) {
			t.Errorf("%s: %s", name, text(r.Findings[0]))
		}
	}
}

// TestPrintedByWorkers: where Ray did not copy what workers print into their driver's log, their own logs say what was
// printed before a job's end. Those of other jobs and of idle workers do not, and logs that need not be read are not
// missing. Of a worker that was started before its job the log's first line says which it is.
func TestPrintedByWorkers(t *testing.T) {
	dir := submissionWithLog(t, 1, "no result\n", driverOf(5, "raysubmit_bad"))
	for i := range 64 { // one for each CPU; they are not among those of which only some are looked at
		storeLog(t, dir, fmt.Sprintf("worker-%056x-ffffffff-1.out", 1000+i), "OSError: of an idle worker\n")
	}
	storeLog(t, dir, fmt.Sprintf("worker-%056x-00000006-2.out", 2), "OSError: of another job\n")
	for i := range 100 {
		storeLog(t, dir, fmt.Sprintf("worker-%056x-00000005-%d.out", 3+i, 3+i), "ValueError: shard 7 is torn\n")
	}
	r := report(t, load(t, dir, rayevents.Session, nil))
	const want = "no result; before that a worker printed: ValueError: shard 7 is torn"
	says.True(t, len(r.Findings) != 0 && strings.HasSuffix(r.Findings[0].Title, want) && len(r.Missing) == 0,
		"missing %q, %+v", r.Missing, r.Findings)

	for job, told := range map[string]bool{"00000005": true, "00000006": false} {
		dir := submissionWithLog(t, 1, "no result\n", driverOf(5, "raysubmit_bad"))
		printed := "FutureWarning: pynvml is deprecated\n:job_id:" + job + "\n:actor_name:Exporter\nValueError: the token of acme-eu expired\n"
		storeLog(t, dir, fmt.Sprintf("worker-%056x-ffffffff-1.err", 1), printed)
		r := report(t, load(t, dir, rayevents.Session, nil))
		says.Equal(t, strings.HasSuffix(r.Findings[0].Title, "no result; before that a worker printed: ValueError: the token of acme-eu expired"),
			told, "%s: %s", job, r.Findings[0].Title)
	}
}

// TestLogsOfOtherJobs: what was printed before a job's end is not looked for in the logs of jobs that succeeded, of
// which there may be more than one report reads.
func TestLogsOfOtherJobs(t *testing.T) {
	var events []string
	for i := range 500 {
		for _, e := range rayevents.Of("SUBMISSION") {
			if strings.Contains(e, "raysubmit_good") {
				e = strings.ReplaceAll(e, `"eventId": "`, fmt.Sprintf(`"eventId": "%04d`, i))
				events = append(events, strings.ReplaceAll(e, "raysubmit_good", fmt.Sprintf("raysubmit_good%d", i)))
			}
		}
	}
	dir := submissionWithLog(t, 1, "no result\n", events...)
	for i := range 500 {
		storeLog(t, dir, fmt.Sprintf("job-driver-raysubmit_good%d.log", i), "done\n")
	}
	r := report(t, load(t, dir, rayevents.Session, nil))
	says.True(t, len(r.Findings) != 0 && strings.Contains(r.Findings[0].Title, "no result") && len(r.Missing) == 0,
		"missing %q of %d findings", r.Missing, len(r.Findings))
}

// TestProcessSaidWhy: above an exception that only has a process's status stands what the process printed last, also if
// it is no error; above others such a line says nothing.
func TestProcessSaidWhy(t *testing.T) {
	const said = "no route to lake"
	for raised, told := range map[string]bool{
		"subprocess.CalledProcessError: Command 'ffmpeg -i a.mp4' returned non-zero exit status 1.": true,
		"RuntimeError: ffmpeg exited with code 1":                                                   true,
		"invoke.exceptions.UnexpectedExit: Encountered a bad command exit code!":                    true,
		"subprocess.CalledProcessError: Command 'mpirun' died with <Signals.SIGKILL: 9>.":           false,
		"RuntimeError: ffmpeg exited with code 1: no such filter":                                   false,
		"ValueError: rows are missing":                                                              false,
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, "step 1\n"+said+"\n"+trace(raised)))
		says.Equal(t, strings.HasSuffix(chain[0].Title, "; before that "+said), told, "%s: %s", raised, chain[0].Title)
	}
}

// TestTracebackInJSON: the traceback in a record in JSON is found, whatever its field is called.
func TestTracebackInJSON(t *testing.T) {
	const raised = `"Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in f\n    g()\nValueError: no prices\n"`
	for _, record := range []string{
		`{"ts":"2026-11-22T10:15:50Z","level":"error","msg":"step failed","err_tb":` + raised + `}`,
		`{"status":"failed","details":` + raised + `}`,
		`{"event":"x","reason":"boom","log":` + raised + `}`,
	} {
		for _, last := range []string{"", "bye\n"} {
			log := "asked the shop\n" + record + "\n" + last
			_, chain := badJob(t, submissionWithLog(t, 1, log, driverOf(1, "raysubmit_bad")))
			says.Equal(t, chain[len(chain)-1].Title, "Job raysubmit_bad failed: its driver raised ValueError: no prices", record)
		}
	}
}

// TestCompilerWarnings: what a compiler or a linker warns of is no reason, also if it is the last line and speaks of
// errors.
func TestCompilerWarnings(t *testing.T) {
	for log, want := range map[string]string{
		"/usr/bin/ld: cannot find -lcuda\ncollect2: error: ld returned 1 exit status\n" +
			"ld: warning: cannot find entry symbol _start; error follows\n": "collect2: error: ld returned 1 exit status; before that /usr/bin/ld: cannot find -lcuda",
		"nvcc fatal: Unsupported gpu architecture 'compute_100'\nkernel.cu:12: warning: failed to unroll loop\n": "nvcc fatal: Unsupported gpu architecture 'compute_100'",
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, log, driverOf(1, "raysubmit_bad")))
		title := chain[len(chain)-1].Title
		says.True(t, strings.HasPrefix(title, "Job raysubmit_bad failed with exit code 1: "+want), "%q: %s", log, title)
	}
}
