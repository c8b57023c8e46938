package output

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestLastWords: a record at level error of any library is a program's last words, and what is logged below that level
// after it is not.
func TestLastWords(t *testing.T) {
	const ray = "2026-11-20 23:19:45,581\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.1:6379...\n"
	for name, c := range map[string]struct{ log, want string }{
		"logging": {"start\nERROR:train:batch 3 has 0 rows\nINFO:train:saving\nWARNING:train:nobody waits\n",
			"ERROR:train:batch 3 has 0 rows"},
		"glog":   {"E1120 23:19:45.581000 1 step.cpp:12] batch 3 has 0 rows\nI1120 23:19:45.581000 1 step.cpp:12] errors were sent\n", "E1120 23:19:45.581000 1 step.cpp:12] batch 3 has 0 rows"},
		"logrus": {"time=\"2026-11-20T23:19:45Z\" level=fatal msg=\"batch 3 has 0 rows\"\ntime=\"2026-11-20T23:19:46Z\" level=info msg=\"failed over\"\n", "time=\"2026-11-20T23:19:45Z\" level=fatal msg=\"batch 3 has 0 rows\""},
		"JSON": {`{"level": "error", "msg": "batch 3 has 0 rows"}` + "\n" +
			`{"level": "info", "msg": "could not be quicker"}` + "\n", "batch 3 has 0 rows"},
		"Spark":                  {"26/11/25 02:44:02 ERROR SparkContext: batch 3 has 0 rows\n26/11/25 02:44:02 INFO ShutdownHookManager: Shutdown hook called\n", "26/11/25 02:44:02 ERROR SparkContext: batch 3 has 0 rows"},
		"loguru, coloured":       {"\x1b[32m2026-11-20 23:19:45.581\x1b[0m | \x1b[31m\x1b[1mERROR   \x1b[0m | a:f:3 - batch 3 has 0 rows\nbye\n", "2026-11-20 23:19:45.581 | ERROR    | a:f:3 - batch 3 has 0 rows"},
		"figures of errors":      {"accuracy is below 0.9\n[99]\ttrain-error:0.04\nval_error: 0.05\nMean absolute error: 0.42\nerror: 0.07\nfailed: 0\ninvalid rows: 0\n{'mean_squared_error': 0.31}\n{\"val_error\": 0.05, \"failed\": 0}\n{\"error\": null, \"failures\": []}\n0 rejected\n", "0 rejected"},
		"an argument of nothing": {"invalid argument: None\nbye\n", "invalid argument: None"},
		"an error with a code":   {"upload returned error: 404\nval_error: 0.05, train_error=1e-3\n", "upload returned error: 404"},
		"an address in it":       {"error: 10.0.0.1 did not answer\nbye\n", "error: 10.0.0.1 did not answer"},
		"some of each":           {"case a: wrong\n1 failed, 0 errors\n", "1 failed, 0 errors"},
		"plural":                 {"3 errors in config.yaml\nsaving\nbye\n", "3 errors in config.yaml"},
		"advice after":           {"error: batch 3 has 0 rows\nPlease see the log for errors.\nSet the variable FULL_ERROR=1 to see more\n", "error: batch 3 has 0 rows"},
		"a heading after":        {"[E::load] fail to open batch 3\nError in rule load:\n    output: batch.bin\n", "[E::load] fail to open batch 3"},
		"like words of errors":   {"Fehler: Datei fehlt\nfallout_4 geladen, fehlerfrei\n", "Fehler: Datei fehlt"},
		"in German":              {"Lese Kunden\nFehler: Datei kunden.csv nicht gefunden\nRäume auf\nEnde\n", "Fehler: Datei kunden.csv nicht gefunden"},
		"in Chinese":             {"读取数据\n加载模型失败\n清理完成\n", "加载模型失败"},
		"many lines after": {"CRITICAL:train:batch 3 has 0 rows\n" +
			strings.Repeat("INFO:train:worker is gone\n", 300), "CRITICAL:train:batch 3 has 0 rows"},
		"pip": {"  error: subprocess-exited-with-error\n  \n  × Preparing metadata (pyproject.toml) did not run successfully.\n  │ exit code: 1\n  ╰─> [6 lines of output]\n      Traceback (most recent call last):\n" +
			"        File \"<string>\", line 1, in <module>\n      RuntimeError: CUDA_HOME is not set\n      [end of output]\n  \n  note: This error originates from a subprocess, and is likely not a problem with pip.\n" +
			"error: metadata-generation-failed\n\n× Encountered error while generating package metadata.\n╰─> See above for output.\n\nhint: See above for details.\n", "RuntimeError: CUDA_HOME is not set"},
		"SIGTERM":                        {"waiting for 3 nodes\n*** SIGTERM received at time=1795788048 on cpu 0 ***\nPC: @     0x7fc38eaed545  (unknown)  clock_nanosleep\n    @     0x7fc38ea5a050  389360264  (unknown)\n    @ ... and at least 4 more frames\n", "waiting for 3 nodes"},
		"an error long after pip":        {"      RuntimeError: CUDA_HOME is not set\n      [end of output]\n" + strings.Repeat("step\n", 30) + "error: no GPU\n", "error: no GPU"},
		"pytest":                         {"E       assert 3 == 4\n\nt.py:2: AssertionError\n=== short test summary info ===\nFAILED t.py::test_join - assert 3 == 4\n1 failed, 1 passed in 0.07s\n", "FAILED t.py::test_join - assert 3 == 4"},
		"pytest, cut":                    {"E   OSError: host db-4 is gone\nt.py:2: OSError\n=== short test summary info ===\nERROR t.py::test_rows - OSErr...\n1 passed, 1 warning, 1 error in 0.36s\n", "E   OSError: host db-4 is gone"},
		"pytest, without a module":       {"E   ModuleNotFoundError: No module named 'git'\n=== short test summary info ===\nERROR tests/a.py\n!!!!!! Interrupted: 1 error during collection !!!!!!\n!!! stopping after 1 failures !!!\n=== 1 error in 0.12s ===\n", "E   ModuleNotFoundError: No module named 'git'"},
		"Ansible":                        {"fatal: [web]: UNREACHABLE! => no route\nPLAY RECAP *****\nweb : ok=1 changed=0 unreachable=1 failed=1 skipped=0\n", "fatal: [web]: UNREACHABLE! => no route"},
		"uv":                             {"error: Failed to fetch: `https://index.acme.example/simple/a/`\n  Caused by: client error (Connect)\n  Caused by: dns error: a name is not known\n  Caused by: failed to lookup address information\n", "error: Failed to fetch: `https://index.acme.example/simple/a/`, caused by: failed to lookup address information"},
		"a cause below what is no error": {"error: cache is missing\nstep 1\nUpload of part 3 did not work\nCaused by: quota of lake-7 exceeded\n", "quota of lake-7 exceeded"},
		"a cause below a warning":        {"error: cache is missing\nWARNING:root:could not count\nCaused by: quota of lake-7 exceeded\n", "error: cache is missing"},
		"a cause below Ray's error":      {"loading\n[2026-11-25 23:05:20,927 E 336 336] core_worker.cc:12: failed to connect\nCaused by: quota of lake-7 exceeded\n", "quota of lake-7 exceeded"},
		"an error with its place":        {"2026-11-20 10:00:05 ERROR could not open bucket lake-7 [store.py:45]\nbye\n", "2026-11-20 10:00:05 ERROR could not open bucket lake-7 [store.py:45]"},
		"a place alone":                  {"ERROR: disk full\n2026-11-20 10:00:05 ERROR [store.py:45]\n", "ERROR: disk full"},
		"Snakemake":                      {"OSError: rows.csv is torn\nExiting because a job execution failed. Look below for error messages\n", "OSError: rows.csv is torn"},
		"jest":                           {"  ✕ joins tables: expected 4, got 3, which is invalid\n\nTests:       1 failed, 2 passed, 3 total\nTime: 2 s\n", "✕ joins tables: expected 4, got 3, which is invalid"},
		"mypy":                           {"etl.py:3: error: Name \"rows\" is not defined [name-defined]\nFound 1 error in 1 file (checked 2 source files)\n", "etl.py:3: error: Name \"rows\" is not defined [name-defined]"},
		"Go's tests":                     {"--- FAIL: TestJoin (0.00s)\n    join_test.go:7: cannot join\nFAIL\nFAIL\tacme/etl\t0.003s\n", "--- FAIL: TestJoin (0.00s): join_test.go:7: cannot join"},
		"a mark alone":                   {"FAIL src/a.test.js\n  ● totals › sums a row\n    Expected: 4\nTests: 1 failed, 1 total\n", "● totals › sums a row"},
		"Maven's help":                   {"[ERROR] Join.java:[3,2] cannot find symbol\n[ERROR] -> [Help 1]\n[ERROR] For more information about the errors, read:\n", "[ERROR] Join.java:[3,2] cannot find symbol"},
		"an error like advice":           {"ERROR: Please set HF_TOKEN\nbye\n", "ERROR: Please set HF_TOKEN"},
		"a place, and advice":            {"ERROR 11-27 10:00:09 [core.py:7] Please set HF_TOKEN\nbye\n", "ERROR 11-27 10:00:09 [core.py:7] Please set HF_TOKEN"},
		"JSON like advice":               {`{"level":"error","time":"2026-11-20T10:00:05Z","message":"Run with --resume: state is torn"}` + "\nbye\n", "Run with --resume: state is torn"},
		"an error that exits":            {"ERROR:root:checkpoint store is full, exiting\nbye\n", "ERROR:root:checkpoint store is full, exiting"},
		"exiting alone":                  {"checkpoint store is full, exiting\nloader: exiting now.\n", "checkpoint store is full, exiting"},
		"exiting at a level":             {"ERROR:root:dataset is corrupt\nERROR:root:Exiting with code 1\n", "ERROR:root:dataset is corrupt"},
		"uvicorn":                        {"ERROR:    Exception in 'lifespan' protocol\nKeyError: 'JWT_KEY'\nERROR:    Application startup failed. Exiting.\n", "KeyError: 'JWT_KEY'"},
		"exiting in JSON": {`{"level":"error","msg":"dataset is corrupt"}` + "\n" +
			`{"level":"error","msg":"exiting with code 1"}` + "\n", "dataset is corrupt"},
		"a cause, and see above":     {"loading\nERROR: disk full, see above\nbye\n", "ERROR: disk full, see above"},
		"see above, at a level":      {"ERROR: disk full\nERROR: see the log above\n", "ERROR: disk full"},
		"after a cause with a colon": {"ERROR: disk full: exiting\n", "ERROR: disk full: exiting"},
		"errors above":               {"error[E0308]: mismatched types\nerror: could not compile `app` due to 2 previous errors\n", "error[E0308]: mismatched types"},
		"rustc's count":              {"error[E0308]: mismatched types\nerror: aborting due to 2 previous errors; 1 warning emitted\n", "error[E0308]: mismatched types"},
		"warnings.warn":              {"accuracy is below 0.9\n/a/b.py:7: FutureWarning: an error in later versions\n", "accuracy is below 0.9"},
		"warnings.warn's code":       {"WARNING:root:accuracy is low\n/a/b.py:7: UserWarning: slow\n  warnings.warn(\n", "WARNING:root:accuracy is low"},
		"nothing but count":          {"running\n2 errors\n", "2 errors"},
		"a print of it": {"INFO:train:step 1\nerror: batch 3 has 0 rows\nINFO:train:0 errors\n",
			"error: batch 3 has 0 rows"},
		"a warning of it": {"WARNING:train:could not read batch 3\nbye\nINFO:train:saved\n",
			"WARNING:train:could not read batch 3"},
		"a process of vLLM": {"(EngineCore_DP0 pid=61) ERROR 11-27 10:00:09 [core.py:708] batch 3 has 0 rows\n(APIServer pid=59)   File \"a.py\", line 1, in f\n" +
			"(APIServer pid=59)     raise ValueError(x)\n(APIServer pid=59) INFO 11-27 10:00:09 [a.py:7] bye\n", "ERROR 11-27 10:00:09 [core.py:708] batch 3 has 0 rows"},
		"a print":           {"no more rows\nINFO:train:an error may follow\n" + ray, "no more rows"},
		"nothing but info":  {"INFO:train:step 1\nINFO:train:step 2\n" + ray, "INFO:train:step 2"},
		"warning over info": {"WARNING:train:step 1 is slow\nINFO:train:step 2\n", "WARNING:train:step 1 is slow"},
		"nothing but Ray":   {ray, ""},
		"a heading and its next line": {"ERROR: Checkout failed for following targets:\nrows/a.csv\n<https://error.dvc.org/missing-files>\n",
			"ERROR: Checkout failed for following targets: rows/a.csv"},
		"a pipe of which the first fails": {"gzip: /data/rows.gz: not in gzip format\n0 rows loaded\nexpected at least 1 row\n",
			"gzip: /data/rows.gz: not in gzip format"},
		"an archive that is none": {"/bin/tar: This does not look like a tar archive\ntar: Exiting with failure status due to previous errors\nbye\n",
			"/bin/tar: This does not look like a tar archive"},
		"a server that says nothing": {"curl: (52) Empty reply from server\n0 rows loaded\n", "curl: (52) Empty reply from server"},
		"no rule":                    {"make: *** No rule to make target 'rows'.  Stop.\nleaving\n", "make: *** No rule to make target 'rows'.  Stop."},
		"a quoted command":           {"sed: -e expression #1, char 3: unterminated `s' command\nleaving\n", "sed: -e expression #1, char 3: unterminated `s' command"},
		"a host that does not answer": {"ssh: connect to host db-4 port 22: Connection timed out\nleaving\n",
			"ssh: connect to host db-4 port 22: Connection timed out"},
		"a program's own label": {"report: not needed\ntar: Removing leading `/' from member names\nbatch 3 has 0 rows\n", "batch 3 has 0 rows"},
		"advice of torch":       {"ValueError: no kernel image\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n", "ValueError: no kernel image"},
		"advice of dynamo":      {"RuntimeError: no triton\nYou can suppress this exception and fall back to eager by setting:\n    import torch._dynamo\n    torch._dynamo.config.suppress_errors = True\n", "RuntimeError: no triton"},
		"advice of JAX":         {"XlaRuntimeError: out of memory\nFor simplicity, JAX has removed its internal frames from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.\n", "XlaRuntimeError: out of memory"},
		"what JAX was told": {"F0929 17:42:48.594200 1044529 client.h:77] Terminating process because the JAX distributed service detected fatal errors.\nAdditional GRPC error information from remote target coordination_service:\n:UNKNOWN:Error received from peer  {grpc_message:\"Socket closed\", grpc_status:14}\n",
			"F0929 17:42:48.594200 1044529 client.h:77] Terminating process because the JAX distributed service detected fatal errors."},
		"a page's address": {"rows.csv: undefined column\nhttps://errors.acme/cannot-read\n", "rows.csv: undefined column"},
		"behind a bar": {"\r 10%|# | 1/10\r 20%|## | 2/10\rERROR:train:batch 3 has 0 rows\n\r\n",
			"ERROR:train:batch 3 has 0 rows"},
	} {
		says.Equal(t, LastWords(c.log), c.want, name)
	}
}

