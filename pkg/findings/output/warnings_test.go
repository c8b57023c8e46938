package output

import "testing"

import "github.com/rayhistory/historyserver/internal/testkit/says"

// TestWarningAbout: a warning of Python is told only if it explains the exception.
func TestWarningAbout(t *testing.T) {
	const (
		old     = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
		place   = "/v/torch/cuda/__init__.py:180: UserWarning: "
		numpy   = "A NumPy version >=1.17.3 and <1.25.0 is required for this version of SciPy (detected version 2.0.1)"
		sklearn = "Trying to unpickle estimator RandomForestClassifier from version 1.2.2 when using version 1.5.0."
	)
	for _, c := range []struct {
		log  string
		e    Exception
		want string
	}{
		{place + old + " Please update it.\n  return f()\nloading\n", Exception{Type: "ValueError", Message: "fp16 requires a GPU"}, old},
		{"\x1b[36m(fit pid=7)\x1b[0m " + place + old + "\n", Exception{Type: "RuntimeError", Message: "No CUDA GPUs are available"}, old},
		{place + old + "\n", Exception{Type: "KeyError", Message: "'labels'"}, ""},
		{"a.py:3: UserWarning: " + numpy + "\n", Exception{Type: "ImportError", Message: "numpy.core.multiarray failed to import"}, numpy},
		{"a.py:3: UserWarning: " + numpy + "\n", Exception{Type: "ImportError", Message: "No module named 'torch'"}, ""},
		{"a.py:3: InconsistentVersionWarning: " + sklearn + "\n",
			Exception{Type: "AttributeError", Message: "'RandomForestClassifier' object has no attribute 'monotonic_cst'"}, sklearn},
		{"a.py:3: InconsistentVersionWarning: " + sklearn + "\n", Exception{Type: "OSError", Message: "RandomForestClassifier.pkl is torn"}, ""},
		{"a.py:3: DeprecationWarning: torn is deprecated\n", Exception{Type: "ValueError", Message: "torn"}, ""},
		{"the CUDA driver is too old\n", Exception{Type: "RuntimeError", Message: "no GPU"}, ""},
	} {
		says.Equal(t, WarningAbout(c.log, c.e), c.want, "%q, %s", c.log, c.e)
	}
}
