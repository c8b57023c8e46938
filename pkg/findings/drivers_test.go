package findings

import (
	"cmp"
	"testing"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// TestOfProcess: only an exception that says that a process failed is replaced by the one that this process raised.
func TestOfProcess(t *testing.T) {
	const trace, handled = "Traceback (most recent call last):\n  File \"/app/a.py\", line 7, in f\n    f()\n", "ValueError: bad row 3"
	for raised, want := range map[string]string{
		"subprocess.CalledProcessError: Command 'b' died with <Signals.SIGKILL: 9>.":                  handled,
		"concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated.": handled,
		"ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.":  "",
		"RuntimeError: timed out waiting for the warehouse":                                           "",
		"ConnectionResetError: [Errno 104] Connection reset by peer":                                  "",
	} {
		log := &logText{text: trace + handled + "\nretrying\n" + trace + raised + "\n"}
		e := driverEndOf(&job{}, log)
		if want = cmp.Or(want, output.ExceptionOf(trace+raised).String()); e.raised.String() != want {
			t.Errorf("%s: %q, want %q", raised, e.raised, want)
		}
	}
}

// TestNamesJob: the name of another job is no word that only looks like it.
func TestNamesJob(t *testing.T) {
	for text, want := range map[string]bool{
		"could not train the model": false, "train failed": false, "train.py failed": false, "job train failed": true,
		"'train' failed": true, "train: FAILED": true, "train-2 failed": false,
	} {
		if namesJob(text, "train") != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	if !namesJob("train-2 failed", "train-2") || namesJob("train-2-retry failed", "train-2") || namesJob("1 of 3 failed", "1") || namesJob("job  failed", "") {
		t.Error("an ID with a digit is one, and one of a few letters is none")
	}
}

// TestMisses: a task that found nothing lacks what a task of that name should have brought, and of no other.
func TestMisses(t *testing.T) {
	other := &finding{Finding: Finding{Kind: TaskFailed}, names: []string{"fetch_rates"}}
	for message, want := range map[string]bool{
		"no rates to revalue with": true, "No space left on device": false, "No CUDA GPUs are available": false,
		"the rates are old": false,
	} {
		f := &finding{Finding: Finding{Kind: TaskFailed},
			raised: output.Exception{Type: "ValueError", Message: message}}
		if f.misses(other) != want || f.mayFollowOthers(other) {
			t.Errorf("%q: %v", message, !want)
		}
	}
}