// TestLongOutput: of a long output the last lines are read whole, and if they tell of no error, the last error record.
func TestLongOutput(t *testing.T) {
	record := "2026-11-30 12:00:00 INFO shard 17: wrote rows\n"
	many := strings.Repeat(record, 2*maxLastText/len(record))
	const damaged = "ERROR shard 16: footer is damaged"
	for name, c := range map[string][2]string{
		"an error far above":   {"2026-11-30 12:00:00 " + damaged + "\n" + many, damaged},
		"a word of the end":    {"2026-11-30 12:00:00 " + damaged + "\n" + many + "no token\n", "no token"},
		"an error that is not": {"2026-11-30 12:00:00 INFO 0 ERROR\n" + many, ""},
	} {
		got := LastWords(c[0])
		says.True(t, strings.HasSuffix(got, c[1]) && (c[1] != "" || !strings.Contains(got, "ERROR")), "%s: %s", name, got)
	}
	allocated := func(log string) float64 { return testing.AllocsPerRun(1, func() { LastWords(log) }) }
	few, all := allocated("ERROR\n"+many), allocated(strings.Repeat("ERROR\n", 200_000)+many)
	says.True(t, all < few+1000, "%.0f allocations of many records, %.0f of few", all, few)
	for cut := range record {
		says.True(t, strings.HasPrefix(lastText(many+record[:cut]), "2026-11-30"), "cut at %d: %.30s", cut, lastText(many+record[:cut]))
	}
}

