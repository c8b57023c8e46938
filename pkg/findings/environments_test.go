package findings

import "testing"

// TestEnvReason: what a program says that pip ran is the reason, not that pip ran it.
func TestEnvReason(t *testing.T) {
	const pip = "Last 50 lines of stdout:\n    Collecting flash-attn\n"
	for said, want := range map[string]string{
		pip + "      error: subprocess-exited-with-error\n\n      × python setup.py egg_info did not run successfully.\n      │ exit code: 1\n      ╰─> [6 lines of output]\n" +
			"          Traceback (most recent call last):\n            File \"setup.py\", line 9, in <module>\n          ModuleNotFoundError: No module named 'torch'\n          [end of output]\n" +
			"    error: metadata-generation-failed\n": "ModuleNotFoundError: No module named 'torch'",
		pip + "      fatal: unable to access 'https://git.example/a.git/': 403\n      error: subprocess-exited-with-error\n      × git clone --quiet https://git.example/a.git did not run successfully.\n": "fatal: unable to access 'https://git.example/a.git/': 403",
		pip + "    ERROR: No matching distribution found for acme==1\n":                                 "ERROR: No matching distribution found for acme==1",
		pip + "      error: subprocess-exited-with-error\n      × setup.py did not run successfully.\n": "error: subprocess-exited-with-error",
	} {
		if got := envReason(said); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
