package output

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestLastTraceback(t *testing.T) {
	const chained = "Traceback (most recent call last):\n  x\nKeyError: 'a'\n\n" + directCause +
		"\n\nTraceback (most recent call last):\n  y\nOSError: b\n"
	log := "Traceback (most recent call last):\n  old\nValueError: handled\nnext\n" + chained
	if got, at := LastTraceback(log); got != chained || log[at:] != chained {
		t.Errorf("got %q", got)
	}
	const simplified = "jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames.\n\n" + directCause + "\n\n" + TracebackStart + "\n  File \"a.py\", line 1, in <module>\nXlaRuntimeError: full\n"
	if got, _ := LastTraceback(log + simplified); got != simplified || ExceptionOf(got).String() != "XlaRuntimeError: full" {
		t.Errorf("got %q, of a cause without a traceback", got)
	}
	if got, at := LastTraceback("no line starts with it: " + TracebackStart); at >= 0 {
		t.Errorf("got %q", got)
	}
}

// TestBehind: what a program printed after its exception begins behind the exception's last text.
func TestBehind(t *testing.T) {
	e := Exception{Type: "RuntimeError", Message: "no heartbeat"}
	text := TracebackStart + "\n    raise RuntimeError(\"no heartbeat\")\nRuntimeError: no heartbeat\nbye\n"
	says.Equal(t, Behind(text, e), "\nbye\n")
	text = TracebackStart + "\nRuntimeError: Task <Task pending coro=f()> is gone" + strings.Repeat(".", MaxMessage) + "\nbye\n"
	says.Equal(t, Behind(text, ExceptionOf(text)), "\nbye\n", "behind a long message")
	text = TracebackStart + "\nRuntimeError: Loading … failed\nLoading the next one\nbye\n"
	if got := Behind(text, ExceptionOf(text)); got != "\nLoading the next one\nbye\n" {
		t.Errorf("%q behind a message with an ellipsis of its own", got)
	}
	if e.Message = "another"; Behind(text, e) != "" {
		t.Errorf("%q behind a message that is not there", Behind(text, e))
	}
}

// TestHandled: what a program itself handled counts, and not what a task had handled, of which Ray copies the
// traceback.
func TestHandled(t *testing.T) {
	const first = TracebackStart + "\n  File \"a.py\", line 3, in <module>\nOSError: torn\n\n" + whileHandling + "\n\n"
	const last = "\n  File \"a.py\", line 5, in <module>\nValueError: not closed\n"
	if e := Handled(first + TracebackStart + last); e.String() != "OSError: torn" {
		t.Errorf("%q was handled", e)
	}
	for _, none := range []string{TracebackStart + last, first + "ray::f() (pid=7, ip=10.0.0.1)" + last} {
		if e := Handled(none); e.Type != "" {
			t.Errorf("%q was handled in %q", e, none)
		}
	}
}

// TestCleaningFailed: what a library raised below the function that handled an exception is of its cleaning up; what that
// function raised itself, or a program below a function of its own, says what went wrong in other words.
func TestCleaningFailed(t *testing.T) {
	traceback := func(frames ...string) string {
		text := TracebackStart + "\n"
		for _, f := range frames {
			file, function, _ := strings.Cut(f, ":")
			text += "  File \"" + file + "\", line 7, in " + function + "\n    x()\n"
		}
		return text + "ValueError: no\n\n"
	}
	const tune, actors = "/v/site-packages/ray/tune/tune.py:run", "/v/site-packages/ray/air/actors.py:schedule"
	for _, c := range []struct {
		handled, last      []string
		cleaning, reworded bool
	}{
		{[]string{tune, actors}, []string{"app.py:<module>", tune, actors}, true, false},
		{[]string{tune, actors}, []string{"app.py:<module>", tune}, false, false},
		{[]string{tune, actors}, []string{"app.py:<module>", actors}, false, false},
		{[]string{"app.py:load", actors}, []string{"app.py:load", actors}, false, false},
		{[]string{"app.py:load", actors}, []string{"app.py:<module>", "app.py:load"}, false, true},
	} {
		text := traceback(c.handled...) + whileHandling + "\n\n" + traceback(c.last...)
		if cleaning, reworded := CleaningFailed(text), Reworded(text); cleaning != c.cleaning || reworded != c.reworded {
			t.Errorf("%v, then %v: %v, %v", c.handled, c.last, cleaning, reworded)
		}
	}
	if text := traceback(tune, actors); CleaningFailed(text) || Reworded(text) {
		t.Error("nothing was handled")
	}
}

