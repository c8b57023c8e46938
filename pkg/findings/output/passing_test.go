package output

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const (
	connectedLine = "2026-11-20 23:19:45,900\tINFO worker.py:2014 -- Connected to Ray cluster.\n"
	metricsAgent  = "[2026-12-06 15:49:24,447 E 45 91] core_worker_process.cc:825: Failed to establish connection to the metrics exporter agent. Metrics will not be exported.\n"
	noCuDNN       = "2026-11-20 08:01:40.527296: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory\n"
	noSocket      = "[W1120 10:00:05.123456789 socket.cpp:759] [c10d] The client socket has failed to connect to [train-0]:29500 (errno: 97 - Address family not supported by protocol).\n"
	tooLow        = "accuracy 0.71 is below 0.75"
)

// TestPassing: what Ray, a library, a shell or an installer said of an error, before the program said more, is not why
// it ended.
func TestPassing(t *testing.T) {
	for name, log := range map[string]string{
		"Ray's metrics":         metricsAgent,
		"gRPC, of Ray":          "E0000 00:00:1795168805.123456  123 fork_posix.cc:75] Other threads are currently calling into gRPC, skipping fork() handlers\n",
		"Ray's dashboard":       "2026-11-20 10:00:05,581\tERROR services.py:1362 -- Failed to start the dashboard, return code 1\n",
		"Tune's list":           "2026-11-20 10:00:05,581\tWARNING experiment_analysis.py:186 -- Failed to fetch metrics for 2 trial(s):\n- fit_0: FileNotFoundError('no result.json')\n- fit_1: FileNotFoundError('no result.json')\n",
		"TensorFlow":            noCuDNN + strings.Replace(noCuDNN, "cuDNN", "cuBLAS", 1) + "step 1 of 2\n",
		"torch":                 noSocket + noSocket,
		"of ranks":              "[rank0]:" + noSocket,
		"a login shell":         "mesg: ttyname failed: Inappropriate ioctl for device\nbash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)\n" + connectedLine,
		"an image's tool":       "df: /root/.triton/autotune: No such file or directory\n" + connectedLine + "step 1\n",
		"a driver of a network": "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': cannot open shared object file\n" + connectedLine,
		"pip that succeeds":     "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\nfoo 1.0 requires bar<2, but you have bar 3.0 which is incompatible.\nSuccessfully installed bar-3.0\n" + connectedLine,
	} {
		says.Equal(t, LastWords("loading\n"+log+tooLow+"\n"), tooLow, name)
	}
}

