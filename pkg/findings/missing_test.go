package findings_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// TestNothingIsNoSuccess: where nothing of a session's jobs is stored, its outcome is unknown, and the report says what
// is missing.
func TestNothingIsNoSuccess(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_10-00-00_000000_7"}
	node := rayid.Node{0xa}
	events := layout.NodeEventsKey("log", ref, node, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	nodeUp := `{"eventId":"AAAA","sourceType":"GCS","eventType":"NODE_DEFINITION_EVENT","timestamp":"2026-11-20T10:00:05Z","severity":"INFO","sessionName":"` + ref.Name +
		`","nodeDefinitionEvent":{"nodeId":"CgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==","nodeIpAddress":"10.0.0.1","startTimestamp":"2026-11-20T10:00:05Z"}}` + "\n"
	driver := layout.LogKey("log", ref, node, "job-driver-nightly.log")
	ended := nodeUp + `{"eventId":"AAAB","eventType":"DRIVER_JOB_DEFINITION_EVENT","timestamp":"2026-11-20T10:01:00Z","sessionName":"` + ref.Name +
		`","driverJobDefinitionEvent":{"jobId":"AQAAAA==","config":{"metadata":{"job_submission_id":"nightly"}}}}` + "\n" +
		`{"eventId":"AAAC","eventType":"DRIVER_JOB_LIFECYCLE_EVENT","timestamp":"2026-11-20T10:02:00Z","sessionName":"` + ref.Name +
		`","driverJobLifecycleEvent":{"jobId":"AQAAAA==","stateTransitions":[{"state":"CREATED","timestamp":"2026-11-20T10:01:00Z"},` +
		`{"state":"FINISHED","timestamp":"2026-11-20T10:02:00Z"}]}}` + "\n"
	const traceback = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nValueError: bad shard\n"
	gcs := func(n byte) string { return layout.LogKey("log", ref, rayid.Node{n}, "gcs_server.out") }
	manyHeads := map[string]string{events: nodeUp, driver: "step 1\n" + traceback}
	for n := range byte(61) { // of the logs of one kind 60 are looked at
		manyHeads[gcs(n)] = "x\n"
	}
	manyLost := map[string]string{events: nodeUp}
	for n := range 25 { // of these 20 are looked at
		manyLost[layout.LogKey("log", ref, node, fmt.Sprintf("job-driver-nightly-%02d.log", n))] = "step 1\n"
	}
	end := layout.MetadataKey("log", ref, layout.End)
	jobs := layout.SnapshotKey("log", ref, "/api/jobs/")
	for name, c := range map[string]struct {
		stored           map[string]string
		outcome, summary string
		title            string // of the only finding; "": there is none
		missing          []string
	}{
		"only a marker": {nil, catalog.Unknown, "Nothing of this session's jobs is stored.", "",
			[]string{"No events", "No snapshots"}},
		"six bytes of a log": {map[string]string{layout.LogKey("log", ref, node, "raylet.out"): "hello\n"},
			catalog.Unknown, "Nothing of this session's jobs is stored.", "", []string{"No events", "No snapshots"}},
		"an empty end and empty events": {map[string]string{end: "", events: ""},
			catalog.Unknown, "Nothing of this session's jobs is stored.", "", []string{"No events", "No snapshots"}},
		"its node": {map[string]string{events: nodeUp, end: "{}"},
			catalog.Unknown, "Nothing of this session's jobs is stored.", "",
			[]string{"No events of jobs", "No snapshots"}},
		"no job": {map[string]string{events: nodeUp, jobs: "[]"},
			catalog.Unknown, "No job is known: its dashboard listed none.", "", []string{"No events of jobs"}},
		"no list of jobs": {map[string]string{events: nodeUp, jobs: `{"detail":"sign in"}`},
			catalog.Unknown, "Nothing of this session's jobs is stored.", "",
			[]string{"No events of jobs", "No snapshots"}},
		"a lost job that failed": {map[string]string{events: nodeUp, driver: "step 1\n" + traceback},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard.",
			"Job nightly failed: its driver raised ValueError: bad shard",
			[]string{"job's own record is not stored, only its driver's log: nightly"}},
		"a lost job of which nobody knows": {map[string]string{events: nodeUp,
			driver: traceback + "retrying\nstep 1\n"},
			catalog.Unknown, "How its jobs ended is not stored.", "",
			[]string{"job's own record is not stored", "No events of jobs", "No snapshots"}},
		"a lost job of which a function printed what it handled": {map[string]string{events: nodeUp,
			driver: "step 1\n" + strings.Replace(traceback, "<module>", "read", 1)},
			catalog.Unknown, "How its jobs ended is not stored.", "",
			[]string{"job's own record is not stored", "No events of jobs", "No snapshots"}},
		"a driver that ended, nobody recorded how, in an exception": {map[string]string{events: ended,
			driver: "step 1\n" + traceback},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard.",
			"Job nightly failed: its driver raised ValueError: bad shard", nil},
		"a driver that ended, nobody recorded how": {map[string]string{events: ended, driver: traceback + "retried\n"},
			catalog.Succeeded, "Nothing failed.", "", []string{"How the driver ended is not recorded, and Ray shows that as a success: nightly."}},
		"a driver that ended, nobody recorded how, in words about an error": {map[string]string{events: ended,
			driver: "step 1\nerror: shard 7 is locked\n"},
			catalog.Failed, "It failed: Job nightly failed: error: shard 7 is locked (its exit code was not recorded).",
			"Job nightly failed: error: shard 7 is locked (its exit code was not recorded)", nil},
		"a driver that ended, nobody recorded how, in words about an error, after an exception that it handled": {
			map[string]string{events: ended, driver: traceback + "retried\nERROR: quota exceeded\n"},
			catalog.Failed, "It failed: Job nightly failed: ERROR: quota exceeded (its exit code was not recorded).",
			"Job nightly failed: ERROR: quota exceeded (its exit code was not recorded)", nil},
		"a driver that ended, nobody recorded how, in an exception of many lines": {
			map[string]string{events: ended, driver: traceback +
				"[SQL: SELECT 1]\n(Background on this error at: https://sqlalche.me/e/20/e3q8)\n"},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard.",
			"Job nightly failed: its driver raised ValueError: bad shard", nil},
		"a driver that ended, nobody recorded how, with an actor": {
			map[string]string{events: ended, driver: strings.Replace(traceback, "ValueError: bad shard",
				"ray.exceptions.ActorDiedError: The actor died unexpectedly.\n"+
					"\tclass_name: Trainer\n\tactor_id: 2b53fe10a8b5b1e0a6b3a1c101000000\n"+
					"The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "+
					"Worker exit detail: connection error code 2. End of file.", 1)},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ActorDiedError: The actor is dead because " +
				"its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: connection error " +
				"code 2. End of file.",
			"Job nightly failed: its driver raised ActorDiedError: The actor is dead because its worker process has " +
				"died. Worker exit type: SYSTEM_ERROR Worker exit detail: connection error code 2. End of file.", nil},
		"a driver that ended, nobody recorded how, in two exceptions": {
			map[string]string{events: ended, driver: "  + Exception Group Traceback (most recent call last):\n" +
				"  |   File \"train.py\", line 3, in <module>\n  | ExceptionGroup: two shards (2 sub-exceptions)\n" +
				"  +-+---------------- 1 ----------------\n    | ValueError: bad shard\n" +
				"    +---------------- 2 ----------------\n    | KeyError: 'b'\n    +------------------------------------\n"},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard and 1 more in its group.",
			"Job nightly failed: its driver raised ValueError: bad shard and 1 more in its group", nil},
		"a driver that ended, nobody recorded how, with a process that it ran": {
			map[string]string{events: ended, driver: traceback + strings.Replace(traceback, "ValueError: bad shard",
				"subprocess.CalledProcessError: Command 'read' returned non-zero exit status 1.", 1)},
			catalog.Failed, "It failed: Job nightly failed: a process that its driver ran raised ValueError: bad shard; " +
				"then the driver raised CalledProcessError: Command 'read' returned non-zero exit status 1.",
			"Job nightly failed: a process that its driver ran raised ValueError: bad shard; then the driver raised " +
				"CalledProcessError: Command 'read' returned non-zero exit status 1.", nil},
		"a driver that ended, nobody recorded how, in an exception that a function printed": {
			map[string]string{events: ended, driver: strings.Replace(traceback, "<module>", "read", 1)},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard.",
			"Job nightly failed: its driver raised ValueError: bad shard", nil},
		"more heads than are looked at, however often": {manyHeads,
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard.",
			"Job nightly failed: its driver raised ValueError: bad shard",
			[]string{"job's own record is not stored", "1 log not looked at"}},
		"more lost jobs than are looked at": {manyLost, catalog.Unknown, "How its jobs ended is not stored.", "",
			[]string{"job's own record is not stored", "No events of jobs", "No snapshots", "5 logs not looked at"}},
		"an event of a type that a later Ray sends": {
			map[string]string{events: ended + strings.NewReplacer("NODE_DEFINITION_EVENT", "NODE_WEATHER_EVENT",
				"nodeDefinitionEvent", "nodeWeatherEvent", `"AAAA"`, `"AAAD"`).Replace(nodeUp),
				driver: "step 1\n" + traceback},
			catalog.Failed, "It failed: Job nightly failed: its driver raised ValueError: bad shard.",
			"Job nightly failed: its driver raised ValueError: bad shard",
			[]string{"1 event of an unknown type skipped"}},
		"a job that succeeded": {map[string]string{
			jobs: `[{"type":"SUBMISSION","submission_id":"nightly","status":"SUCCEEDED","entrypoint":"x","start_time":1,"end_time":2}]`, driver: traceback},
			catalog.Succeeded, "Nothing failed.", "", nil},
	} {
		store := storetest.New()
		for key, body := range c.stored {
			must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
		}
		log := logrus.New()
		log.SetOutput(io.Discard)
		s := must.Get(session.Load(t.Context(), store, "log", ref, session.Options{}))(t)
		answers := dashboard.New(dashboard.Options{Log: log})
		report, err := answers.Findings(t.Context(), answers.MomentAt(s, 0))
		must.OK(t, err)
		titles := ""
		for _, f := range report.Findings {
			titles += f.Title
		}
		says.True(t, report.Outcome == c.outcome && report.Summary == c.summary && titles == c.title &&
			len(report.Missing) == len(c.missing), "%s: %s %q, findings %q, missing %q", name, report.Outcome,
			report.Summary, titles, report.Missing)
		for _, want := range c.missing {
			says.True(t, strings.Contains(fmt.Sprint(report.Missing), want), "%s: missing is %q, not %q", name,
				report.Missing, want)
		}
		if _, err := findings.Encode(s, report, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestArchived: a session opens, and findings are made, without what the store has archived. They say so, and are not
// kept, and neither is an index.
func TestArchived(t *testing.T) {
	for part, want := range map[string]struct{ outcome, says string }{
		"/logs/":   {catalog.Failed, "archived by the store"},
		"_events/": {catalog.Failed, "is archived by the store: restore it"},
		"/session": {catalog.Unknown, "the store has archived it: restore it"}, // all of its objects
	} {
		store, ref := recorded(t, "child_oom137")
		archive := &storetest.Hooked{Store: store, Before: func(_ context.Context, op storetest.Op, key string) error {
			if op == storetest.Get && strings.Contains(key, part) {
				return &blob.AccessError{Advice: "restore it", Err: blob.ErrArchived}
			}
			return nil
		}}
		s := loadFrom(t, archive, ref, nil)
		found := reportWith(t, s, nil)
		says.All(t, strings.Join(found.Missing, "\n"), want.says)
		says.True(t, found.Outcome == want.outcome && found.Partial, "without %s: %s, %d findings, partial %t", part,
			found.Outcome, len(found.Findings), found.Partial)
		opener := &index.Opener{Store: archive, Root: layout.DefaultRoot, Log: silent.Logger()}
		w := index.Writer{Opener: opener, Put: archive.Put}
		says.True(t, part == "/logs/" || w.Write(t.Context(), s, nil) != nil, "without %s: an index is written", part)
	}
}

// TestManyWaitingActors: of very many actors that waited for resources a bounded number is compared with the nodes, and
// with what others held.
func TestManyWaitingActors(t *testing.T) {
	events := aliveNodes()
	for i := range 5001 {
		about := fmt.Sprintf(`"actorId": "%s"`, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%012d\x00\x00\x00\x01", i)))
		events = append(events,
			eventOf(fmt.Sprint("d", i), "ACTOR_DEFINITION_EVENT", "actorDefinitionEvent",
				about+`, "jobId": "AAAAAQ==", "className": "Trainer", "requiredResources": {"GPU": 1.0}`),
			eventOf(fmt.Sprint("l", i), "ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent",
				about+`, "stateTransitions": [{"state": "PENDING_CREATION", "timestamp": "2026-11-22T10:15:30Z"}]`))
	}
	r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
	says.Equal(t, r.Findings[0].Count, 5000, "actors in %s", r.Findings[0].Title)
	says.True(t, slices.Contains(r.Missing, "Only 5000 of the actors that waited for resources were looked at."),
		"missing: %q", r.Missing)
}
