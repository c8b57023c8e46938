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
		"(EngineCore_DP0 pid=7) ERROR 11-22 10:15:26 [core.py:710] EngineCore encountered a fatal error.",
		"The following packages are incompatible",
		"Could not solve for environment specs",
		"usage: tune.py [-h] --model MODEL\n               [--error-rate RATE] [--missing {drop,fail}]",
	} {
		log := cause + "\n" + noise + "\n" + last + "\n"
		says.Equal(t, ErrorBefore(log, "Job a failed: "+last), cause, "%s", noise)
	}
	says.Equal(t, LastWords("└─ acme 11.9*  does not exist (perhaps a typo or a missing channel).\n"),
		"acme 11.9*  does not exist (perhaps a typo or a missing channel).", "a branch of a tree")
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
		"OutOfMemoryError: CUDA out of memory": marked("[10:15:56 TP0] Scheduler hit an exception: Traceback (most recent call last):",
			"  File \"/v/srt/runner.py\", line 405, in load_model", "torch.OutOfMemoryError: CUDA out of memory", "",
			"[10:15:56 TP1] Scheduler hit an exception: Traceback (most recent call last):", "  File \"/v/srt/runner.py\", line 417, in load_model",
			"ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading."),
		"NET/IB: Got completion from peer 10.0.3.4<41822> with status=12": marked(native+"NCCL watchdog thread terminated with exception: NCCL error: ",
			"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.", "Last error:",
			"NET/IB: Got completion from peer 10.0.3.4<41822> with status=12"),
		"Version tag does not match. Note: Current Version: 236": marked(
			"[11/22/2026-10:15:06] [TRT] [E] 1: [reader.cpp::init::46] Error Code 1: Version tag does not match. Note: Current Version: 236",
			"[11/22/2026-10:15:06] [TRT] [E] 4: [runtime.cpp::deserialize::66] Error Code 4: Internal Error (Engine deserialization failed.)"),
		"[cam] (v4l2) could not open /dev/video3": marked("[cam] (v4l2) could not open /dev/video3", "[pipe] (src) [0] Internal state change failed"),
		"You requested GPUs: [0, 1] But your machine only has: [0]": marked("Traceback (most recent call last):", "  File \"train.py\", line 122, in train",
			"pl.MisconfigurationException: You requested GPUs: [0, 1]", " But your machine only has: [0]"),
		"ValueError: no device for rank 0": marked("[rank0]: ValueError: no device for rank 0",
			"E1122 10:15:12.114 9 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 22) of binary: /bin/python",
			"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", strings.Repeat("=", 60), "ddp.py FAILED",
			"Root Cause (first observed failure):", "  exitcode  : 1 (pid: 22)", strings.Repeat("=", 60)),
	} {
		_, said, _ := SaidByWorkers(log, "", func(string) bool { return false }, false)
		says.True(t, strings.Contains(said, want), "%q, want %q", said, want)
	}
}

// TestAfterTheCause: what torch's watchdog says behind the cause is not told in its place.
func TestAfterTheCause(t *testing.T) {
	const cause = "torch.OutOfMemoryError: CUDA out of memory"
	for _, said := range []string{
		"[rank3]:[E1122 10:15:32.607 ProcessGroupNCCL.cpp:667] Stack trace of the failed collective not found, potentially because FlightRecorder is disabled.",
		"[rank3]:[E1122 10:15:33.002 ProcessGroupNCCL.cpp:695] [Rank 3] To avoid data inconsistency, we are taking the entire process down.",
		"[rank3]:[E1122 10:15:33.001 ProcessGroupNCCL.cpp:681] [Rank 3] Some NCCL operations have failed or timed out.",
	} {
		says.Equal(t, LastError(cause+"\n"+said+"\n"), cause, "%s", said)
	}
}