// TestNotPassing: an error stays why a program ended, whatever it, a shell or a library prints as it ends.
func TestNotPassing(t *testing.T) {
	const failed = "error: batch 3 has 0 rows"
	const ofRay = "[2026-11-20 15:49:24,447 E 45 91] core_worker.cc:12: Failed to register worker to Raylet"
	const native = "E1120 23:19:45.581000 1 step.cc:12] batch 3 has 0 rows, cannot go on"
	for name, c := range map[string]struct{ log, want string }{
		"wandb":                  {connectedLine + failed + "\nwandb: Run summary:\nwandb: loss 0.31\nwandb: View run ab at: https://wandb.acme/ab\nwandb: Find logs at: ./wandb/run-7/logs\n", failed},
		"shutting down":          {connectedLine + failed + "\nShutting down…\nworkers are gone\n", failed},
		"cleaning up":            {connectedLine + failed + "\nremoving /scratch/7\nremoved 12 files\n", failed},
		"at exit":                {failed + "\nelapsed: 12.3 s\npeak memory: 3.1 GiB\nbye\n", failed},
		"a bar":                  {connectedLine + failed + "\n 10%|# | 1/10 [00:01<00:09]\n", failed},
		"a summary":              {failed + "\nSummary\n  shards: 10\n  done: 9\n  skipped: 1\n", failed},
		"before it connects":     {"gzip: /data/rows.gz: not in gzip format\n" + connectedLine, "gzip: /data/rows.gz: not in gzip format"},
		"… and only records":     {failed + "\n" + connectedLine + "INFO:train:step 1\nINFO:train:step 2\n", failed},
		"… and only a bar":       {failed + "\n" + connectedLine + "100%|##########| 3/3 [00:01<00:00]\n", failed},
		"… and only Ray's":       {failed + "\n" + connectedLine + metricsAgent, failed},
		"… and only workers":     {failed + "\n" + connectedLine + "\x1b[36m(f pid=7)\x1b[0m loaded\n", failed},
		"a worker that connects": {failed + "\n\x1b[36m(f pid=7)\x1b[0m " + connectedLine + "bye\n", failed},
		"of two programs":        {"step 1\n" + connectedLine + "step 2\n" + connectedLine + failed + "\nbye\n", failed},
		"Ray's, the last":        {connectedLine + "loading\n" + ofRay + "\n", ofRay},
		"Ray's, then records":    {"loading\n" + ofRay + "\nINFO:train:saved\n", ofRay},
		"native, the last":       {"loading\n" + native + "\n", native},
		"native, then a record":  {"loading\n" + native + "\nI1120 23:19:45.581000 1 step.cc:12] bye\n", native},
		"native and fatal":       {"F" + native[1:] + "\nbye\n", "F" + native[1:]},
		"a compiler":             {"fused.cpp:3:10: fatal error: cuda.h: No such file or directory\ncompilation terminated.\n", "fused.cpp:3:10: fatal error: cuda.h: No such file or directory"},
		"an exception of gloo":   {"RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer\nbye\n", "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer"},
		"a warning in Python":    {connectedLine + "WARNING:train:could not read batch 3\nbye\n", "WARNING:train:could not read batch 3"},
		"an error behind one":    {metricsAgent + failed + "\nbye\n", failed},
		"a warning, then errors": {"etl.c:3:5: warning: unused variable 'error'\netl.c:9:1: error: expected ';'\nbye\n", "etl.c:9:1: error: expected ';'"},
	} {
		says.Equal(t, LastWords(c.log), c.want, name)
	}
}

// TestPassingBefore: what was said before an error that is known is told as what came before it, and not what passed.
func TestPassingBefore(t *testing.T) {
	for log, want := range map[string]string{
		noSocket + noCuDNN + "step 1\n":                                         "",
		"gzip: rows.gz: not in gzip format\n" + connectedLine + "read 0 rows\n": "gzip: rows.gz: not in gzip format",
	} {
		says.Equal(t, ErrorBefore(log+tooLow+"\n", tooLow), want, "%q", log)
	}
}

// TestPassingOfWorkers: what a library logged in a worker that then went on is not what a job lacked, nor a line that
// is no exception and no record, if its worker printed much more.
func TestPassingOfWorkers(t *testing.T) {
	const f, g = "\x1b[36m(f pid=7)\x1b[0m ", "\x1b[36m(g pid=8)\x1b[0m "
	const plain, raised = "df: /root/.triton/autotune: No such file or directory", "ValueError: batch 3 has 0 rows"
	const record = "ERROR:train:batch 3 has 0 rows"
	steps := strings.Repeat(f+"step is done\n", maxLastLines+1)
	for log, want := range map[string]string{
		f + noSocket:                                         "",
		f + noCuDNN + f + "step 1\n":                         "",
		f + noCuDNN + g + "step 1\n":                         strings.TrimSpace(noCuDNN),
		f + plain + "\n" + steps:                             "",
		f + plain + "\n" + f + "step 1\n":                    plain,
		f + plain + "\n" + strings.ReplaceAll(steps, f, g):   plain,
		f + raised + "\n" + steps:                            raised,
		f + record + "\n" + steps:                            record,
		g + raised + "\n" + f + plain + "\n" + steps:         raised,
		f + "WARNING:train:could not read 3\n" + f + "bye\n": "WARNING:train:could not read 3",
	} {
		if _, said, _ := SaidByWorkers(log, "", func(string) bool { return false }, false); said != want {
			t.Errorf("%.80q: %q, want %q", log, said, want)
		}
	}
}

