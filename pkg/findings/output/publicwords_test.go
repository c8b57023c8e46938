package output

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestSaysNothing: what launchers, shells, Ray's libraries and docker print around an error is not told before it.
func TestSaysNothing(t *testing.T) {
	const last, cause = "fatal: could not read part 7", "mount of /lake failed: no such export"
	for _, noise := range []string{
		"Error executing job with overrides: ['model.name=llama', 'trainer.errors=2']",
		"+ echo 'upload failed, giving up'",
		"++ test -e /lake/missing",
		"Unable to find image 'acme/trainer:7' locally",
		"ray.exceptions.RayTaskError(OSError): \x1b[36mray::read()\x1b[39m (pid=7, ip=10.0.0.2)",
		"To start a new run that will retry on training failures, set `train.RunConfig(failure_config=…)`.",
		"To continue this run, you can use: `trainer = TorchTrainer.restore(\"/runs/error-7\")`.",
		"tracker: ERROR Please refer to the documentation for additional information: https://docs.acme.dev/#init-error",
		"| fit_9f2_00000 |            1 | /runs/fit_9f2/error.txt |",
		"Number of trials: 3 (2 ERROR, 1 TERMINATED)",
		"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
	} {
		log := cause + "\n" + noise + "\n" + last + "\n"
		says.Equal(t, ErrorBefore(log, "Job a failed: "+last), cause, "%s", noise)
	}
	if got := LastWords("└─ acme 11.9*  does not exist (perhaps a typo or a missing channel).\n"); got !=
		"acme 11.9*  does not exist (perhaps a typo or a missing channel)." {
		t.Errorf("a branch of a tree: %q", got)
	}
}

// TestLastOfWorkers: of a worker that a signal, a watchdog or a launcher ended the words count that say why.
func TestLastOfWorkers(t *testing.T) {
	marked := func(lines ...string) string {
		return "\x1b[36m(Rank pid=7)\x1b[0m " + strings.Join(lines, "\n\x1b[36m(Rank pid=7)\x1b[0m ") + "\n"
	}
	const native = "[rank3]:[E1122 10:15:32.606 ProcessGroupNCCL.cpp:616] [Rank 3] "
	for want, log := range map[string]string{
		"Watchdog caught collective operation timeout": marked(
			native+"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9) ran for 600031 milliseconds.",
			native+"Exception (either an error or timeout) detected by watchdog at work: 9.",
			native+"Some NCCL operations have failed or timed out.",
			native+"To avoid data inconsistency, we are taking the entire process down."),
		"c10::Error: device-side assert triggered": marked(append([]string{"a.cu:1289: f: Assertion `i < n` failed.",
			"terminate called after throwing an instance of 'c10::Error'", "  what():  device-side assert triggered", "",
			"Exception raised from check at ../c10/a.cpp:43 (most recent call first):"},
			append(slices.Repeat([]string{"frame #1: c10::Error::Error() + 0x96 (0x7f in /v/libc10.so)", "in frames"}, 20),
				"*** SIGABRT received at time=1795256143 on cpu 3 ***", "Fatal Python error: Aborted")...)...),
		"runtime_error: no page for 4 tokens": marked("step 3",
			"[2026-11-22 10:15:43,815 E 31 17] logging.cc:108: Unhandled exception: St13runtime_error. what(): no page for 4 tokens",
			"[2026-11-22 10:15:43,901 E 31 17] logging.cc:115: Stack trace: ", " /v/ray/_raylet.so(+0x10b96aa) [0x7f1]",
			"*** SIGABRT received at time=1795256143 on cpu 12 ***", "PC: @     0x7f51  (unknown)  pthread_kill",
			"Fatal Python error: Aborted"),
		"RuntimeError: pool of 3 pages is too small": marked(
			"[2026-11-22 10:15:48 TP2] Scheduler hit an exception: Traceback (most recent call last):",
			"  File \"/v/srt/runner.py\", line 1180, in init_pool", "RuntimeError: pool of 3 pages is too small", "",
			"[2026-11-22 10:15:48] Received sigquit from a child process. It usually means the child failed."),
		"ValueError: no device for rank 0": marked("[rank0]: ValueError: no device for rank 0",
			"E1122 10:15:12.114 9 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 22) of binary: /bin/python",
			"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", strings.Repeat("=", 60), "ddp.py FAILED",
			"Root Cause (first observed failure):", "  exitcode  : 1 (pid: 22)", strings.Repeat("=", 60)),
	} {
		_, said, _ := SaidByWorkers(log, "", func(string) bool { return false })
		if !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}

// TestExhausted: what the system refused a thread of Ray is why the program ended, and not what Ray says next.
func TestExhausted(t *testing.T) {
	const next = "[2026-11-22 10:15:06,819 E 29 29] core_worker.cc:251: Failed to register worker 0100ff to Raylet. IOError: No such file or directory\n"
	for _, refused := range []string{
		"E1122 10:15:06.605366961 74 thd.cc:157]        pthread_create failed: Resource temporarily unavailable",
		"E1122 10:15:06.605366961 74 tcp_server_posix.cc:213]    Failed accept4: Too many open files",
		"[2026-11-22 10:15:06,300 E 29 29] io.cc:7: mmap of 64 pages failed: Cannot allocate memory",
	} {
		if got := LastWords(refused + "\n" + next); !strings.HasSuffix(refused, got[max(0, len(got)-40):]) {
			t.Errorf("%s: %q", refused, got)
		}
	}
}

// TestNoNodeType: what the autoscaler says that no node has is a wait of Ray.
func TestNoNodeType(t *testing.T) {
	const said = "No available node types can fulfill resource request {'GPU': 16.0}"
	const tail = ". Add suitable node types to this cluster to resolve this issue.\n"
	for log, want := range map[string]string{
		"\x1b[33m(autoscaler +1m5s)\x1b[0m Error: " + said + tail: said,
		"(autoscaler +35s, ip=10.0.0.2) Error: " + said + tail:    said,
		"\x1b[36m(f pid=7)\x1b[0m Error: " + said + tail:          "",
		"I printed: " + said + tail:                               "",
	} {
		says.Equal(t, LastWaitOfRay(log), want, "%q", log)
	}
}

// TestInMessage: a traceback in an exception's message does not hide that the module raised it.
func TestInMessage(t *testing.T) {
	const module = TracebackStart + "\n  File \"/app/a.py\", line 7, in <module>\n    main()\n"
	for text, want := range map[string]bool{
		module + "RaySystemError: System error: no such\ntraceback: " + TracebackStart + "\nOSError: no such\n": true,
		module + "E: a\n" + TracebackStart + "\n  File \"/app/a.py\", line 3, in f\nOSError: no such\n":         false,
	} {
		says.Equal(t, FromModule(text), want, "%q", text)
	}
}
