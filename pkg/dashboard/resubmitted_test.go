package dashboard

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// submitted is a session with the submission "again" as a Ray without events of submissions leaves it: with the states
// of its supervisors, a list for each, and log files by their paths.
func submitted(t *testing.T, logs map[string]string, supervisors ...string) *session.Session {
	t.Helper()
	dir := t.TempDir()
	events := rayevents.Of("NODE")
	for i, states := range supervisors {
		// The IDs of actors are random: the later one may have the smaller ID.
		id := base64.StdEncoding.EncodeToString(append([]byte{byte(0xff - i), 11: 1}, 1, 0, 0, 0))
		events = append(events,
			fmt.Sprintf(`{"sessionName": %q, "eventType": "ACTOR_DEFINITION_EVENT", `+
				`"actorDefinitionEvent": {"actorId": %q, "jobId": "AQAAAA==", `+
				`"name": "_ray_internal_job_actor_again", "className": "JobSupervisor"}}`, rayevents.Session.Name, id),
			fmt.Sprintf(`{"sessionName": %q, "eventType": "ACTOR_LIFECYCLE_EVENT", `+
				`"actorLifecycleEvent": {"actorId": %q, "stateTransitions": [%s]}}`, rayevents.Session.Name, id, states))
	}
	put(t, dir, rayevents.Key(), strings.Join(events, "\n")+"\n")
	for path, text := range logs {
		put(t, dir, layout.LogKey(layout.DefaultRoot, rayevents.Session, rayid.Node{1}, path), text)
	}
	return load(t, dir, rayevents.Session)
}

// changeTo is a change of state of an actor on rayevents' day.
func changeTo(name, clock string) string {
	return fmt.Sprintf(`{"state": %q, "timestamp": "2026-11-22T%sZ"}`, name, clock)
}

// jobOf is the session's only job at a moment, in a few words.
func jobOf(t *testing.T, s *session.Session, at int64, running func(context.Context) bool) string {
	t.Helper()
	m := moment.Moment{Session: s, At: at, Running: running, Env: moment.NewEnv(logrus.New(), nil)}
	jobs := must.Get(m.Jobs(t.Context()))(t)
	must.True(t, len(jobs) == 1, "%d jobs", len(jobs))
	clock := func(ns int64) string {
		if ns == 0 {
			return "-"
		}
		return time.Unix(0, ns).UTC().Format("15:04:05")
	}
	j := jobs[0]
	return fmt.Sprintf("%s %v from %s to %s", j.Status, j.ExitCode, clock(j.Start), clock(j.End))
}

// TestSubmittedAgain: of an ID that was submitted again after the first submission was deleted, the last submission is
// shown, though the first one's logs and events are there, too.
func TestSubmittedAgain(t *testing.T) {
	event := func(n int, clock, message string) string {
		return fmt.Sprintf(`{"event_id": "%d", "source_type": "JOBS", "message": "%s", "timestamp": %d, `+
			`"custom_fields": {"submission_id": "again"}}`+"\n", n, message, sec(clock))
	}
	exit := func(code int, clock string) string {
		return fmt.Sprintf(`{"message": "Job again entrypoint command exited with code %d", timestamp_ns=%d}`+"\n",
			code, rayevents.At(clock))
	}
	logs := map[string]string{
		"events/event_JOBS.log": event(1, "10:03:59", "Started a ray job again.") +
			event(2, "10:06:00", "Completed a ray job again with a status FAILED. Job supervisor actor died: x") +
			event(3, "10:09:59", "Started a ray job again."),
		"jobs/supervisor-again.log": exit(1, "10:05:59"),
		"job-driver-again.log": "2026-11-22 10:04:00,123\tINFO job_manager.py:1 -- Runtime env is setting up.\n" +
			"Running entrypoint for job again: python a.py\n",
	}
	first, second := changeTo("ALIVE", "10:04:01")+", "+changeTo("DEAD", "10:06:00"), changeTo("ALIVE", "10:10:01")
	says.Equal(t, jobOf(t, submitted(t, logs, first, second), 0, stillRunning), "RUNNING <nil> from 10:10:01 to -")

	logs["jobs/supervisor-again.log"] += exit(0, "10:12:00")
	logs["events/event_JOBS.log"] += event(4, "10:12:00", "Completed a ray job again with a status SUCCEEDED.")
	s := submitted(t, logs, first, second+", "+changeTo("DEAD", "10:12:01"))
	says.Equal(t, jobOf(t, s, 0, nil), "SUCCEEDED 0 from 10:10:01 to 10:12:00")
	for clock, want := range map[string]string{
		"10:05:00": "RUNNING <nil> from 10:04:00 to -", "10:07:00": "FAILED <nil> from 10:04:00 to 10:06:00",
		"10:11:00": "RUNNING <nil> from 10:10:01 to -",
	} {
		says.Equal(t, jobOf(t, s, rayevents.At(clock), nil), want, "at %s", clock)
	}
	logs["events/event_JOBS.log"] = strings.Replace(logs["events/event_JOBS.log"],
		"FAILED. Job supervisor actor died: x", "SUCCEEDED.", 1)
	for name, supervisor := range map[string]string{
		"with times":    logs["jobs/supervisor-again.log"],
		"without times": "Job again entrypoint command exited with code 1\n",
	} {
		logs["jobs/supervisor-again.log"] = supervisor
		s = submitted(t, logs, first, second+", "+changeTo("DEAD", "10:12:01"))
		for clock, want := range map[string]string{
			"10:05:00": "RUNNING <nil> from 10:04:00 to -", "10:07:00": "SUCCEEDED <nil> from 10:04:00 to 10:06:00",
		} {
			says.Equal(t, jobOf(t, s, rayevents.At(clock), nil), want, "%s, at %s", name, clock)
		}
	}
}