// TestErrorsOfWorkers: an error of a worker counts more than records that only say what failed with it, or where to look.
func TestErrorsOfWorkers(t *testing.T) {
	const f, core = "\x1b[36m(f pid=7)\x1b[0m ", "(EngineCore_DP0 pid=9) ERROR 11-27 10:00:09 [core.py:710] "
	const illegal = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
	for log, want := range map[string]string{
		f + core + illegal + "\n" + f + core + "CUDA kernel errors might be asynchronously reported at some other API call.\n" +
			f + core + "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n" +
			f + "ERROR 11-27 10:00:09 [async_llm.py:480] AsyncLLM output_handler failed.\n": "ERROR 11-27 10:00:09 [core.py:710] " + illegal,
		f + "ERROR:acme:cannot read shard 3\n" + f + "ERROR:acme:stage embed failed\n": "ERROR:acme:cannot read shard 3",
		f + "ERROR:acme:stage embed failed\n":                                          "ERROR:acme:stage embed failed",
		f + "ERROR:acme:shard 3 failed: no rows\n" + f + "bye\n":                       "ERROR:acme:shard 3 failed: no rows",
	} {
		if _, said, _ := SaidByWorkers(log, "", func(string) bool { return false }, false); said != want {
			t.Errorf("%.80q: %q, want %q", log, said, want)
		}
	}
}

// TestEndsInPassedOn: an error that Ray reports with its traceback is none of the program's own.
func TestEndsInPassedOn(t *testing.T) {
	const unhandled = "2026-11-20 23:19:45,900\tERROR worker.py:439 -- Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): \x1b[36mray::f()\x1b[39m (pid=7, ip=10.0.0.1)\n" +
		"  File \"/app/a.py\", line 7, in f\n    raise ValueError(x)\n    ^^^^^^^^^^^\nValueError: x\n"
	nested := strings.Replace(unhandled, "ValueError: x\n", "ray.exceptions.RayTaskError(ValueError): ray::g() (pid=8)\n  File \"/app/a.py\", line 3, in g\n    f()\nValueError: x\n", 1)
	snapshot := "2026-11-20 23:19:45,900\tERROR tune.py:1012 -- Experiment state snapshotting failed:\n" +
		raisedText("OSError: disk is full")
	const own = "error: ledger is locked\n"
	for log, want := range map[string]bool{
		"saved\n" + unhandled:          false,
		"saved\n" + nested:             false,
		"saved\n" + snapshot:           false,
		own + unhandled:                true,
		unhandled + own:                true,
		"saved\n" + metricsAgent + own: true,
		raisedText("ValueError: x"):    true,
	} {
		says.Equal(t, EndsInError(log), want, "%q", log)
	}
}

// TestRepeatedOfRay: a record of Ray's is not the line with which a log ends.
func TestRepeatedOfRay(t *testing.T) {
	if line, times := Repeated("waiting for a\nwaiting for a\n" + metricsAgent); line != "waiting for a" || times != 2 {
		t.Errorf("%q, %d times", line, times)
	}
}