// TestHostileLogs: the time to find a traceback grows with the log, not with its square. A search that looks at the
// rest of a line, or of the log, for each of the tracebacks in it takes longer for these logs than a test may.
func TestHostileLogs(t *testing.T) {
	for name, line := range map[string]string{
		"exception groups without a name": "Exception Group Traceback (most recent call last):\n",
		"groups in a margin":              "    | Exception Group Traceback (most recent call last):\n",
		"tracebacks in one line":          TracebackStart,
		"… after progress bars":           TracebackStart + "\r",
		"… in JSON":                       TracebackStart + `\n`,
		"tracebacks in messages":          "it said " + TracebackStart + "\n",
		"those of destructors":            "Exception ignored in: f\n" + TracebackStart + "\n",
		"causes of destructors":           "Exception ignored in: f: " + directCause + "\n" + TracebackStart + "\n",
		"copied from workers": "(raylet) " + TracebackStart + "\n" + frame + "\n" + whileHandling + "\n\n" +
			TracebackStart + "\n",
		"causes of causes": TracebackStart + "\n" + frame + "\nValueError: boom\n\n" + directCause + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			size := 1 << 20
			if !strings.HasSuffix(line, "\n") {
				size = 8 << 20
			}
			log := strings.Repeat(line, size/len(line)) + "ValueError: last\n"
			if text, at := LastTraceback(log); at >= 0 && !strings.HasSuffix(text, "ValueError: last\n") {
				t.Errorf("a traceback of %d bytes at %d, which is not the last", len(text), at)
			}
		})
	}
}

// TestMargin: without what a launcher put before each line, a traceback is as it was printed.
func TestMargin(t *testing.T) {
	raised := TracebackStart + "\n  File \"case.py\", line 1, in <module>\n    f()\n\nValueError: boom\n"
	for _, margin := range []string{"[rank0]: ", "worker-1|", "0:  "} {
		printed := margin + strings.ReplaceAll(strings.TrimSuffix(raised, "\n"), "\n", "\n"+margin) + "\n"
		trimmed := strings.ReplaceAll(printed, margin+"\n", strings.TrimRight(margin, " ")+"\n")
		for _, lines := range []string{printed, trimmed} {
			if text, at := LastTraceback("started\n" + lines); text != raised || at != len("started\n") {
				t.Errorf("behind %q: %q at %d", margin, text, at)
			}
		}
	}
}

// TestCopiedTraceback: the traceback that ended a driver is told, not a later one of a worker that Ray copied to the
// driver's log. Of its tracebacks only the first begins with the worker's name.
func TestCopiedTraceback(t *testing.T) {
	raised := "Traceback (most recent call last):\n  File \"case.py\", line 123, in <module>\n    print(ray.get(load.remote(1)))\nray.exceptions.OutOfDiskError: Local disk is full\n"
	copied := "\x1b[33m(raylet)\x1b[0m Traceback (most recent call last):\n  File \"external_storage.py\", line 347, in spill_objects\n" +
		"OSError: [Errno 28] No space left on device\n\n" + whileHandling + "\n\n" +
		"Traceback (most recent call last):\n  File \"ray/_raylet.pyx\", line 2890, in ray._raylet.spill_objects_handler\nOSError: [Errno 28] No space left on device\n"
	for _, log := range []string{raised + copied, raised + strings.Repeat(copied, 3)} {
		if text, at := LastTraceback(log); at != 0 || !strings.HasPrefix(text, raised) {
			t.Errorf("the traceback at %d of\n%s", at, log)
		}
	}
	if _, at := LastTraceback(copied); at >= 0 {
		t.Errorf("a worker's traceback at %d is the driver's", at)
	}
}
