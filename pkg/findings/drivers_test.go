package findings

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
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
		e := (&builder{}).driverEndOf(&job{}, log)
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
		says.Equal(t, namesJob(text, "train"), want, "%q: %v", text, !want)
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
		says.True(t, f.missesResultOf(other) == want && !f.mayFollowOthers(other), "%q: %v", message, !want)
	}
}

// TestEndedWith: a driver ended with its node only if it raised an exception about a connection, and not long after.
func TestEndedWith(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 15, 0, 0, time.UTC).UnixNano()
	lost := &finding{first: at, last: at}
	for _, c := range []struct {
		log, raised, message string
		want                 bool
	}{
		{"", "ConnectionResetError", "[Errno 104] Connection reset by peer", true},
		{"", "RpcError", "unavailable", true},
		{"", "OSError", "connection was lost", true},
		{"2026-11-22 10:15:09,000 INFO step 7\n", "BrokenPipeError", "[Errno 32] Broken pipe", true},
		{"2026-11-22 10:15:19,000 INFO step 7\n", "BrokenPipeError", "[Errno 32] Broken pipe", false},
		{"", "KeyError", "'connector'", false},
		{"", "ValueError", "no connection string", false},
	} {
		e := &driverEnd{log: &logText{text: c.log}, raised: output.Exception{Type: c.raised, Message: c.message}}
		if b := (&builder{}); b.endedWith(lost, e) != c.want || b.endedWith(nil, e) {
			t.Errorf("%q, %s: %v", c.log, e.raised, !c.want)
		}
	}
}

// TestAlsoNames: a line names a thing of an exception's message: no number, no attribute, and of a file that is not
// there also its folder.
func TestAlsoNames(t *testing.T) {
	const noFile = "[Errno 2] No such file or directory: '/data/shop/day-7.csv'"
	for _, c := range []struct {
		raised, message, line string
		want                  bool
	}{
		{"ValueError", "checksum of part 3 is 45", "short write of part 3", true},
		{"ValueError", "gave up after 300 s", "saved after 300 rows", false},
		{"ValueError", "bad row at line 12", "line 12 is read", false},
		{"RuntimeError", "diverged in epoch 12", "epoch 12 is over", false},
		{"OSError", "[Errno 28] disk is full", "Errno 28 is retried", false},
		{"KeyError", "'margin'", "margin left out", true},
		{"TypeError", "'margin' is not callable", "margin left out", false},
		{"FileNotFoundError", noFile, "/data/shop/day-7.csv was not written", true},
		{"FileNotFoundError", noFile, "day-7.csv is skipped", true},
		{"FileNotFoundError", noFile, "bucket of /data/shop is suspended", true},
		{"FileNotFoundError", noFile, "Errno 2 of 3 is known", false},
		{"FileNotFoundError", noFile, "100 rows in 3 s", false},
		{"FileNotFoundError", "[Errno 2] No such file or directory: '/tmp/x'", "x is in /tmp", false},
	} {
		says.Equal(t, alsoNames(output.Exception{Type: c.raised, Message: c.message}, c.line), c.want, "%s: %s: %q: %v",
			c.raised, c.message, c.line, !c.want)
	}
}

// TestLastWords: what a worker printed is told of one that ended itself by a signal, and says nothing of one that
// somebody else ended.
func TestLastWords(t *testing.T) {
	const printed = "shard 11 is done\nERROR retry 3 of shard 12 failed\n"
	for _, c := range []struct{ signal, above, how, said string }{
		{"SIGABRT", printed, "SIGABRT", lastPrinted + "ERROR retry 3 of shard 12 failed"},
		{"SIGABRT", "shard 11 is done\n", "SIGABRT", ""},
		{"SIGTERM", printed, "SIGTERM", ""},
		{"", printed, "", lastPrinted + "ERROR retry 3 of shard 12 failed"},
	} {
		text := c.above
		if c.signal != "" {
			text += "*** " + c.signal + " received at time=1763806555 on cpu 0 ***\nPC: @ 0x7f raise\n"
		}
		worker := rayid.Worker{1}
		file := moment.LogFile{Path: "worker-" + worker.String() + "-05000000-7.err"}
		log := &logText{file: file, text: text}
		b := &builder{logsByWorker: map[rayid.Worker][]moment.LogFile{worker: {file}}, examinedWorkers: map[rayid.Worker]bool{},
			logs: logReader{texts: map[moment.LogFile]*logText{file: log}}, signals: map[string]string{},
			byKey: map[string]*finding{}}
		how, _ := b.crashOfWorker(worker)
		said, shown := b.lastWords(worker, death{}, how)
		if how != c.how || said != c.said || (said != "") != strings.HasSuffix(strings.TrimSpace(shown.Text), "shard 12 failed") {
			t.Errorf("%s above %s: %q%q, shown %q", c.above, c.signal, how, said, shown.Text)
		}
		for i := range maxReadWorkers {
			b.examinedWorkers[rayid.Worker{1, byte(i)}] = true
		}
		for _, id := range []rayid.Worker{worker, {2}} { // the logs of the second one are not read
			died := b.processDied(WorkerDied, "", "It died", id, death{})
			if title := "It died: " + c.how + c.said; c.how != "" && died.Title != title {
				t.Errorf("%q, want %q", died.Title, title)
			}
		}
	}
}

// TestUnsharedJobs: tasks are not looked through for calls of other jobs' actors if no other job that failed made one
// with a name.
func TestUnsharedJobs(t *testing.T) {
	failed := &finding{job: rayid.Job{2}, unrecovered: 1, last: 5}
	b := &builder{findings: []*finding{failed}, session: &session.Session{Set: entities.Set{ // without Tasks
		Actors: []entities.Actor{
			{Job: rayid.Job{1}, Name: "own"}, {Job: rayid.Job{2}}, {Job: rayid.Job{3}, Name: "of another"},
		}}}}
	b.jobsWithNamedActors = b.jobsWith(func(a *entities.Actor) bool { return a.Name != "" })
	end := &finding{job: rayid.Job{1}, ended: &job{}, last: 9}
	end.raised.Type = "SystemExit"
	says.Equal(t, b.failureElsewhere(end, end), "")
}
