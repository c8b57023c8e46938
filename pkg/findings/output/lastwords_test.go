package output

import (
	"strings"
	"testing"
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
		"Spark":            {"26/11/25 02:44:02 ERROR SparkContext: batch 3 has 0 rows\n26/11/25 02:44:02 INFO ShutdownHookManager: Shutdown hook called\n", "26/11/25 02:44:02 ERROR SparkContext: batch 3 has 0 rows"},
		"loguru, coloured": {"\x1b[32m2026-11-20 23:19:45.581\x1b[0m | \x1b[31m\x1b[1mERROR   \x1b[0m | a:f:3 - batch 3 has 0 rows\nbye\n", "2026-11-20 23:19:45.581 | ERROR    | a:f:3 - batch 3 has 0 rows"},
		"many lines after": {"CRITICAL:train:batch 3 has 0 rows\n" +
			strings.Repeat("INFO:train:worker is gone\n", 300), "CRITICAL:train:batch 3 has 0 rows"},
		"pytest":            {"E       assert 3 == 4\n\nt.py:2: AssertionError\n=== short test summary info ===\nFAILED t.py::test_join - assert 3 == 4\n1 failed, 1 passed in 0.07s\n", "FAILED t.py::test_join - assert 3 == 4"},
		"jest":              {"  ✕ joins tables: expected 4, got 3, which is invalid\n\nTests:       1 failed, 2 passed, 3 total\nTime: 2 s\n", "✕ joins tables: expected 4, got 3, which is invalid"},
		"mypy":              {"etl.py:3: error: Name \"rows\" is not defined [name-defined]\nFound 1 error in 1 file (checked 2 source files)\n", "etl.py:3: error: Name \"rows\" is not defined [name-defined]"},
		"Go's tests":        {"--- FAIL: TestJoin (0.00s)\n    join_test.go:7: cannot join\nFAIL\nFAIL\tacme/etl\t0.003s\n", "join_test.go:7: cannot join"},
		"nothing but count": {"running\n2 errors\n", "2 errors"},
		"a print of it": {"INFO:train:step 1\nerror: batch 3 has 0 rows\nINFO:train:0 errors\n",
			"error: batch 3 has 0 rows"},
		"a warning of it": {"WARNING:train:could not read batch 3\nbye\nINFO:train:saved\n",
			"WARNING:train:could not read batch 3"},
		"a print":           {"no more rows\nINFO:train:an error may follow\n" + ray, "no more rows"},
		"nothing but info":  {"INFO:train:step 1\nINFO:train:step 2\n" + ray, "INFO:train:step 2"},
		"warning over info": {"WARNING:train:step 1 is slow\nINFO:train:step 2\n", "WARNING:train:step 1 is slow"},
		"nothing but Ray":   {ray, ""},
		"behind a bar": {"\r 10%|# | 1/10\r 20%|## | 2/10\rERROR:train:batch 3 has 0 rows\n\r\n",
			"ERROR:train:batch 3 has 0 rows"},
	} {
		if got := LastWords(c.log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLastError: of a process that ended without a word to Ray, the last line about an error counts if it is among its
// last few own lines.
func TestLastError(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"a print": {":job_id:04000000\n:actor_name:Solver\nFATAL: licence expired\nbye\n",
			"FATAL: licence expired"},
		"long ago":        {"error: retrying\n" + strings.Repeat("step is done\n", 9), ""},
		"nothing":         {":job_id:04000000\nloading\n", ""},
		"Ray's own":       {"loading\n[2026-11-25 23:05:20,927 E 336 336] core_worker.cc:12: failed to connect\n", ""},
		"Ray's in Python": {"loading\n2026-11-25 23:05:20,927\tERROR worker.py:421 -- Unhandled error\n", ""},
	} {
		if got := LastError(c.log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
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