// TestLastError: of a process that ended without a word to Ray, the last line about an error counts if it is among its
// last few own lines.
func TestLastError(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"a print": {":job_id:04000000\n:actor_name:Solver\nFATAL: licence expired\nbye\n",
			"FATAL: licence expired"},
		"see above": {"ERROR 04-21 10:43:16 [core.py:390] ValueError: No available memory for the cache blocks.\nERROR 04-21 10:43:16 [core.py:390] \nCRITICAL 04-21 10:43:16 [core_client.py:361] Got fatal signal from worker processes, shutting down. See stack trace above for root cause issue.\n",
			"ERROR 04-21 10:43:16 [core.py:390] ValueError: No available memory for the cache blocks."},
		"what a request returned": {"ERROR upload to s3://lake returned status 403: AccessDenied\n", "ERROR upload to s3://lake returned status 403: AccessDenied"},
		"a status of a request":   {"error: GET https://lake/v7 returned status code 503\n", "error: GET https://lake/v7 returned status code 503"},
		"a status with a reason":  {"error: tar exited with status 2: lake-7 is full\n", "error: tar exited with status 2: lake-7 is full"},
		"a status alone":          {"error: command returned non-zero exit status 1.\nERROR: a.py exits with return code = 1\n", ""},
		"long ago":                {"error: retrying\n" + strings.Repeat("step is done\n", 9), ""},
		"nothing":                 {":job_id:04000000\nloading\n", ""},
		"Ray's own":               {"loading\n[2026-11-25 23:05:20,927 E 336 336] core_worker.cc:12: failed to connect\n", ""},
		"Ray's in Python":         {"loading\n2026-11-25 23:05:20,927\tERROR worker.py:421 -- Unhandled error\n", ""},
	} {
		says.Equal(t, LastError(c.log), c.want, name)
	}
	const plain = ":job_id:04000000\nlist of part 4: slow down\n"
	says.Equal(t, LastErrorOrLine(plain), "list of part 4: slow down", "a line of stderr without a level")
	says.Equal(t, LastErrorOrLine(plain+"- (ip=10.0.0.1, pid=7) world_rank=0\n"), "list of part 4: slow down",
		"the same line before one of Ray Train's")
	says.Equal(t, LastError(plain), "", "the same line where others do not count")
}