// TestLongRequest: of a long message about resources it stays that the time was over.
func TestLongRequest(t *testing.T) {
	for n := range 17 {
		said := "Cannot provide a placement group of placement_group_specs=[{'node:10.0.0.1': 0.001, 'GPU': 1.0}" + strings.Repeat(", {'GPU': 1.0}", n) +
			"] within 1800 seconds. See `ray status` and `ray list nodes` to make sure the cluster has enough resources."
		if e := ExceptionOf("ValueError: " + said + "\n"); !strings.HasSuffix(e.String(), " within 1800 seconds.") {
			t.Errorf("%d: %s", n, e)
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
		says.Equal(t, LastWaitOfRay(log, true), want, "%q", log)
		says.Equal(t, LastWaitOfRay(log, false), "", "%q", log)
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

// TestBelowMessage: a message that goes on below its first line with why: what a compiler, git or another program
// printed, the key that a configuration lacks, what there is instead.
func TestBelowMessage(t *testing.T) {
	const frame = "  File \"/app/a.py\", line 7, in f\n    build()\n"
	for message, want := range map[string]string{
		"Error building extension 'adam': [1/2] c++ -MMD -I/usr/local/cuda/include -c /app/adam.cpp -o adam.o \n[2/2] c++ adam.o -lcurand -o adam.so\n" +
			"FAILED: adam.so \nc++ adam.o -lcurand -o adam.so\n/usr/bin/ld: cannot find -lcurand\ncollect2: error: ld returned 1 exit status\n" +
			"ninja: build stopped: subcommand failed.\n": "Error building extension 'adam': [1/2] c++ -MMD -I/usr/local/cuda/… /usr/bin/ld: cannot find -lcurand",
		"Ninja build failed. Ninja output:\nninja: Entering directory `/c'\nFAILED: [code=1] rope.o\nrope.cu(3): error: identifier \"a\" is undefined\n" +
			"ninja: build stopped: subcommand failed.\n": `Ninja build failed. Ninja output: rope.cu(3): error: identifier "a" is undefined`,
		"Cmd('git') failed due to: exit code(128)\n  cmdline: git clone -v -- https://git.acme.dev/etl.git /e\n  stderr: 'Cloning into '/e'...\n" +
			"fatal: could not read Username for 'https://git.acme.dev'\n'\n": "Cmd('git') failed due to: exit code(128) fatal: could not read Username for 'https://git.acme.dev'",
		"C++ compile error\n\nCommand:\ng++ /t/a.cpp -o /t/a.so\n\nOutput:\n/t/a.cpp:2:10: fatal error: Python.h: No such file or directory\n" +
			"compilation terminated.\n": "C++ compile error /t/a.cpp:2:10: fatal error: Python.h: No such file or directory",
		"You requested GPUs: [0, 1]\n But your machine only has: [0]\n":       "You requested GPUs: [0, 1] But your machine only has: [0]",
		"Key 'lr' is not in struct\n    full_key: optim.lr\n":                 "Key 'lr' is not in struct full_key: optim.lr",
		"3 channels are wanted\nbut the file has 4\n\nbye\n":                  "3 channels are wanted but the file has 4",
		"no rows\n[2/3] read part 7\n[3/3] read part 8\nerror: no part 8\n\n": "no rows error: no part 8",
		"no rows\n": "no rows",
		"no rows\nbutter.parquet is empty\nstderr is closed\n[part 2/3] is bad\n": "no rows",
	} {
		says.Equal(t, ExceptionOf(TracebackStart+"\n"+frame+"RuntimeError: "+message).String(), "RuntimeError: "+want, "%s", message)
	}
}

// TestLongFolders: of a library's file in a long message the name counts, and what is said behind it.
func TestLongFolders(t *testing.T) {
	file := "/home/ray/anaconda3/envs/prod/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
	symbol := ": undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
	says.Equal(t, ExceptionOf("ImportError: "+file+symbol).Message, "…/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"+symbol, "long")
	says.Equal(t, ExceptionOf("ImportError: "+file).Message, file, "short")
}

// TestUsage: how a tool is used, below its error, is not why it ended.
func TestUsage(t *testing.T) {
	const usage = "usage: bind [--all | -a] [--fail]\n            [--nodes= | -N <nodes>]\n       bind [--show | -s]\n\n" +
		"nodes is a list of node numbers\nInstead of a number a node can also be:\n  file:FILE  the node of a file\n\nall ranges can be inverted with !\n"
	for log, want := range map[string]string{
		"libnuma: Warning: node argument 2 is out of range\n\n<2> is invalid\n" + usage: "<2> is invalid",
		"bind: unrecognized option '--cpu'\n" + usage:                                   "bind: unrecognized option '--cpu'",
		usage + "bind: error: argument -N: invalid list\n":                              "bind: error: argument -N: invalid list",
	} {
		says.Equal(t, LastWords(log), want, "%s", log)
	}
}

// TestSilentWrapper: what Ray Data raises another exception from says nothing.
func TestSilentWrapper(t *testing.T) {
	text := TracebackStart + "\n  File \"/v/ray/data/exceptions.py\", line 49, in handle_trace\n    return fn()\n" +
		"ray.data.exceptions.SystemException\n\n" + directCause + "\n\n" + TracebackStart +
		"\n  File \"/app/a.py\", line 7, in <module>\n    ds.count()\nOSError: torn page\n"
	says.Equal(t, ExceptionOf(text).String(), "OSError: torn page", "")
}

// TestOutputBelowProcess: what a library raised from the end of a process has its output.
func TestOutputBelowProcess(t *testing.T) {
	text := TracebackStart + "\n  File \"/v/site-packages/jit/ext.py\", line 250, in run\n    subprocess.run(\n" +
		"subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.\n\n" + directCause + "\n\n" + TracebackStart +
		"\n  File \"/v/site-packages/jit/ext.py\", line 262, in run\n    raise RuntimeError(msg) from e\n" +
		"RuntimeError: build failed\nFAILED: rope.o\nnvcc fatal   : Unsupported gpu architecture 'compute_100a'\n"
	raised := ExceptionOf(text)
	says.Equal(t, raised.String(), "CalledProcessError: Command '['ninja']' returned non-zero exit status 1. "+
		"(RuntimeError: build failed nvcc fatal   : Unsupported gpu architecture 'compute_100a')", "")
	git := "GitCommandError: Cmd('git') failed\n  stderr: 'cloning'\nfatal: no such host\n"
	says.Equal(t, Behind(git+"bye\n", ExceptionOf(git)), "\nbye\n", "")
}

// TestAssertionOfDevice: what a kernel asserted is told with what the host says of it.
func TestAssertionOfDevice(t *testing.T) {
	const host = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: device-side assert triggered\n"
	const kernel = "../aten/Loss.cu:250: nll_loss: block: [0,0,0], thread: [3,0,0] Assertion `t < n_classes` failed.\n"
	for log, want := range map[string]string{
		kernel + host: "c10::Error: CUDA error: device-side assert triggered: Assertion `t < n_classes` failed.",
		host:          "c10::Error: CUDA error: device-side assert triggered",
		kernel + strings.ReplaceAll(host, "device-side assert triggered", "out of memory"): "c10::Error: CUDA error: out of memory",
	} {
		said, _ := CrashInPython(log)
		says.Equal(t, said, want, "%s", log)
	}
}

// TestCrashedIn: a signal ended a process of Python in the first function of its stack that is the program's own, or
// else in the first one.
func TestCrashedIn(t *testing.T) {
	const stack = "Fatal Python error: Segmentation fault\n\n"
	for log, want := range map[string]string{
		stack + "Stack (most recent call first):\n  File \"/app/video.py\", line 31 in decode\n  File \"/app/a.py\", line 3 in <module>\n":                             " in decode (/app/video.py:31)",
		stack + "Current thread 0x00007f (most recent call first):\n  File \"/v/lib/python3.11/site-packages/torch/nn/conv.py\", line 456 in _conv_forward\n":          " in _conv_forward (torch/nn/conv.py:456)",
		stack + "Stack (most recent call first):\n  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n  File \"/app/a.py\", line 3 in read_at\n": " in read_at (/app/a.py:3)",
		stack + "Thread 0x00007f11 (most recent call first):\n  <no Python frame>\n":                                                                                   "",
		stack + "bye\n": "",
	} {
		says.Equal(t, CrashedIn(log), want, "%s", log)
	}
}

// TestMeterOfCurl: what curl shows of a transfer, in front of its error, is left out.
func TestMeterOfCurl(t *testing.T) {
	const names = "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n" +
		"                                 Dload  Upload   Total   Spent    Left  Speed\n"
	for log, want := range map[string]string{
		names + "\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0curl: (6) Could not resolve host: a.io\n":        "curl: (6) Could not resolve host: a.io",
		names + "\r 42  118M   42 50.1M    0     0  12.3M      0  0:00:09  0:00:04  0:00:05 12.3Mcurl: (28) Operation timed out\n":                "curl: (28) Operation timed out",
		"no index\n" + names + "\r100   118  100   118    0     0   1230      0 --:--:-- --:--:-- --:--:--  1230\nerror: bad checksum of a.bin\n": "error: bad checksum of a.bin",
		"1 2 3 4 5 6 7 8 9 rows are bad\n": "1 2 3 4 5 6 7 8 9 rows are bad",
	} {
		says.Equal(t, LastWords(log), want, "%q", log)
	}
}

// TestNotices: what launchers and builds say of their defaults is not told, and neither is what is known in other
// quotes.
func TestNotices(t *testing.T) {
	for _, notice := range []string{
		"Allowing ninja to set a default number of workers... (overridable by setting the environment variable MAX_JOBS=N)",
		"The following values were not passed to `accelerate launch` and had defaults used instead:",
		"\t`--num_machines` was set to a value of `1`",
		"To avoid this warning pass in values for each of the problematic parameters or run `accelerate config`.",
	} {
		says.Equal(t, LastWords("no rows of 2026-11-21\n"+notice+"\n"), "no rows of 2026-11-21", "%s", notice)
	}
	const known = "Job a failed: its driver raised TypeError: cannot pickle 'Lock' object"
	for log, want := range map[string]string{
		"part 7 is corrupt\nERROR: TypeError(\"cannot pickle 'Lock' object\")\n":   "part 7 is corrupt",
		"part 7 is corrupt\nERROR: TypeError('cannot pickle \\'Lock\\' object')\n": "part 7 is corrupt",
		"part 7 is corrupt\nERROR: cannot pickle 'Lock' object of part 8\n":        "cannot pickle 'Lock' object of part 8",
	} {
		if got := ErrorBefore(log, known); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
	const ended = "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
	says.Equal(t, ErrorBefore("part 7 is corrupt\n"+ended, LastWords(ended)), "part 7 is corrupt", "MPI_ABORT")
}

// TestRoutineLines: what Ray prints of each run of a dataset or a compiled graph is no wait.
func TestRoutineLines(t *testing.T) {
	const stamp = "2026-11-22 10:15:30,000\tINFO "
	for log, want := range map[string]string{
		stamp + "logging_progress.py:233 --   Tasks: 0; Actors: 1 (running=0, pending=1); Queued blocks: 10\n":      "",
		stamp + "logging_progress.py:227 -- Active & requested resources: 0/0 CPU, 0.0B/0.0B (pending: 1 CPU)\n":    "",
		stamp + "compiled_dag_node.py:2200 -- Waiting for worker tasks to exit\n":                                   "",
		stamp + "proxy.py:7 -- Waiting for the proxy\n" + stamp + "logging_progress.py:227 -- x (pending: 1 CPU)\n": "Waiting for the proxy",
	} {
		says.Equal(t, LastWaitOfRay(log, true), want, "%q", log)
	}
}

// TestRefusedRequest: what Serve says of a request that it refused, because too many waited, is a wait of Ray.
func TestRefusedRequest(t *testing.T) {
	const said = "Request dropped due to backpressure (num_queued_requests=5, max_queued_requests=5)"
	for log, want := range map[string]string{
		"WARNING 2026-11-22 10:15:30,000 shop_Ranker 7 -- " + said + ".\n":                                                   said,
		"\x1b[36m(ProxyActor pid=7)\x1b[0m WARNING 2026-11-22 10:15:30,000 proxy 10.0.0.2 9f2 -- " + said + ".\nno answer\n": said,
		"I printed: " + said + "\n": "",
	} {
		says.Equal(t, LastWaitOfRay(log, true), want, "%q", log)
	}
}

// TestOtherLanguages: an error counts before other last lines, whatever its language, and a count of none is no error.
func TestOtherLanguages(t *testing.T) {
	for said, closing := range map[string]string{
		"Die Datei /daten/4711.csv konnte nicht geöffnet werden": "0 Fehler in den Stammdaten",
		"./lauf.sh: Zeile 3: /opt/rechne: Keine Berechtigung":    "Ende",
		"Błąd: brak kolumny cena":                                "Koniec pracy",
		"Nie można otworzyć pliku dane.csv":                      "Sprzątam katalog tymczasowy",
		"오류: 열 '가격'이 없습니다":                                       "종료합니다",
		"입력 파일을 찾을 수 없습니다: /data/in.csv":                         "임시 파일을 정리합니다",
		"ファイル /data/in.csv が見つかりません":                             "終了します",
		"无法连接数据库 10.0.0.9:5432":                                  "正在清理临时文件",
		"No se pudo abrir /datos/in.csv":                         "Fin del proceso",
		"Não foi possível ler a tabela precos":                   "Fim",
		"Impossible d'ouvrir le fichier in.csv":                  "Fin du traitement",
		"Impossibile aprire il file in.csv":                      "Fine",
		"Kan kolom prijs niet lezen: bestand niet gevonden":      "Klaar",
		"не удалось открыть файл in.csv":                         "Работа завершена",
		"Hata: girdi.csv açılamadı":                              "Bitti",
	} {
		says.Equal(t, LastWords(said+"\n"+closing+"\n"), said, "%s", closing)
	}
}

// TestReasonOfService: of a long message that has the answer of a service the innermost reason is told.
func TestReasonOfService(t *testing.T) {
	long := strings.Repeat("0.0131, ", 40)
	for message, want := range map[string]string{
		`('77 failed.', [{'index': {'_id': '67c5', 'error': {'reason': "failed to parse field [v] of '9'", 'data': [` + long + `], 'caused_by': {'reason': 'Expected: 1536, Given: 1024'}}, 'vector': [` + long + `]}}])`: "'reason': 'Expected: 1536, Given: 1024'",
		`400 {"error": {"code": 3, "details": [` + long + `], "message": "no such table: prices"}, "vector": [` + long + `]}`:                                                                                             `"message": "no such table: prices"`,
		`Error code: 429 - {'error': {'message': 'You exceeded your current quota', 'type': 'quota', 'vector': [` + long + `]}}`:                                                                                          "Error code: 429 - {'error': {'message': 'You exceeded your current quota'",
		`bad batch: [` + long + `], 'detail': 'short', last`: "1, 0.0131, ], 'detail': 'short', last",
	} {
		got := ExceptionOf("Traceback (most recent call last):\n  File \"a.py\", line 1\nacme.SendError: " + message + "\n").Message
		says.True(t, strings.HasSuffix(got, want) && len(got) <= MaxMessage+len("…"), "%q, want %q", got, want)
	}
}

// TestStepsOfNumba: what numba says of the step that failed needs the reason below it.
func TestStepsOfNumba(t *testing.T) {
	for step, below := range map[string]string{
		"nopython mode pipeline (step: nopython frontend)": "No implementation of function setitem found for signature:",
		"nopython mode pipeline (step: native lowering)":   "expecting int64 but got float64",
		"object mode pipeline (step: analyzing bytecode)":  "Use of unsupported opcode (LOAD_BUILD_CLASS) found",
	} {
		e := ExceptionOf("Traceback (most recent call last):\n  File \"a.py\", line 1\nnumba.TypingError: Failed in " + step + "\n" + below + "\n \n >>> x[0]\n")
		says.Equal(t, e.String(), "TypingError: Failed in "+step+" "+below, "%s", step)
	}
}

// TestRecordsOfKafka: what librdkafka logs is told without its header, and that no broker is left says nothing.
func TestRecordsOfKafka(t *testing.T) {
	const down = "%3|1795342550.415|ERROR|c-1| [thrd:c-1]: 1/1 brokers are down\n"
	for record, want := range map[string]string{
		"%3|1795342520.412|FAIL|c-1| [thrd:kafka:9092/bootstrap]: kafka:9092/bootstrap: Connect to ipv4#10.0.9.4:9092 failed: Connection refused": "kafka:9092/bootstrap: Connect to ipv4#10.0.9.4:9092 failed: Connection refused",
		"%3|1795342520.412|FAIL|c-1| [thrd:ssl://kafka:9093/1]: ssl://kafka:9093/1: SSL handshake failed: certificate verify failed":              "ssl://kafka:9093/1: SSL handshake failed: certificate verify failed",
		"%3|1795342520.412|FAIL|p-2| [thrd:sasl://kafka:9094/1]: sasl://kafka:9094/1: SASL authentication error: no such user":                    "sasl://kafka:9094/1: SASL authentication error: no such user",
		"%4|1795342520.412|FAIL|p-2| [thrd:kafka:9092/1]: kafka:9092/1: Failed to resolve 'kafka:9092': Name or service not known":                "kafka:9092/1: Failed to resolve 'kafka:9092': Name or service not known",
	} {
		says.Equal(t, ErrorBefore(record+"\n"+down, "Job a failed"), want, "%s", record)
	}
}

// TestStackOfMATLAB: the lines in which MATLAB says where it was say nothing of why.
func TestStackOfMATLAB(t *testing.T) {
	const where = "\nError in model/fit (line 12)\n    data = load('prices.mat');\n\nError in main (line 3)\n    run_model;\n"
	for said, want := range map[string]string{
		"Error using load\nUnable to find file or directory 'prices.mat'.\n": "Unable to find file or directory 'prices.mat'.",
		"Error using  *\nIncorrect dimensions for matrix multiplication.\n":  "Incorrect dimensions for matrix multiplication.",
		"Unrecognized function or variable 'prices'.\n":                      "Unrecognized function or variable 'prices'.",
	} {
		if got := LastWords("Reading prices\n" + said + where); !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTook: what only tells how long something took is not told in place of what was printed above it, unless it speaks
// of an error.
func TestTook(t *testing.T) {
	const said = "3 of 9 shards differ"
	for _, took := range []string{"elapsed: 4 s", "Ran 3 tests in 0.412s", "Total Test time (real) = 0.01 sec",
		"Time:        1.234 s", "real\t0m4.210s", "Finished in 12.5 seconds", "done in 3m 20s", "Duration: 00:00:04"} {
		says.Equal(t, LastWords(said+"\n"+took+"\n"), said, "%s", took)
	}
	for _, last := range []string{"gave up after 30 s", "lock of lake-7 not found in 30 s", "time is over: 3 shards left",
		"done with 3 of 9"} {
		says.Equal(t, LastWords(said+"\n"+last+"\n"), last, "%s", last)
	}
	says.Equal(t, LastWords("elapsed: 4 s\n"), "elapsed: 4 s", "nothing else")
}

// TestStatusOfRequest: a script's line about a status of HTTP that is an error, or about what somebody lacks, counts
// before what others print behind it. The line of an access log does not.
func TestStatusOfRequest(t *testing.T) {
	for _, said := range []string{"crm: HTTP 403 for /v2/contacts: scope contacts.read", "got HTTP 502 from index-3",
		"crm: token lacks scope contacts.read", "role etl lacks SELECT on orders"} {
		says.Equal(t, LastWords(said+"\nshop: 500 orders\nelapsed: 4 s\n"), said, "%s", said)
	}
	for _, access := range []string{`10.0.0.7 - "GET /ready HTTP/1.1" 404 2`, "10.0.0.7: HTTP 200 for /ready"} {
		says.Equal(t, LastWords(access+"\nshop: 500 orders\n"), "shop: 500 orders", "%s", access)
	}
}

// TestWordsOfPython: what Python says of a mistake is an error also without the exception's type, and so is what
// programs say of something that is not as expected.
func TestWordsOfPython(t *testing.T) {
	for _, said := range []string{"factor-cache: 'ActorHandle' object has no attribute 'get_many'",
		"row 7 left out: 'int' object is not iterable", "fit() takes 2 positional arguments but 3 were given",
		"too many values to unpack (expected 2)", "Object of type int64 is not JSON serializable",
		"column 'ts_utc' of events is VARCHAR, expected TIMESTAMP", "expected 4096 rows, file has 4011",
		"reader: expected an integer but got 'n/a'"} {
		says.Equal(t, LastWords(said+"\nfeatures: closing connections\n"), said, "%s", said)
	}
	for _, said := range []string{"loaded 3 tables, as expected", "expected end: 14:07", "the object is ready"} {
		says.Equal(t, LastWords(said+"\nfeatures: closing connections\n"), "features: closing connections", "%s", said)
	}
}
