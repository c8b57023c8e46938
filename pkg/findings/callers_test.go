package findings_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestCallerOfDetached: what a detached actor, such as a replica of Serve, calls after its own job had ended is called
// for the only job that runs then.
func TestCallerOfDetached(t *testing.T) {
	for name, c := range map[string]struct {
		ended string // the job of the actor
		log   string
		open  bool // a third job runs, too
		told  bool
	}{
		"a driver that counts":         {"10:10:00.500", "2 of 3 totals are missing\n", false, true},
		"a driver's own exception":     {"10:10:00.500", trace("AssertionError: price list incomplete: ['XAF']"), false, true},
		"a server's error":             {"10:10:00.500", trace("urllib.error.HTTPError: HTTP Error 500: Internal Server Error"), false, true},
		"what tells all by itself":     {"10:10:00.500", trace("OSError: [Errno 28] No space left on device"), false, false},
		"the actor's job runs":         {"10:16:00.500", "2 of 3 totals are missing\n", false, false},
		"it may be for one of two":     {"10:10:00.500", "2 of 3 totals are missing\n", true, false},
		"the job had just ended":       {"10:15:54.500", "2 of 3 totals are missing\n", false, false},
		"somebody's words of no error": {"10:10:00.500", "nothing to sell today\n", false, true},
	} {
		events := []string{driverOf(1, "raysubmit_bad"), driverOf(5, "raysubmit_good")}
		for _, e := range submission("raysubmit_bad") {
			events = append(events, strings.ReplaceAll(e, `"driverExitCode": 3`, `"driverExitCode": 1`))
		}
		for _, e := range submission("raysubmit_good") {
			events = append(events, strings.ReplaceAll(e, "10:16:00.500", c.ended))
		}
		if c.open {
			events = append(append(events, submission("raysubmit_open")...), driverOf(6, "raysubmit_open"))
		}
		called := failedTask(5, "fx_convert", "TASK_EXECUTION_EXCEPTION", trace("KeyError: 'no rate for XAF'"))
		dir := rareEvents(t, append(events, called...))
		storeLog(t, dir, "job-driver-raysubmit_bad.log", c.log)
		r, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		says.Equal(t, strings.Contains(title, "fx_convert failed: KeyError: 'no rate for XAF'"), c.told, "%s: %s\n%s",
			name, title, r.Summary)
	}
}

// TestNamedLog: a log of the program's own that its last words name says more.
func TestNamedLog(t *testing.T) {
	const own = "2026-11-22 10:15:50,094 ERROR join key store_id has 14 duplicates\n2026-11-22 10:15:50,095 INFO leaving\n"
	for name, c := range map[string]struct{ said, log, want string }{
		"an exception": {trace("acme.LaunchError: rank 1 returned 1, see /tmp/ray/session_latest/logs/tts_rank1.log"),
			"2026-11-22 10:15:50,094 ERROR rank 1 stopped\n" + trace("FloatingPointError: loss is inf"), "tts_rank1.log has FloatingPointError: loss is inf"},
		"a line":          {"step 2 ended with 4, details in logs/tts_rank1.log\n", own, "tts_rank1.log has "},
		"its number":      {trace("RuntimeError: rank 1 exited with code 1, check its log"), own, "tts_rank1.log has "},
		"another number":  {trace("RuntimeError: rank 11 exited with code 1, check its log"), own, ""},
		"only its name":   {trace("RuntimeError: training failed (tts_rank1.log)"), own, "join key store_id has 14 duplicates"},
		"another log":     {"step 2 ended with 4, details in tts_rank0.log\n", own, ""},
		"no error in it":  {"step 2 ended with 4, details in tts_rank1.log\n", "2026-11-22 10:15:50,094 INFO joined 3 tables\n", ""},
		"its own mistake": {trace("ModuleNotFoundError: No module named 'tts'"), own, ""},
	} {
		dir := submissionWithLog(t, 1, c.said, driverOf(1, "raysubmit_bad"))
		storeLog(t, dir, "tts_rank1.log", c.log)
		_, chain := badJob(t, dir)
		_, before, _ := strings.Cut(chain[len(chain)-1].Title, "; before that ")
		says.True(t, (c.want != "" || !strings.Contains(before, "tts_rank1.log has")) &&
			strings.Contains(before, c.want), "%s: %s", name, chain[len(chain)-1].Title)
	}
}