// TestRepeatedInTurn: of lines that are repeated in turn the one counts that tells of an error; what is not repeated as
// often is not among them.
func TestRepeatedInTurn(t *testing.T) {
	const refused, pause, work = "10:00:05 cannot take the lock: held by release-41 (attempt 7)", "10:00:05 sleeping 2 s", "10:00:05 polled"
	for log, want := range map[string]string{
		refused + "\n" + pause + "\n": refused,
		pause + "\n" + refused + "\n": refused,
		refused + "\n" + work + "\n":  refused,
		work + "\n" + pause + "\n":    pause,
		pause + "\n" + work + "\n":    pause,
		work + "\n":                   "",
	} {
		if line, times := Repeated("loading\n" + strings.Repeat(log, 5)); line != want || want != "" && times != 5 {
			t.Errorf("%q: %q, %d times", log, line, times)
		}
	}
	if line, _ := Repeated(strings.Repeat(refused+"\n", 5) + work + "\n"); line != "" {
		t.Errorf("the program went on after %q", line)
	}
	for after, want := range map[string]string{work: "", pause: pause} {
		if line, _ := Repeated(strings.Repeat(refused+"\n", 50) + strings.Repeat(after+"\n", 5)); line != want {
			t.Errorf("%q is printed in turn with %q", line, after)
		}
	}
	if line, times := Repeated(strings.Repeat(refused+"\n", 5) + pause + "\n"); line != pause || times != 1 {
		t.Errorf("%q, %d times, of what waits once", line, times)
	}
}

// TestFramesInRecords: of a traceback of which each line has the header of its record, no frame and no line of code is
// an error.
func TestFramesInRecords(t *testing.T) {
	const header = "ERROR 11-27 10:00:09 [async_llm.py:416] "
	const trace = header + "Traceback (most recent call last):\n" +
		header + "  File \"/app/vllm/async_llm.py\", line 410, in output_handler\n" +
		header + "    raise self._format_exception(outputs) from None\n"
	const dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
	for log, want := range map[string]string{
		trace + header + dead: "",
		header + "AsyncLLM output_handler failed.\n" + trace + header + dead:  header + "AsyncLLM output_handler failed.",
		trace + header + "ValueError: no KV blocks\n":                         header + "ValueError: no KV blocks",
		header + "rows are lost:\n" + header + "    cannot read shard 3\n":    header + "cannot read shard 3",
		"error in File \"a.cfg\", line 3\nerror: unexpected indent\nloaded\n": "error: unexpected indent",
	} {
		want = strings.Join(strings.Fields(want), " ")
		says.Equal(t, strings.Join(strings.Fields(LastError(log)), " "), want, "%q", log)
	}
}

// ignoredBlock is what Ray Data says of a block that fails and that it was told to ignore.
const ignoredBlock = "2026-11-20 23:19:45,900\tERROR streaming_executor_state.py:733 -- An exception was raised from a task of operator \"Map(f)\". Ignoring this exception with remaining max_errored_blocks=9.\n" +
	"Traceback (most recent call last):\n  File \"/lib/site-packages/ray/data/physical_operator.py\", line 337, in on_data_ready\n    self._next_sync(\n    ^^^^\nStopIteration\n\n" + whileHandling + "\n\n" +
	"Traceback (most recent call last):\n  File \"/lib/site-packages/ray/_private/worker.py\", line 1053, in get_objects\n    raise value.as_instanceof_cause()\n" +
	"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::Map(f)()\x1b[39m (pid=7, ip=10.0.0.1)\n    for block in block_iter:\n  File \"/app/a.py\", line 7, in f\n    raise ValueError(x)\nValueError: x is odd\n\n" +
	directCause + "\n\n\x1b[36mray::Map(f)()\x1b[39m (pid=7, ip=10.0.0.1)\nray.exceptions.UserCodeException: UDF failed to process a data block.\n"

