package dashboard

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// body asks and parses an answer with status 200.
func (a *asker) body(url string) any {
	a.t.Helper()
	w := a.get(url)
	must.True(a.t, w.Code == 200, "%s: %d %.300s", url, w.Code, w.Body)
	v, err := pyjson.Parse(w.Body.Bytes())
	must.OK(a.t, err, "%s", url)
	return v
}

func (a *asker) data(url string) *pyjson.Object {
	a.t.Helper()
	return a.body(url).(*pyjson.Object).Object("data")
}

// rows are those of a State API list.
func (a *asker) rows(url string) []*pyjson.Object {
	a.t.Helper()
	return moment.Objects(a.data(url).Object("result").List("result"))
}

// column lists a State API column of all rows, as "id:value", sorted.
func (a *asker) column(url, id, column string) string {
	a.t.Helper()
	var all []string
	for _, row := range a.rows(url) {
		all = append(all, fmt.Sprintf("%.8s:%v", row.Get(id), row.Get(column)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func at(clock string) int64 {
	t, err := time.Parse(time.RFC3339, "2026-11-20T"+clock+"Z")
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

// TestMoments: the state of a recorded session as it was at some moments of its life, with all snapshots of its end at
// hand.
func TestMoments(t *testing.T) {
	a := recorded(t)
	for _, tt := range []struct {
		clock, what, got, want string
	}{
		// Nodes came one after another.
		{clock: "23:19:50", what: "nodes", want: "11ddada2:ALIVE"},
		{clock: "23:19:56", what: "nodes", want: "11ddada2:ALIVE 14b1c508:ALIVE 65976f1a:ALIVE"},
		// counter1 was created, killed, restarted and died with its job; the jobs' supervisors followed.
		{clock: "23:20:10", what: "actors", want: ""},
		{clock: "23:20:11", what: "actors", want: "d8cdfa13:RESTARTING"},
		{clock: "23:20:15", what: "actors", want: "c89be53b:ALIVE d8cdfa13:ALIVE"},
		{clock: "23:20:27", what: "actors",
			want: "0efdd82f:PENDING_CREATION 0f2471b6:DEAD c89be53b:ALIVE d8cdfa13:DEAD e9fa4fc1:DEAD"},
		{clock: "23:20:03", what: "jobs", want: ""},
		{clock: "23:20:05", what: "jobs", want: "02000000:RUNNING"},
		{clock: "23:20:27", what: "jobs", want: "02000000:SUCCEEDED data-job:PENDING"},
		{clock: "23:20:30", what: "jobs", want: "02000000:SUCCEEDED data-job:RUNNING"},
		{clock: "23:20:43", what: "jobs", want: "02000000:SUCCEEDED data-job:SUCCEEDED"},
		{clock: "23:20:51", what: "jobs", want: "02000000:SUCCEEDED data-job:SUCCEEDED fail-job:FAILED"},
		{clock: "23:20:15", what: "placement groups", want: ""},
		{clock: "23:20:17", what: "placement groups", want: "443dd8f8:REMOVED 54b3b414:REMOVED 65b5abaa:REMOVED"},
	} {
		t.Run(tt.clock+" "+tt.what, func(t *testing.T) {
			a.t, a.at = t, at(tt.clock)
			got := ""
			switch tt.what {
			case "nodes":
				got = a.column("/api/v0/nodes", "node_id", "state")
			case "actors":
				got = a.column("/api/v0/actors", "actor_id", "state")
			case "placement groups":
				got = a.column("/api/v0/placement_groups", "placement_group_id", "state")
			case "jobs":
				var all []string
				for _, v := range a.body("/api/jobs/").([]any) {
					row := v.(*pyjson.Object)
					id := row.String("submission_id")
					id = cmp.Or(id, row.String("job_id"))
					all = append(all, fmt.Sprintf("%.8s:%s", id, row.String("status")))
				}
				slices.Sort(all)
				got = strings.Join(all, " ")
			}
			says.Equal(t, got, tt.want)
		})
	}
}

// TestViewsOfAMomentAgree: what different requests say of one moment is the same.
func TestViewsOfAMomentAgree(t *testing.T) {
	a := recorded(t)
	for _, clock := range []string{"23:19:53", "23:20:11", "23:20:16", "23:20:28", "23:20:48", "23:21:20"} {
		a.at = at(clock)
		logical := map[string]string{}
		for id, v := range a.data("/logical/actors").Object("actors").All() {
			row := v.(*pyjson.Object)
			logical[id] = row.String("state")
			says.True(t, row.Int("startTime") <= a.at/1e6 && row.Int("endTime") <= a.at/1e6,
				"%s: actor %s has times after it: %s", clock, id, pyjson.Append(nil, row))
			says.True(t, row.String("state") == moment.Alive || row.Get("processStats") == nil,
				"%s: actor %s is %s and has a process", clock, id, row.String("state"))
		}
		listed := map[string]string{}
		for _, row := range a.rows("/api/v0/actors?detail=1") {
			listed[row.String("actor_id")] = row.String("state")
			if dies := row.Get("death_cause") != nil; dies != (row.String("state") == moment.Dead) {
				t.Errorf("%s: actor %s is %s with death cause %v", clock, row.String("actor_id"), row.String("state"),
					row.Get("death_cause"))
			}
		}
		says.True(t, maps.Equal(logical, listed), "%s: /logical/actors %v, /api/v0/actors %v", clock, logical, listed)
		nodes := 0
		for _, v := range a.data("/nodes?view=summary").List("summary") {
			id := v.(*pyjson.Object).Object("raylet").String("nodeId")
			detail := a.data("/nodes/" + id).Object("detail")
			says.Equal(t, detail.Object("raylet").String("nodeId"), id, "%s: no details of node", clock)
			for actor := range detail.Object("actors").All() {
				says.True(t, logical[actor] != "", "%s: node %s has actor %s, which was not there yet", clock, id,
					actor)
			}
			nodes++
		}
		status := a.data("/api/cluster_status").Object("clusterStatus").Object("autoscalerReport").Object("activeNodes")
		says.Equal(t, status.Len(), nodes, "%s: cluster status shows", clock)
		if text := a.data("/api/cluster_status?format=1").String("clusterStatus"); strings.Count(text,
			" 1 node_") != nodes {
			t.Errorf("%s: %d nodes, and the status says\n%s", clock, nodes, text)
		}
		for _, v := range a.data("/api/v0/workers?detail=1&limit=1000").Object("result").List("result") {
			if row := v.(*pyjson.Object); row.Int("start_time_ms") > a.at/1e6 || row.Int("end_time_ms") > a.at/1e6 {
				t.Errorf("%s: worker with times after it: %s", clock, pyjson.Append(nil, row))
			}
		}
		for _, events := range a.data("/events").Object("events").All() {
			for _, v := range events.([]any) {
				event := v.(*pyjson.Object)
				says.True(t, event.Int("timestamp") <= a.at/1e9, "%s: event of %d", clock, event.Int("timestamp"))
			}
		}
	}
}

// made is a session made by hand, without anything stored.
func made(t *testing.T, change func(*session.Session)) *asker {
	t.Helper()
	s := load(t, t.TempDir(), lab)
	change(s)
	return newAsker(t, s, Options{})
}

// TestSnapshotIsOlderThanEvents: a node, an actor and a job ended after the last snapshot was taken.
func TestSnapshotIsOlderThanEvents(t *testing.T) {
	rec := recording.Open(t)
	s := recorded(t).session
	end := s.End + int64(time.Minute)
	node := rec.NodeID("w2")
	changed := *s
	changed.Nodes, changed.Actors = slices.Clone(s.Nodes), slices.Clone(s.Actors)
	for i := range changed.Nodes {
		if n := &changed.Nodes[i]; n.ID == node {
			n.Transitions = append(slices.Clone(n.Transitions),
				entities.NodeTransition{State: moment.Dead, Time: end, DeathReason: "EXPECTED_TERMINATION",
					DeathMessage: "received SIGTERM"})
		}
	}
	actor := must.Get(rayid.Parse[rayid.Actor]("c89be53b4ccb1674de0777b502000000"))(t)
	for i := range changed.Actors {
		if x := &changed.Actors[i]; x.ID == actor {
			x.Transitions = append(slices.Clone(x.Transitions),
				entities.ActorTransition{State: moment.Dead, Time: end,
					DeathCause: fmt.Appendf(nil, `{"actorDiedErrorContext": {"errorMessage": "gone", "nodeId": %q}}`,
						base64.StdEncoding.EncodeToString(node[:]))})
		}
	}
	a := newAsker(t, &changed, Options{})
	raylet := a.data("/nodes/" + node.String()).Object("detail").Object("raylet")
	if raylet.String("state") != moment.Dead || raylet.Int("endTimeMs") != moment.Milliseconds(end) ||
		raylet.String("stateMessage") != "Expected termination: received SIGTERM" {
		t.Errorf("node: %s", pyjson.Append(nil, raylet))
	}
	says.Equal(t,
		a.column("/api/v0/nodes?filter_keys=state&filter_predicates=%3D&filter_values=dead", "node_id", "state"),
		"65976f1a:DEAD", "dead nodes")
	detail := a.data("/logical/actors/" + actor.String()).Object("detail")
	if detail.String("state") != moment.Dead || detail.String("exitDetail") != "gone" ||
		detail.Int("endTime") != moment.Milliseconds(end) || detail.Get("processStats") != nil ||
		detail.Get("numExecutedTasks") != nil {
		t.Errorf("actor: %s", pyjson.Append(nil, detail))
	}
	row := a.data("/api/v0/actors?detail=1&filter_keys=actor_id&filter_predicates=%3D&filter_values=" +
		actor.String()).Object("result").List("result")[0].(*pyjson.Object)
	cause := row.Get("death_cause").(*pyjson.Object).Object("actor_died_error_context")
	if cause.Len() != 2 || cause.String("error_message") != "gone" || cause.String("node_id") != node.String() {
		t.Errorf("death cause %s", pyjson.Append(nil, row.Get("death_cause")))
	}
}

// TestEndsThatEventsLack: an actor's end that only the row of /logical/actors tells of is told by all that list actors.
func TestEndsThatEventsLack(t *testing.T) {
	a, _ := without(t, "/api/v0/actors"+layout.AllRows)
	lost := 0
	for i := range a.session.Actors {
		if x := &a.session.Actors[i]; x.Transitions[len(x.Transitions)-1].State == moment.Dead {
			x.Transitions = slices.DeleteFunc(x.Transitions,
				func(t entities.ActorTransition) bool { return t.State == moment.Dead })
			lost++
		}
	}
	logical, dead := a.data("/logical/actors").Object("actors"), 0
	for _, row := range a.rows("/api/v0/actors?detail=1") {
		saved := logical.Object(row.String("actor_id"))
		if row.String("state") != saved.String("state") || row.String("num_restarts") != saved.String("numRestarts") {
			t.Errorf("%s, and /logical/actors has %s", pyjson.Append(nil, row), pyjson.Append(nil, saved))
		}
		if row.String("state") == moment.Dead {
			dead++
		}
	}
	says.True(t, lost != 0 && dead == lost, "%d actors are dead, want %d", dead, lost)
}

// TestOnlyInTheStateAPI: what no events and no other saved answer have is listed as it was saved, at the end.
func TestOnlyInTheStateAPI(t *testing.T) {
	a, golden := without(t, "/logical/actors", "/nodes?view=summary")
	a.session.Actors, a.session.Nodes = nil, nil
	for _, url := range []string{"/api/v0/actors?detail=1", "/api/v0/nodes?detail=1"} {
		says.Equal(t, a.get(url).Body.String(), golden[url], url)
	}
	a.at = a.session.Start + int64(time.Second)
	got := a.rows("/api/v0/actors")
	says.True(t, len(got) == 0, "at a moment there are %d", len(got))
}

// without is the default recording's session without some of the saved answers, and what the live dashboard answered.
func without(t *testing.T, urls ...string) (a *asker, golden map[string]string) {
	t.Helper()
	rec := recording.Open(t)
	dir := rec.Store()
	for _, url := range urls {
		must.OK(t, os.Remove(filepath.Join(dir,
			filepath.FromSlash(layout.SnapshotKey(layout.DefaultRoot, rec.Session, url)))))
	}
	golden = map[string]string{}
	for _, answer := range rec.Golden() {
		golden[answer.URL] = string(answer.Body)
	}
	return newAsker(t, load(t, dir, rec.Session), Options{}), golden
}

// TestEmptySession: everything is answered where nothing is stored but the session's name.
func TestEmptySession(t *testing.T) {
	a := made(t, func(*session.Session) {})
	for _, route := range New(Options{}).Routes() {
		if route.Method != "GET" {
			continue
		}
		url := regexp.MustCompile(`\{\w+(:\*)?\}`).ReplaceAllString(route.Path, "ffff")
		w := a.get(url)
		says.True(t, (w.Code != 404 || !strings.Contains(w.Body.String(), "page not found")) && w.Code != 503 &&
			w.Body.Len() != 0, "%s: %d %s", url, w.Code, w.Body)
	}
	for url, want := range map[string]string{
		"/api/jobs/": "[]", "/api/serve/applications/": `{"controller_info": {}, "proxies": {}, "applications": {}, "target_capacity": null}`,
		"/logical/actors": `{"result": true, "msg": "All actors fetched.", "data": {"actors": {}}}`,
		"/events":         `{"result": true, "msg": "All events fetched.", "data": {"events": {}}}`,
		"/timezone":       `{"offset": "+00:00", "value": "Europe/London"}`,
		"/api/version":    `{"version": "4", "ray_version": "", "ray_commit": "", "session_name": "session_2026-11-20_23-19-45_581717_22125"}`,
		"/api/v0/objects": `{"result": true, "msg": "", "data": {"result": {"total": 0, "num_after_truncation": 0, "num_filtered": 0, "result": [], ` +
			`"partial_failure_warning": null, "warnings": ["The objects of this session were not saved while it ran."]}}}`,
	} {
		says.Equal(t, a.get(url).Body.String(), want, url)
	}
}

// TestEndsAfterTheMoment: of things without events, of which the only saved answers are later than the moment, none has
// ended before its end.
func TestEndsAfterTheMoment(t *testing.T) {
	node, actor := strings.Repeat("aa", rayid.NodeSize), strings.Repeat("ab", rayid.ActorSize)
	worker := strings.Repeat("ac", rayid.WorkerSize)
	began, ended := rayevents.At("10:01:00")/1e6, rayevents.At("10:20:00")/1e6
	job := func(ids, status string) string {
		return fmt.Sprintf(`{%s, "status": %q, "start_time": %d, "end_time": %d, "message": "ended"}`, ids, status,
			began, ended)
	}
	const taken = "10:30:00"
	const list = `{"data": {"result": {"result": [%s]}}}`
	a := savedSession(t,
		savedAt{"/nodes?view=summary", taken, fmt.Sprintf(`{"data": {"summary": [{"raylet": {"nodeId": %q, `+
			`"state": "DEAD", "startTimeMs": %d, "endTimeMs": %d, "stateMessage": "ended"}}]}}`, node, began, ended)},
		savedAt{"/api/v0/nodes" + layout.AllRows, taken, fmt.Sprintf(list, fmt.Sprintf(`{"node_id": %q, `+
			`"state": "DEAD", "end_time_ms": %d}`, node, ended))},
		savedAt{"/logical/actors", taken, fmt.Sprintf(`{"data": {"actors": {%q: {"actorId": %[1]q, `+
			`"state": "DEAD", "pid": 7, "startTime": %d, "endTime": %d, `+
			`"address": {"nodeId": %q, "workerId": %q}, "exitDetail": "ended"}}}}`, actor, began, ended, node, worker)},
		savedAt{"/api/v0/actors" + layout.AllRows, taken, fmt.Sprintf(list, fmt.Sprintf(`{"actor_id": %q, `+
			`"state": "DEAD", "pid": 7, "class_name": "A", "death_cause": {"x": {}}}`, actor))},
		savedAt{"/api/jobs/", taken, "[" + job(`"type": "SUBMISSION", "submission_id": "a"`, "FAILED") + ", " +
			job(`"type": "DRIVER", "job_id": "09000000"`, "SUCCEEDED") + "]"})
	for clock, want := range map[string]string{
		"10:10:00": "ALIVE 0, ALIVE 0, ALIVE 7 A false, RUNNING <nil>, RUNNING 0",
		"10:25:00": fmt.Sprintf("DEAD %d, DEAD %[1]d, DEAD 7 A true, FAILED %[1]d, SUCCEEDED %[1]d", ended),
	} {
		a.at = rayevents.At(clock)
		var got []string
		add := func(format string, values ...any) { got = append(got, fmt.Sprintf(format, values...)) }
		for _, row := range a.rows("/api/v0/nodes?detail=1") {
			if row.String("node_id") == node {
				add("%s %v", row.String("state"), row.Get("end_time_ms"))
			}
		}
		logical := a.data("/logical/actors").Object("actors").Object(actor)
		add("%s %v", logical.String("state"), logical.Get("endTime"))
		for _, row := range a.rows("/api/v0/actors?detail=1") {
			if row.String("actor_id") == actor {
				add("%s %v %s %t", row.String("state"), row.Get("pid"), row.String("class_name"),
					row.Get("death_cause") != nil)
			}
		}
		for _, v := range a.body("/api/jobs/").([]any) {
			row := v.(*pyjson.Object)
			if id := row.String("submission_id"); id == "a" || row.String("job_id") == "09000000" {
				add("%s %v", row.String("status"), row.Get("end_time"))
			}
		}
		says.Equal(t, strings.Join(got, ", "), want, "at %s", clock)
	}
}

// TestStatusWithoutEvents: the status of a cluster of which only the list of nodes is saved shows the nodes that lived.
func TestStatusWithoutEvents(t *testing.T) {
	dir := t.TempDir()
	node := func(id, state string) string {
		return fmt.Sprintf(`{"raylet": {"nodeId": %q, "state": %q, "startTimeMs": 1, "resourcesTotal": {"CPU": 4.0, `+
			`"objectStoreMemory": 1073741824.0, "node:10.0.0.1": 1.0}}}`, strings.Repeat(id, rayid.NodeSize), state)
	}
	put(t, dir, layout.SnapshotKey(layout.DefaultRoot, lab, "/nodes?view=summary"),
		`{"data": {"summary": [`+node("aa", "ALIVE")+", "+node("ab", "DEAD")+", "+node("ac", "ALIVE")+`]}}`)
	a := newAsker(t, load(t, dir, lab), Options{})
	text := a.data("/api/cluster_status?format=1").String("clusterStatus")
	says.All(t, text, "\n 1 node_"+strings.Repeat("aa", rayid.NodeSize)+"\n 1 node_"+
		strings.Repeat("ac", rayid.NodeSize)+"\n",
		" 0.0/8.0 CPU\n", " 0B/2.00GiB object_store_memory\n")
	says.None(t, text, "1970", "no active nodes")
	status := a.data("/api/cluster_status").Object("clusterStatus")
	says.Equal(t, status.Object("autoscalerReport").Object("activeNodes").Len(), 2, "active nodes")
	usage := status.Object("loadMetricsReport").Object("usage").Get("CPU")
	says.Equal(t, string(pyjson.Append(nil, usage)), "[0.0, 8.0]")
}
