package output

import "testing"

import "github.com/rayhistory/historyserver/internal/testkit/says"

// TestToolError: the exception behind which a tool printed no error, or else the last line that says why, wherever it
// is; what only says that a step failed, what succeeded and what a tool only warned of are not why.
func TestToolError(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"a.py\", line 8, in <module>\n    import ray\n"
	for name, c := range map[string]struct{ printed, want string }{
		"an exception":             {trace + "ModuleNotFoundError: No module named 'ray'\n", "ModuleNotFoundError: No module named 'ray'"},
		"of two lines":             {"LakeError: these are not there:\n- orders\n", "LakeError: these are not there: - orders"},
		"an error behind one":      {trace + "ImportError: no git\nerror: could not build acme\n", "error: could not build acme"},
		"a handled one":            {trace + "ImportError: no git\nERROR: wheel is too old\ndone\n", "ERROR: wheel is too old"},
		"only that a step failed":  {"bad.c:1:10: fatal error: nope.h is missing\ncompilation terminated.\nerror: command 'gcc' failed with exit code 1\n", "bad.c:1:10: fatal error: nope.h is missing"},
		"a step alone":             {"building\nerror: command 'gcc' failed with exit code 1\n", "error: command 'gcc' failed with exit code 1"},
		"a warning of Python":      {"/a/b.py:3: UserWarning: pkg is an error of the past\nDeprecationWarning: old\n", ""},
		"progress":                 {"Using CPython 3.11.13\nCreating virtual environment at: .venv\nInstalled 50 packages\n", ""},
		"a warning of pip":         {"WARNING: Requirement 'a.whl' looks like a filename, but the file does not exist\nProcessing a\n", ""},
		"nothing":                  {"", ""},
		"far above":                {"ERROR: acme is gone\n\nTo fix this:\n1. a\n2. b\n3. c\n4. d\n5. e\n6. f\n7. g\n", "ERROR: acme is gone"},
		"a wrapped command":        {"x.c: fatal error: y.h is missing\nerror: Command '['gcc', '-Wall',\n'-c', 'x.c']' returned non-zero\nexit status 1.\n", "x.c: fatal error: y.h is missing"},
		"what pip says of its own": {"fatal: could not read a\nerror: subprocess-exited-with-error\n\n× git clone did not run successfully.\n│ exit code: 128\n╰─> See above for output.\n\nnote: This error originates from a subprocess.\n", "fatal: could not read a"},
	} {
		says.Equal(t, ToolError(c.printed), c.want, "%s", name)
	}
}

// TestUnanswered: that pip found no version of a package has the cause that it got no answer about it.
func TestUnanswered(t *testing.T) {
	const last = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NameResolutionError(\"Failed to resolve 'index.example'\")': /simple/acme/\n"
	const none = "ERROR: Could not find a version that satisfies the requirement acme>=2 (from versions: none)\nERROR: No matching distribution found for acme>=2\n"
	const found = "ERROR: Could not find a version that satisfies the requirement acme>=2 (from versions: none)"
	for log, want := range map[string]string{
		last + none: found + ", caused by: NameResolutionError(\"Failed to resolve 'index.example'\")",
		last + "Looking in links: /wheels\n" + none: found + ", caused by: NameResolutionError(\"Failed to resolve 'index.example'\")",
		"Could not fetch URL https://index.example/acme/: There was a problem: self-signed certificate - skipping\n" + none: found + ", caused by: There was a problem: self-signed certificate",
		last + "Collecting lake\nInstalling lake\n" + none:                                                                  found,
		none: found,
	} {
		says.Equal(t, LastWords("loading\n"+log), want, "%q", log)
	}
}

// TestCausesOfUV: uv tells causes in three forms, and hints, which are none unless an index refused to answer.
func TestCausesOfUV(t *testing.T) {
	for log, want := range map[string]string{
		"error: Request failed\n  cause: Failed to fetch: `https://a`\n  cause: dns error\n":                                                                                   "error: Request failed, caused by: Failed to fetch: `https://a`: dns error",
		"error: Failed\n  cause: a is of two\n         lines\n":                                                                                                                "error: Failed, caused by: a is of two lines",
		"error: Failed\n  cause: `git fetch` (exit status: 128)\n         --- stderr\n         fatal: no host a\n":                                                             "fatal: no host a",
		"  × No solution found:\n  ╰─▶ Because a is not there, it is unsatisfiable.\n\n      hint: it is missing, as\n      wheels are required\n":                             "× No solution found: Because a is not there, it is unsatisfiable.",
		"  × No solution found:\n  ╰─▶ Because a is not there, it is unsatisfiable.\n\n      hint: An index URL (https://a) could not be\n      queried (401 Unauthorized).\n": "× No solution found: An index URL (https://a) could not be queried (401 Unauthorized).",
		"error: No solution found\n  cause: Because a is not there\n\nhint: An index URL (https://a) could not be queried (401 Unauthorized)\n":                                "error: No solution found, caused by: An index URL (https://a) could not be queried (401 Unauthorized)",
	} {
		says.Equal(t, LastWords(log), want, "%q", log)
	}
}
