package output

import (
	"strings"
	"testing"
)

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
		"empty": {"  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: x (1 sub-exception)\n",
			"", 0},
	} {
		if got := ExceptionOf(c.text); got.String() != c.want || got.More != c.more {
			t.Errorf("%s: %q and %d more, want %q and %d:\n%s", name, got.String(), got.More, c.want, c.more, c.text)
		}
		if got, at := LastGroup("before\n" + c.text + "after\n"); c.want != "" && name != "coloured" &&
			(got.String() != c.want || at < 0) {
			t.Errorf("%s in a log: %q at %d", name, got.String(), at)
		}
	}
}

// TestCrash: what the runtimes of other languages print when an error ends a program.
func TestCrash(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"Java":            {"Exception in thread \"main\" java.lang.IllegalStateException: no rows\n\tat com.x.Main.main(Main.java:5)\n", "java.lang.IllegalStateException: no rows"},
		"Java, caused by": {"Exception in thread \"main\" java.lang.RuntimeException\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: disk is full\n\tat a.B.d(B.java:2)\n\t... 5 more\n", "java.io.IOException: disk is full"},
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
		if got := FirstSentence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