// TestErrorBefore: above the error that is known, or at the end, the last one that is not known counts if it is near.
func TestErrorBefore(t *testing.T) {
	const last = "fatal: could not read from the remote repository"
	for log, want := range map[string]string{
		"host: permission denied\n" + last + "\nPlease make sure that it exists.\n":                        "host: permission denied",
		"sh: nvidia-smi: command not found\nfound 0 GPUs\n":                                                "sh: nvidia-smi: command not found",
		"error: long ago\n" + strings.Repeat("step is done\n", maxLastLines) + last + "\n":                 "",
		"column vat: 3 values are negative\ncheck exited with status 1: " + last + "\nbye\n":               "column vat: 3 values are negative",
		"  File \"/app/a.py\", line 7, in load\n    raise OSError(f\"{b} failed\")\nsaved\n" + last + "\n": "",
		"cannot find b\n#7 error: " + last + "\n" + last + "\n":                                            "cannot find b",
		"WARNING:root:blender ended with -9\nsaved\n" + last + "\n":                                        "WARNING:root:blender ended with -9",
		"WARNING:absl:keras.losses is deprecated\nsaved\n" + last + "\n":                                   "",
		"WARNING:root:could not reach a\n" + strings.Repeat("saved\n", maxLastLines) + last + "\n":         "",
		"cannot find b\n" + strings.Repeat("WARNING:root:could not reach a\n", maxLastLines) + last + "\n": "WARNING:root:could not reach a",
		"loading\n" + last + "\n": "",
	} {
		says.Equal(t, ErrorBefore(log, "Job a failed: "+last), want, "%.60q", log)
	}
	long := "cannot find b in " + strings.Repeat("/etc/perl ", MaxTitle/5) + "\n"
	says.Equal(t, ErrorBefore(long, "Job a failed: "+LastWords(long)), "",
		"a line that a title has up to its limit is told again")
}