// TestPassedTracebacks: what Ray's libraries went on after, as their record says, is neither the exception of a
// program's end nor among its last words. If Data aborts, it is.
func TestPassedTracebacks(t *testing.T) {
	const notes = "Failed to apply UDF transform after 1/1 attempts (total backoff 0.0s).\nTo change retry attempts, backoff, or which errors are retried, configure `ray.data.DataContext`.\n"
	replaced := "2026-11-20 23:19:45,900\tWARNING actor_pool_map_operator.py:422 -- Map(M): an actor died during initialization and will be replaced (1 consecutive death(s) so far).\n" + raisedText("ValueError: x")
	for _, passing := range []string{ignoredBlock, ignoredBlock + notes, replaced, ignoredBlock + replaced} {
		if text, at := LastTraceback("loading\n" + passing + "saved\n"); at >= 0 {
			t.Errorf("%q", text)
		}
		says.Equal(t, LastWords("loading\n"+passing+"quality gate failed\n"+passing), "quality gate failed")
		if text, _ := LastTraceback(raisedText("OSError: no shard") + passing); !strings.Contains(text, "OSError") {
			t.Errorf("%q", text)
		}
	}
	aborted := strings.Replace(ignoredBlock, "Ignoring this exception with remaining max_errored_blocks=9", "Dataset execution will now abort", 1)
	if text, at := LastTraceback(aborted); at < 0 || ExceptionOf(text).String() != "ValueError: x is odd" {
		t.Errorf("%q", text)
	}
}

// TestOwnLines: what Ray copied has a colour or another node's address before it; without both the lines are of
// processes of the program itself.
func TestOwnLines(t *testing.T) {
	for line, own := range map[string]bool{
		"\x1b[36m(f pid=7)\x1b[0m saved\n":                                                   false,
		"\x1b[36m(pid=7)\x1b[0m no module\n":                                                 false,
		"\x1b[36m(pid=gcs_server)\x1b[0m [2026-11-27 02:40:33,862 E 30 30] a.cc:5: closed\n": false,
		"(Map(f)->Write pid=7, ip=10.0.0.2) saved\n":                                         false,
		"(pid=7, ip=10.0.0.2) saved\n":                                                       false,
		"\x1b[33m(raylet, ip=10.0.0.2)\x1b[0m a task died":                                   false,
		"(autoscaler +3s) no node\n":                                                         false,
		"(EngineCore_DP0 pid=7) saved\n":                                                     true,
		"\x1b[1;36m(EngineCore pid=7)\x1b[0;0m saved\n":                                      true,
		"(3 workers) saved\n":                                                                true,
		"started (f pid=7, ip=10.0.0.2), and (raylet) too ":                                  true,
	} {
		says.Equal(t, OwnLines(line), map[bool]string{true: line}[own], "%q", line)
	}
}

// TestFramesInRecordsOfWorkers: of a traceback of which a worker printed each line as a record, no frame, no code, no
// line of carets and, if the exception is known, not the words above it are told.
func TestFramesInRecordsOfWorkers(t *testing.T) {
	const (
		mark   = "\x1b[36m(Rank pid=7)\x1b[0m "
		header = mark + "ERROR 11-27 10:00:09 [worker_base.py:621] "
		warned = "misc/ibvwrap.cc:183 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
		raised = "RuntimeError: NCCL error: unhandled system error"
		trace  = header + "Error executing method 'init_device'.\n" + header + "Traceback (most recent call last):\n" +
			header + "  File \"/v/vllm/worker.py\", line 6, in init\n" + header + "    raise RuntimeError(error)\n" +
			header + "    ^^^^^^^^^^^^^^^^^^^^^^^^^\n" + header + raised + "\n"
	)
	for known, want := range map[string]string{
		"Rank.init failed: " + raised: warned,
		"Rank.init failed":            strings.TrimPrefix(header, mark) + raised,
	} {
		_, said, _ := SaidByWorkers(mark+warned+"\n"+trace, known, func(string) bool { return false }, false)
		says.Equal(t, said, want, "%s", known)
	}
	const other = mark + "cannot read shard 3\n" + mark + "Traceback (most recent call last):\n" + mark + "  File \"/app/a.py\", line 6, in read\n"
	_, said, _ := SaidByWorkers(other+"\x1b[36m(Ask pid=8)\x1b[0m "+raised+"\n", raised, func(string) bool { return false }, false)
	says.Equal(t, said, "cannot read shard 3", "above the traceback of another worker")
}
