package output

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestNotSerialized: what could not be serialized is told with what it is a part of, as Ray's own exception has it.
func TestNotSerialized(t *testing.T) {
	const lock, lines = "TypeError: cannot pickle '_thread.lock' object", "\n======\n" +
		"Checking Serializability of <f>\n======\n"
	of := func(what, variable string) string {
		return TracebackStart + "\n  File \"/app/a.py\", line 7, in <module>\n    dumps(x)\n" + lock + directCause +
			"\n\n" +
			TracebackStart + "\n  File \"/app/a.py\", line 9, in <module>\n    main()\n" +
			"TypeError: Could not serialize " + what +
			lines + "!!! FAIL serialization: cannot pickle '_thread.lock' object\n======\nVariable: \n\n\tFailTuple(" + variable +
			" [path=x, obj=<x>, parent=<f>])\n\nwas found to be non-serializable.\n"
	}
	for text, want := range map[string]string{
		of("the actor class app.main.<locals>.Tokenizer.__init__:", "words"): lock + " " +
			"(words in the actor class app.main.<locals>.Tokenizer.__init__)",
		of("the function __main__.resize:", "db"): lock + " " +
			"(db in the function __main__.resize)",
		of("the deployment init args:", "unknown"): lock + " (the deployment init args)",
		of("", "db"): lock,
		TracebackStart + "\n  File \"/app/a.py\", line 7, in <module>\n    dumps(x)\n" + lock: lock,
	} {
		says.Equal(t, ExceptionOf(text).String(), want)
	}
}

// TestCaughtAtEnd: a signal that Ray's handler caught ended a driver, unless the driver said more behind it.
func TestCaughtAtEnd(t *testing.T) {
	const stack = "*** SIGTERM received at time=1796071770 on cpu 1 ***\nPC: @     0x7f05  (unknown)  kill\n" +
		"    @     0x7f06  (unknown)  (unknown)\n"
	const record = "[2026-11-30 20:49:30,556 E 15 15] logging.cc:474: *** " +
		"SIGTERM received at time=1796071770 on cpu 1 ***\n" +
		"[2026-11-30 20:49:30,556 E 15 15] logging.cc:474:     @     0x7f06  (unknown)  (unknown)\n"
	for log, want := range map[string]string{
		"encoding\n" + stack + record: "SIGTERM", "encoding\n" + stack: "SIGTERM", "encoding\n": "",
		"encoding\n" + stack + record + "bash: line 1:   822 Aborted                 python a.py\n":            "SIGTERM",
		"[failure_signal_handler.cc : 345] RAW: Signal 15 raised at PC=0x7f0 while already in Abs()\n" + stack: "SIGTERM",
		"encoding\n" + stack + "the child was ended, 3 parts are missing\n":                                    "",
		"encoding\n\x1b[36m(f pid=7)\x1b[0m *** SIGTERM received at time=1796071770 on cpu 1 ***\n":            "",
	} {
		says.Equal(t, CaughtAtEnd(log), want, "%s", log)
		says.Equal(t, LastWords("encoding shard 7\n"+stack+record), "encoding shard 7")
	}
}

// TestSaysNothingOfRay: Ray's heading of a task's traceback, its remark about an exception's class, and what a server
// says as its start failed are not why a program ended.
func TestSaysNothingOfRay(t *testing.T) {
	const remark = "User exception type <class 'pydantic_core.ValidationError'> " +
		"in RayTaskError can't be subclassed! This exception is raised as RayTaskError only.\n"
	says.Equal(t, LastWords(remark+"bidding was stopped\n"), "bidding was stopped")
	says.Equal(t, ErrorBefore(remark+"bidding was stopped\n", "bidding was stopped"), "")
	for _, line := range []string{"ray::Map(encode_row)() (pid=1148, ip=10.0.0.1)",
		"ERROR 2026-11-30 20:41:03,399 secrets_Secrets 23h7j8xw -- Application startup failed. Exiting."} {
		_, said, _ := SaidByWorkers(marks["f"]+line+"\n", "", func(string) bool { return false }, false, Plain)
		says.Equal(t, said, "")
	}
	says.Equal(t, Normalised("offset -3 is not in a-7"), Normalised("offset 12 is not in a-8"))
}