// TestClockOfAnotherNode: a submission whose supervisor's node has a clock that is behind the head's has the exit that
// the supervisor logged, though by that clock it was before the start.
func TestClockOfAnotherNode(t *testing.T) {
	logs := map[string]string{
		"events/event_JOBS.log": fmt.Sprintf(`{"event_id": "1", "source_type": "JOBS", `+
			`"message": "Started a ray job again.", "timestamp": %d, "custom_fields": {"submission_id": "again"}}`+"\n",
			sec("10:04:00")),
		"jobs/supervisor-again.log": fmt.Sprintf(`{"message": "Job again entrypoint command exited with code 3", `+
			`timestamp_ns=%d}`+"\n", rayevents.At("10:03:58")),
	}
	first := changeTo("ALIVE", "10:04:01") + ", " + changeTo("DEAD", "10:04:03")
	says.Equal(t, jobOf(t, submitted(t, logs, first), 0, nil), "FAILED 3 from 10:04:01 to 10:03:58")

	started := logs["events/event_JOBS.log"]
	logs["events/event_JOBS.log"] += strings.NewReplacer(`"1"`, `"2"`,
		fmt.Sprint(sec("10:04:00")), fmt.Sprint(sec("10:09:59"))).Replace(started)
	s := submitted(t, logs, first, changeTo("ALIVE", "10:10:01"))
	says.Equal(t, jobOf(t, s, rayevents.At("10:07:00"), nil), "FAILED 3 from 10:04:01 to 10:03:58",
		"before it ran again")
}

// TestSubmittedAgainByEvents: the same by the submission's own events.
func TestSubmittedAgainByEvents(t *testing.T) {
	s := load(t, t.TempDir(), rayevents.Session)
	s.Submissions = []entities.Submission{{ID: "again", Transitions: []entities.SubmissionTransition{
		{State: "PENDING", Time: rayevents.At("10:04:00")},
		{State: "FAILED", Time: rayevents.At("10:06:00"), HasExitCode: true, ExitCode: 3},
		{State: "PENDING", Time: rayevents.At("10:10:00")}, {State: "RUNNING", Time: rayevents.At("10:10:01")},
		{State: "SUCCEEDED", Time: rayevents.At("10:12:00"), HasExitCode: true},
	}}}
	for clock, want := range map[string]string{
		"10:05:00": "PENDING <nil> from 10:04:00 to -", "10:07:00": "FAILED 3 from 10:04:00 to 10:06:00",
		"10:11:00": "RUNNING <nil> from 10:10:00 to -", "10:13:00": "SUCCEEDED 0 from 10:10:00 to 10:12:00",
	} {
		says.Equal(t, jobOf(t, s, rayevents.At(clock), nil), want, "at %s", clock)
	}
}

// TestExitWithoutATime: a submission whose supervisor logged how it ended but not when ended with its supervisor; at an
// earlier moment it runs.
func TestExitWithoutATime(t *testing.T) {
	logs := map[string]string{"jobs/supervisor-again.log": "Job again entrypoint command exited with code 1\n"}
	s := submitted(t, logs, changeTo("ALIVE", "10:04:01")+", "+changeTo("DEAD", "10:06:00"))
	says.Equal(t, jobOf(t, s, 0, nil), "FAILED 1 from 10:04:01 to 10:06:00")
	says.Equal(t, jobOf(t, s, rayevents.At("10:05:00"), nil), "RUNNING <nil> from 10:04:01 to -")
}