// TestUnreadNamedLog: if the store fails while the last logs are read, there is no report, which would be kept without
// them.
func TestUnreadNamedLog(t *testing.T) {
	dir := submissionWithLog(t, 1, "step 2 ended with 4, details in tts_rank1.log\n", driverOf(1, "raysubmit_bad"))
	storeLog(t, dir, "tts_rank1.log", "ERROR out of disk\n")
	down := errors.New("the store is down")
	store := &storetest.Hooked{Store: folder(t, dir), Before: storetest.On(storetest.Get,
		func(_ context.Context, key string) error {
			if strings.Contains(key, "tts_rank1.log") {
				return down
			}
			return nil
		})}
	m := &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: loadFrom(t, store, rayevents.Session, nil)}
	r, err := findings.Reader{}.Read(t.Context(), m)
	says.True(t, errors.Is(err, down), "%+v, %v", r, err)
}

// TestEndingAnActor: that a call which ends an actor failed tells nothing, nor that Train asked a rank in vain which it
// had ended.
func TestEndingAnActor(t *testing.T) {
	const killed = "The actor is dead because it was killed by `ray.kill`."
	for call, told := range map[string]bool{"PoolActor.__ray_terminate__": false, "Loader.__ray_terminate__": false,
		"PoolActor.run_batch": true, "RayTrainWorker.poll_status": false, "RayTrainWorker.execute": true} {
		events := deadActor("PoolActor", "actorDiedErrorContext", killed, "ACTOR_DIED")
		_, method, _ := strings.Cut(call, ".")
		for i, e := range events {
			events[i] = strings.NewReplacer("PoolActor.ping", call, `"functionName": "ping"`,
				`"functionName": "`+method+`"`).Replace(e)
		}
		dir := submissionWithLog(t, 1, "decoded 9 of 10 chunks\n", append(events[2:], driverOf(1, "raysubmit_bad"))...)
		r, _ := badJob(t, dir)
		says.Equal(t, only(r, "^Calls of "+call) != nil, told, "%s: %s", call, r.Summary)
	}
}

// TestPythonWarned: what Python warned of explains an exception about GPUs or about a version, and no other.
func TestPythonWarned(t *testing.T) {
	const old = "/v/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old. " +
		"Please update it.\n  return torch._C._cuda_getDeviceCount() > 0\n"
	const told = "; before that Python warned: CUDA initialization: The NVIDIA driver on your system is too old."
	for raised, want := range map[string]string{"RuntimeError: No CUDA GPUs are available": told, "KeyError: 'labels'": ""} {
		_, chain := badJob(t, submissionWithLog(t, 1, old+trace(raised), driverOf(1, "raysubmit_bad")))
		if title := chain[len(chain)-1].Title; !strings.HasSuffix(title, raised+want) {
			t.Errorf("%s: %s", raised, title)
		}
	}
}

// TestLostDetachedActor: the end of a detached actor, which jobs share, explains why another job has nothing better to
// say than words of its own. That of an actor that ended with its job, or before the other job began, does not.
func TestLostDetachedActor(t *testing.T) {
	for _, c := range []struct {
		detached bool
		at       string
		told     bool
	}{{true, "10:15:55", true}, {false, "10:15:55", false}, {true, "10:05:00", false}} {
		died := deadActor("Scorer", "actorDiedErrorContext", "The actor died: its worker process has crashed.", "ACTOR_DIED")[:2]
		died[0] = strings.Replace(died[0], `"className"`, fmt.Sprintf(`"isDetached": %t, "className"`, c.detached), 1)
		died[1] = strings.Replace(died[1], "10:15:55", c.at, 1)
		_, chain := badJob(t, submissionWithLog(t, 1, trace("RuntimeError: no scores for 3 of 4 batches"),
			append(died, driverOf(2, "raysubmit_bad"))...))
		if title := chain[len(chain)-1].Title; strings.Contains(title, "; before that Actor Scorer") != c.told {
			t.Errorf("%+v: %s", c, title)
		}
	}
}