// TestSaidByWorkers: the last error that a worker printed counts, none of Ray's own actors, and a wait or a plain line
// only if it is asked for and there is no error. A warning of an error counts if there is no error, too.
func TestSaidByWorkers(t *testing.T) {
	noOthers := func(string) bool { return false }
	const waits, fails = "\x1b[36m(f pid=7)\x1b[0m waiting for the lock of table a\n", "\x1b[36m(f pid=7)\x1b[0m error: batch 3 has 0 rows\n"
	for _, c := range []struct {
		log    string
		orElse func(string) bool
		want   string
	}{
		{fails + waits + "\x1b[36m(Controller pid=9)\x1b[0m error: it failed\n", AboutWaits, "error: batch 3 has 0 rows"},
		{waits + "\x1b[36m(f pid=7)\x1b[0m loaded\n", AboutWaits, "waiting for the lock of table a"},
		{waits, noOthers, ""},
		{"\x1b[36m(ServeReplica:news:Digest f pid=7)\x1b[0m INFO 2026-11-27 14:18:09,777 news_Digest bh6a eecd -- GET /news CANCELLED 3013.5ms\n", AboutWaits, "INFO 2026-11-27 14:18:09,777 news_Digest bh6a eecd -- GET /news CANCELLED 3013.5ms"},
		{"\x1b[36m(f pid=7)\x1b[0m Unknown encoder 'libx265'\n\x1b[36m(f pid=7)\x1b[0m bye\n", noOthers, "Unknown encoder 'libx265'"},
		{"\x1b[36m(f pid=7)\x1b[0m WARNING:root:tenant 9 failed\n\x1b[36m(f pid=7)\x1b[0m loaded\n", noOthers, "WARNING:root:tenant 9 failed"},
		{"\x1b[36m(f pid=7)\x1b[0m WARNING:root:tenant 9 failed\n" + fails, noOthers, "error: batch 3 has 0 rows"},
		{"\x1b[36m(f pid=7)\x1b[0m acme.RowError: 1 row is wrong:\n\x1b[36m(f pid=7)\x1b[0m   price is no number\n\x1b[36m(f pid=7)\x1b[0m\n", noOthers,
			"acme.RowError: 1 row is wrong: price is no number"},
		{"\x1b[36m(f pid=7)\x1b[0m ConfigError: 1 validation error for Config\n\x1b[36m(g pid=8)\x1b[0m part 2\n\x1b[36m(f pid=7)\x1b[0m lr\n\x1b[36m(f pid=7)\x1b[0m   Input should be a number\n", noOthers,
			"ConfigError: 1 validation error for Config lr Input should be a number"},
		{"\x1b[36m(f pid=7)\x1b[0m Error: no index\n\x1b[36m(f pid=7)\x1b[0m \n\x1b[36m(f pid=7)\x1b[0m Caused by:\n\x1b[36m(f pid=7)\x1b[0m     0: no block 7\n\x1b[36m(f pid=7)\x1b[0m     1: checksum differs\n", noOthers,
			"Error: no index, caused by: checksum differs"},
		{strings.Replace(fails, "f", "Map(f)", 1), noOthers, "error: batch 3 has 0 rows"},
		{"\x1b[36m(f pid=7)\x1b[0m quota of eu-2 is 0\n\x1b[36m(Controller pid=9)\x1b[0m it scales\n", Plain, "quota of eu-2 is 0"},
		{fails + "\x1b[36m(f pid=7)\x1b[0m loaded\n", Plain, "error: batch 3 has 0 rows"},
		{"\x1b[36m(f pid=7)\x1b[0m WARNING:root:v7 is in quarantine\n\x1b[36m(f pid=7)\x1b[0m 2026-11-27 10:00:00,002 INFO a.py:1 - GET /score 503\n", Plain, "WARNING:root:v7 is in quarantine"},
		{"\x1b[36m(f pid=7)\x1b[0m geo.acme.example did not answer in 2 s\n\x1b[36m(f pid=7)\x1b[0m loaded\n", noOthers, "geo.acme.example did not answer in 2 s"},
	} {
		who, said, _ := SaidByWorkers(c.log, "", func(class string) bool { return class == "Controller" }, false, noOthers, c.orElse)
		says.True(t, said == c.want && strings.Contains(who, "f") == (said != ""), "%q: %q of %q, want %q", c.log, said,
			who, c.want)
	}
}

// TestSaidFirst: of an error that one worker raised and others passed on, the one that said it first is named.
func TestSaidFirst(t *testing.T) {
	const log = "\x1b[36m(ServeReplica:shop:Ranker pid=7)\x1b[0m ZeroDivisionError: division by zero\n" +
		"\x1b[36m(ServeReplica:shop:Front pid=8)\x1b[0m ZeroDivisionError: division by zero\n"
	who, said, _ := SaidByWorkers(log, "", func(string) bool { return false }, false)
	says.Equal(t, who, "ServeReplica:shop:Ranker")
	says.Equal(t, said, "ZeroDivisionError: division by zero")
}

// TestLastWarning: the last warning counts, however plain what followed was.
func TestLastWarning(t *testing.T) {
	const warned = "WARNING 0 rows matched region=emea"
	for log, want := range map[string]string{
		"WARNING 9 rows are old\n" + warned + "\nfitting\n": warned,
		"fitting\nfitted\n": "",
	} {
		says.Equal(t, LastWarning(log), want, "%q", log)
	}
}

// TestSaidByWorkersNext: what is asked for first counts before what is asked for next, wherever it stands.
func TestSaidByWorkersNext(t *testing.T) {
	const log = "\x1b[36m(f pid=7)\x1b[0m quota of eu-2 is 0\n\x1b[36m(f pid=7)\x1b[0m loaded\n"
	ofQuota := func(line string) bool { return strings.Contains(line, "quota") }
	noOne := func(string) bool { return false }
	if _, said, nth := SaidByWorkers(log, "", noOne, false, noOne, noOne, ofQuota, Plain); said != "quota of eu-2 is 0" || nth != 2 {
		t.Errorf("%q, %d", said, nth)
	}
	if _, said, nth := SaidByWorkers(log, "quota of eu-2 is 0", noOne, false, noOne, noOne, ofQuota, Plain); said != "loaded" || nth != 3 {
		t.Errorf("%q, %d", said, nth)
	}
	const fails = "\x1b[36m(g pid=8)\x1b[0m error: it is late\n"
	if who, said, nth := SaidByWorkers(log+fails, "", noOne, false, ofQuota); who != "f" || said != "quota of eu-2 is 0" || nth != 0 {
		t.Errorf("what comes before all: %q, %d", said, nth)
	}
}

// TestToldByWorkers: what a worker printed of an exception that is known, with its module before it, is not told again.
func TestToldByWorkers(t *testing.T) {
	const known = "Train run a failed: rank 0 raised JSONDecodeError: Expecting value: line 1 column 34 (char 33)"
	noOne := func(string) bool { return false }
	for line, want := range map[string]string{
		"json.decoder.JSONDecodeError: Expecting value: line 1 column 34 (char 33)": "",
		"json.decoder.JSONDecodeError: Expecting value: line 1 column 35 (char 34)": "json.decoder.JSONDecodeError: Expecting value: line 1 column 35 (char 34)",
	} {
		if _, said, _ := SaidByWorkers("\x1b[36m(f pid=7)\x1b[0m "+line+"\n", known, noOne, false); said != want {
			t.Errorf("%q: %q", line, said)
		}
	}
}

// TestCrashOfLines: a crash whose message has several lines says them all.
func TestCrashOfLines(t *testing.T) {
	dump := strings.Repeat("goroutine 7 [running]:\nmain.main()\n\t/app/main.go:12 +0x1d\n\n", 20000)
	for text, want := range map[string]string{
		"Exception in thread \"main\" java.lang.IllegalStateException: invalid keys:\n - lr\n - steps\n\tat a.B.c(B.java:3)\n": "java.lang.IllegalStateException: invalid keys: - lr - steps",
		"Exception in thread \"main\" a.E: x\n\tat a.B.c(B.java:3)\nCaused by: a.F: \n lr is missing\n\tat a.B.d(B.java:4)\n":  "a.F: lr is missing",
		"panic: invalid keys:\n\tlr\n\n" +
			dump: "panic: invalid keys: lr",
		"/app/a.js:3\n  throw e\n  ^\n\nError: invalid keys:\n - lr\n    at f (/app/a.js:3:9)\n": "Error: invalid keys: - lr",
		"fatal error: all goroutines are asleep - deadlock!\n\n" +
			dump: "fatal error: all goroutines are asleep - deadlock!",
	} {
		if got, _ := Crash(text); got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

// group is what Python 3.11 prints of a group of exceptions, with those inside.
func group(name string, inside ...string) string {
	text := "  + Exception Group Traceback (most recent call last):\n  |   File \"/app/job.py\", line 9, in main\n  |     async with asyncio.TaskGroup() as g:\n  |                ^^^^\n" +
		"  | ExceptionGroup: " + name + " (2 sub-exceptions)\n"
	for i, e := range inside {
		first := "    +---------------- 2 ----------------\n"
		if i == 0 {
			first = "  +-+---------------- 1 ----------------\n"
		}
		text += first
		for line := range strings.Lines(e) {
			switch own := strings.TrimPrefix(strings.TrimPrefix(line, "  | "), "  + "); {
			case own != line: // of a group in the group
				text += "    | " + own
			case strings.HasPrefix(line, "  +-+--") || strings.HasPrefix(line, "    | ") ||
				strings.HasPrefix(line, "    +--"):
				text += "  " + line
			default:
				text += "    | " + line
			}
		}
	}
	return text + "    +------------------------------------\n"
}

func raisedText(what string) string {
	return "Traceback (most recent call last):\n  File \"/app/job.py\", line 7, in load\n    raise it\n    ^^^^^^^^\n" +
		what + "\n"
}

// TestGroups: a group is about the exceptions in it, however deep.
func TestGroups(t *testing.T) {
	missing, torn := raisedText("ValueError: shard 3 is missing"), raisedText("mod.TornError: shard 4 is torn")
	chained := raisedText("KeyError: 'a'") + "\n" + directCause + "\n\n" + raisedText("OSError: b")
	for name, c := range map[string]struct {
		text, want string
		more       int
	}{
		"one": {group("unhandled errors in a TaskGroup", missing), "ValueError: shard 3 is missing", 0},
		"two": {group("unhandled errors in a TaskGroup", missing, torn), "ValueError: shard 3 is missing",
			1},
		"as Ray has it": {strings.TrimSpace(group("unhandled errors in a TaskGroup", missing, torn)),
			"ValueError: shard 3 is missing", 1},
		"nested":         {group("outer", group("inner", torn), missing), "TornError: shard 4 is torn", 1},
		"chained inside": {group("outer", chained), "KeyError: 'a'", 0},
		"not raised":     {group("outer", "ValueError: never raised\n"), "ValueError: never raised", 0},
		"with a note":    {group("outer", missing+"a note: Error: x\n"), "ValueError: shard 3 is missing", 0},
		"in a task's error": {"ray.exceptions.RayTaskError(ExceptionGroup): ray::gather() (pid=1, ip=10.0.0.1)\n" +
			group("x", torn), "TornError: shard 4 is torn", 0},
		"coloured": {strings.ReplaceAll(group("x", missing), "ValueError", "\x1b[1;35mValueError\x1b[0m"),
			"ValueError: shard 3 is missing", 0},
		"behind a progress bar": {"\repoch: 50%|###  | 1/2 [00:01<00:01]" + group("x", torn), "TornError: shard 4 is torn", 0},
		"empty": {"  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: x (1 sub-exception)\n",
			"ExceptionGroup: x (1 sub-exception)", 0},
	} {
		if got := ExceptionOf(c.text); got.String() != c.want || got.More != c.more {
			t.Errorf("%s: %q and %d more, want %q and %d:\n%s", name, got.String(), got.More, c.want, c.more, c.text)
		}
		last, at := LastTraceback("before\n" + c.text + "after\n")
		if got := ExceptionOf(last); name != "coloured" && (got.String() != c.want || at < 0) {
			t.Errorf("%s in a log: %q at %d", name, got.String(), at)
		}
	}
}

// TestCrash: what the runtimes of other languages print when an error ends a program.
func TestCrash(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"Java":            {"Exception in thread \"main\" java.lang.IllegalStateException: no rows\n\tat com.x.Main.main(Main.java:5)\n", "java.lang.IllegalStateException: no rows"},
		"Java, caused by": {"Exception in thread \"main\" java.lang.RuntimeException\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: disk is full\n\tat a.B.d(B.java:2)\n\t... 5 more\n", "java.io.IOException: disk is full"},
		"glibc":           {"double free or corruption (!prev)\nAborted (core dumped)\n", "double free or corruption (!prev)"},
		"C":               {"app: rows.c:12: int main(): Assertion `rows > 0' failed.\nAborted\n", "Assertion `rows > 0' failed."},
		"a check of Ray":  {"[2026-11-22 10:00:00,123 C 12 12] (raylet) store.cc:12:  Check failed: size > 0\n", "Check failed: size > 0"},
		"a bug of Ray": {"[2026-11-22 10:00:00,123 C 12 12] (raylet) store.cc:12:  An unexpected system state has occurred. You have likely discovered a bug in Ray. Please report this issue at https://github.com/ray-project/ray/issues and we'll work with you to fix it. Check failed: !obj.Sealed() \n*** StackTrace Information ***\n",
			"Check failed: !obj.Sealed()"},
		"Ray's GCS": {"[2026-11-22 10:00:00,123 C 12 12] (gcs_server) redis_context.cc:345: Failed to run redis cmds: [HGET RAY] for 10 times.\n*** StackTrace Information ***\n",
			"Failed to run redis cmds: [HGET RAY] for 10 times."},
		"Ray's core": {"[2026-11-22 10:00:00,123 C 12 12] core_worker_process.cc:226: Failed to get the system config from Raylet on time unexpectedly.\n[2026-11-22 10:00:00,123 E 12 12] logging.cc:497: *** SIGABRT received at time=1 on cpu 0 ***\n",
			"Failed to get the system config from Raylet on time unexpectedly."},
		"Ray tries again": {"[2026-11-22 10:00:00,123 E 12 12] (gcs_server) redis_context.cc:312: Redis request [HGET] failed due to error: C 1 1, 9 retries left.\n", ""},
		"a check of glog": {"F20261122 10:00:00.123456 12 store.cc:12] Check failed: size > 0\n", "Check failed: size > 0"},
		"Go":              {"panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:5 +0x1d\nexit status 2\n", "panic: runtime error: index out of range [3] with length 3"},
		"Rust":            {"\nthread 'main' panicked at src/main.rs:4:5:\nno shard 3\nnote: run with `RUST_BACKTRACE=1`\n", "panicked at: no shard 3"},
		"old Rust":        {"thread 'main' panicked at 'no shard 3', src/main.rs:4:5\n", "panicked at: no shard 3"},
		"C++":             {"terminate called after throwing an instance of 'std::runtime_error'\n  what():  no shard 3\n", "std::runtime_error: no shard 3"},
		"Node":            {"/a.js:1\nthrow new TypeError('x')\n^\n\nTypeError: no shard 3\n    at Object.<anonymous> (/a.js:1:7)\n\nNode.js v20.20.2\n", "TypeError: no shard 3"},
		"Julia":           {"ERROR: LoadError: no shard 3\nStacktrace:\n [1] error(s::String)\n   @ Base ./error.jl:35\nin expression starting at a.jl:1\n", "ERROR: no shard 3"},
		"R":               {"Error in f(3) : no shard 3\nCalls: f\nExecution halted\n", "Error: no shard 3"},
		".NET":            {"Unhandled exception. System.InvalidOperationException: no shard 3\n   at A.B() in a.cs:line 1\n", "InvalidOperationException: no shard 3"},
		"Ruby": {"a.rb:1:in 'f': no shard 3 (RuntimeError)\n\tfrom a.rb:2:in '<main>'\n",
			"no shard 3: RuntimeError"},
		"a check of TensorFlow": {"2025-02-02 08:01:40.527296: F tensorflow/tsl/platform/default/env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread tf_data_private_threadpool creation via pthread_create() failed.\nFatal Python error: Aborted\n",
			"Check failed: ret == 0 (11 vs. 0)Thread tf_data_private_threadpool creation via pthread_create() failed."},
		"C++, as Ray tells it": {"[2025-02-03 10:34:03,841 E 4954 6881] logging.cc:101: Unhandled exception: N3c1016DistBackendErrorE. what(): [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: timeout\n",
			"DistBackendError: [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: timeout"},
		"Java's virtual machine": {"#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0x7f, pid=1, tid=2\n#\n# Problematic frame:\n# C  [libxgboost4j.so+0x7783d]  XGBoosterPredict+0x3d\n",
			"Problematic frame: C  [libxgboost4j.so+0x7783d]  XGBoosterPredict+0x3d"},
		"none": {"panicking is not needed\nError rate: 3\n", ""},
	} {
		if got, _ := Crash("started\n" + c.log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := LastWords(c.log); c.want != "" && got != c.want {
			t.Errorf("%s: last words %q", name, got)
		}
	}
}

// TestWithoutFrames: no line of a traceback that says where becomes a title.
func TestWithoutFrames(t *testing.T) {
	for text, want := range map[string]string{
		"it failed": "it failed",
		"User exception:\n  File \"a.py\", line 1, in f\n    return x\n           ^\nwhat it was":                                     "User exception: what it was",
		"  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1\n  |     return f()\n  |            ^^^": "",
		"lost:\n\tat com.x.Main.main(Main.java:5)\n\t... 3 more\n":                                                                    "lost:",
		"x\n    at f (/a.js:1:2)\n":               "x",
		"Traceback (most recent call last):\nbad": "bad",
		"a\n\n  b indented":                       "a b indented",
	} {
		says.Equal(t, FirstSentence(text), want, "%q", text)
	}
}

// TestEndsInError: only the last line of a program's own counts.
func TestEndsInError(t *testing.T) {
	for log, want := range map[string]bool{
		"error: ledger is locked\n":                               true,
		"error: ledger is locked\n\x1b[36m(f pid=7)\x1b[0m bye\n": true,
		"error: ledger is locked\nusing the one of yesterday\n":   false,
		"saved, errors: 0\n":                                      false,
		"":                                                        false,
	} {
		says.Equal(t, EndsInError(log), want, "%q", log)
	}
}

// TestLogsError: a record at level error counts if it says more than with which status a process failed.
func TestLogsError(t *testing.T) {
	for text, want := range map[string]bool{
		"ERROR:root:upload returned status 403: AccessDenied\n":                                     true,
		"ERROR:root:tar exited with status 2: lake-7 is full\n":                                     true,
		"ERROR:root:tar exited with status 2\n":                                                     false,
		"ERROR:api:failed (exitcode: 1) local_rank: 0 (pid: 2) of binary: /python\n":                false,
		"[2024-03-20 20:31:29,269] [ERROR] [launch.py:321:f] ['a.py'] exits with return code = 1\n": false,
		"INFO:root:tar failed\n": false,
	} {
		says.Equal(t, LogsError(text), want, "%q", text)
	}
}

// TestBeforeSignal: what shells and runtimes print of a signal is left out, and not what a program says of itself.
func TestBeforeSignal(t *testing.T) {
	for line, kept := range map[string]bool{
		"Aborted":                                        false,
		"Aborted (core dumped)":                          false,
		"Killed      python a.py":                        false,
		"run.sh: line 28:  1058 Killed python a.py":      false,
		"Fatal Python error: Aborted":                    false,
		"Aborted: manifest of v7 is corrupt":             true,
		"Killed by quota controller: volume lake-7 full": true,
		"Caused by: quota of lake-7 exceeded":            true,
		"run.sh: line 28:  1058 rows are bad":            true,
	} {
		want := "loading"
		if kept {
			want += "\n" + line
		}
		says.Equal(t, BeforeSignal("loading\n"+line+"\n\n"), want)
	}
}
