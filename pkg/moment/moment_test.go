package moment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

// life is the events of a thing that is there from one time on, and ended at another one (0: never).
type life struct {
	id          string
	began, ends int64
}

// TestJoin: events count where a saved row says something else, unless the row shows an end that they do not know.
// Nothing is there that did not exist yet. taken is when the rows were saved.
func TestJoin(t *testing.T) {
	row := func(id, state string, began int) *pyjson.Object {
		return pyjson.Obj("id", id, "state", state, "began", pyjson.Number(fmt.Sprint(began)))
	}
	rows := []any{row("both", Alive, 1), "not a row", row("ended", Dead, 1), row("saved", Alive, 5),
		row("old", Alive, 1), row("both", Dead, 1)} // the second row of a thing is damage
	events := []life{{"both", 1, 0}, {"ended", 1, 0}, {"old", 1, 6}, {"told", 7, 0}}
	k := kind[life, string]{
		events: events,
		id:     func(l *life) string { return l.id },
		eventsOf: func(id string) *life {
			for i := range events {
				if events[i].id == id {
					return &events[i]
				}
			}
			return nil
		},
		stateAt: func(l *life, at int64) (string, bool) {
			if l.ends != 0 && (at == 0 || l.ends <= at) {
				return Dead, true
			}
			return Alive, at == 0 || l.began <= at
		},
		savedID:   func(row *pyjson.Object) string { return row.String("id") },
		began:     func(row *pyjson.Object) int64 { return row.Int("began") },
		ended:     func(row *pyjson.Object) bool { return row.String("state") == Dead },
		sameState: func(row *pyjson.Object, s *string) bool { return row.String("state") == *s },
	}
	for _, tt := range []struct {
		at, taken int64
		want      string // "!" follows what the events decide
	}{
		{0, 8, "both ended saved old! told!"},
		{0, 0, "both ended saved old! told!"},
		{8, 8, "both ended saved old! told!"},
		{8, 9, "both ended! saved old! told!"}, // the rows are later than the moment: an end in them does not count
		{8, 0, "both ended! saved old! told!"}, // or may be
		{5, 5, "both ended saved old"},
		{4, 4, "both ended old"},
	} {
		var got []string
		for _, thing := range join(&Moment{At: tt.at}, k, rows, tt.taken) {
			name := thing.ID
			if thing.Newer {
				name += "!"
			}
			got = append(got, name)
		}
		says.Equal(t, strings.Join(got, " "), tt.want, "at %d, saved at %d", tt.at, tt.taken)
	}
}

func TestActorAt(t *testing.T) {
	node1, node2, worker1, worker2 := rayid.Node{1}, rayid.Node{2}, rayid.Worker{1}, rayid.Worker{2}
	a := &entities.Actor{Transitions: []entities.ActorTransition{
		{State: Unready, Time: 1}, {State: "PENDING_CREATION", Time: 2},
		{State: Alive, Time: 3, Node: node1, Worker: worker1, PID: 7},
		{State: Restarting, Time: 4, RestartReason: "NODE_PREEMPTION"},
		{State: Alive, Time: 5, Node: node2, Worker: worker2, PID: 8, ReprName: "A(1)"},
		{State: Dead, Time: 6, DeathCause: []byte(`{"x": 1}`)}, {State: Dead, Time: 7, DeathCause: []byte(`{"x": 2}`)},
		{State: Restarting, Time: 8, RestartReason: "LINEAGE_RECONSTRUCTION"},
		{State: Alive, Time: 9, Node: node1, Worker: rayid.Worker{3}, PID: 9},
	}}
	for at, want := range map[int64]string{
		1: "DEPENDENCIES_UNREADY placed=false pid=0 restarts=0 start=0 end=0 former=0",
		3: "ALIVE placed=true pid=7 restarts=0 start=3 end=0 former=0",
		4: "RESTARTING placed=false pid=7 restarts=1 start=3 end=0 former=0",
		5: "ALIVE placed=true pid=8 restarts=1 start=3 end=0 former=1",
		7: "DEAD placed=true pid=8 restarts=1 start=3 end=6 former=1",
		8: "RESTARTING placed=false pid=8 restarts=2 start=3 end=0 former=1",
		0: "ALIVE placed=true pid=9 restarts=2 start=3 end=0 former=2",
	} {
		s, existed := ActorAt(a, at)
		got := fmt.Sprintf("%s placed=%t pid=%d restarts=%d start=%d end=%d former=%d", s.State, s.Placed, s.PID,
			s.Restarts, s.Started, s.Ended, len(s.FormerProcesses))
		says.True(t, existed && got == want, "at %d: %t %s, want %s", at, existed, got, want)
	}
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_02-00-00_000001_100"}
	store := storetest.New()
	must.OK(t, store.Create(t.Context(), layout.MarkerKey("log", ref), strings.NewReader("")))
	stored := must.Get(session.Load(t.Context(), store, "log", ref, session.Options{Log: logrus.New()}))(t)
	stored.Actors = []entities.Actor{*a}
	for at, want := range map[int64]int{3: 0, 4: 1, 5: 1, 7: 2, 8: 2, 0: 2} {
		m := &Moment{Session: stored, At: at, Env: NewEnv(logrus.New(), nil)}
		says.Equal(t, len(m.EndedActorWorkers()), want, "workers that had ended at %d", at)
	}
	whole, _ := ActorAt(a, 0)
	if got, want := (&Actor{ActorState: whole}).Processes(), []ActorProcess{{node1, rayid.Worker{3}, 9, 0},
		{node2, worker2, 5, 6}, {node1, worker1, 3, 4}}; !slices.Equal(got, want) {
		t.Errorf("processes: %v, want %v", got, want)
	}
	if _, existed := ActorAt(&entities.Actor{Transitions: a.Transitions[2:]}, 2); existed {
		t.Error("an actor was there before its first event")
	}
	if s, _ := ActorAt(a, 0); s.Reconstructed != 1 || s.Preempted != 1 {
		t.Errorf("restarts by reason: %+v", s)
	}
}

// TestEndBeforeBegin: where the head's clock was set back, an end has an earlier time than what was before it. From
// that time on what ended has ended, also while earlier states have later times; before it, nothing was there.
func TestEndBeforeBegin(t *testing.T) {
	const before, end, between, begin = 1, 2, 3, 4
	actor := &entities.Actor{Transitions: []entities.ActorTransition{{State: Alive, Time: begin},
		{State: Dead, Time: end}}}
	node := &entities.Node{Start: begin,
		Transitions: []entities.NodeTransition{{State: Alive, Time: begin}, {State: Dead, Time: end}}}
	driver := &entities.Job{Transitions: []entities.JobTransition{{State: "CREATED", Time: begin},
		{State: "FINISHED", Time: end}}}
	worker := &entities.Worker{Transitions: []entities.WorkerTransition{{State: Alive, Time: begin},
		{State: Dead, Time: end}}}
	group := &entities.PlacementGroup{Created: begin,
		Transitions: []entities.PlacementGroupTransition{{State: "CREATED", Time: begin}, {State: Removed, Time: end}}}
	for _, at := range []int64{before, end, between, begin, 0} {
		want := at != before
		if s, existed := ActorAt(actor, at); existed != want || existed && (s.State != Dead || s.Ended != end) {
			t.Errorf("the actor at %d: %t %+v", at, existed, s)
		}
		if s, existed := NodeAt(node, at); existed != want || existed && (s.State != Dead || s.Ended != end) {
			t.Errorf("the node at %d: %t %+v", at, existed, s)
		}
		s, existed := DriverAt(driver, at)
		says.True(t, existed == want && (!existed || s.Ended == end), "the driver at %d: %t %+v", at, existed, s)
		if s, existed := WorkerAt(worker, at); existed != want || existed && s.Alive {
			t.Errorf("the worker at %d: %t %+v", at, existed, s)
		}
		if s, existed := groupAt(group, at); existed != want || existed && s.State != Removed {
			t.Errorf("the placement group at %d: %t %+v", at, existed, s)
		}
	}
}

// TestGroupAt: a placement group is there from when it was requested, though its first transition is later. If no event
// says when that was, its first transition counts.
func TestGroupAt(t *testing.T) {
	placed := []entities.PlacementGroupTransition{{State: Pending, Time: 10}, {State: "CREATED", Time: 20}}
	for _, tt := range []struct {
		created, at int64
		state       string
		existed     bool
	}{
		{created: 5, at: 4},
		{created: 5, at: 7, state: Pending, existed: true},
		{created: 5, at: 15, state: Pending, existed: true},
		{created: 5, at: 20, state: "CREATED", existed: true},
		{created: 5, at: 0, state: "CREATED", existed: true},
		{created: 0, at: 7},
		{created: 0, at: 10, state: Pending, existed: true},
	} {
		s, existed := groupAt(&entities.PlacementGroup{Created: tt.created, Transitions: placed}, tt.at)
		says.True(t, existed == tt.existed && (!existed || s.State == tt.state),
			"requested at %d, at %d: %q, there: %v", tt.created, tt.at, s.State, existed)
	}
}

// TestTimeIn: a damaged time far away is not one that was long ago.
func TestTimeIn(t *testing.T) {
	const last = math.MaxInt64 / 1_000_000 * 1_000_000
	for text, want := range map[string]int64{
		"5": 5e6, "9223372036854775807": last, "9223372036855": last, "-9223372036854775808": -last,
		"18446744073709551615": 0, // which Ray writes for a time that is not known
	} {
		says.Equal(t, TimeIn(pyjson.Obj("at", pyjson.Number(text)), "at", time.Millisecond), want, text)
	}
}

// TestLearn: only what Ray's own sentence says about the submission counts, not what the reason of a failure repeats.
func TestLearn(t *testing.T) {
	for message, want := range map[string]evidence{
		"Started a ray job a.": {jobEvents: jobEvents{started: int64(7 * time.Second)}},
		"Completed a ray job a with a status STOPPED.": {jobEvents: jobEvents{
			completed: int64(7 * time.Second), status: jobstatus.Stopped,
		}},
		"Completed a ray job other with a status SUCCEEDED.": {},
		"Completed a ray job a with a status UNKNOWN.":       {},
		"Completed a ray job a with a status FAILED. Job supervisor actor died: it ended with a status SUCCEEDED.\nv1.0": {
			jobEvents: jobEvents{completed: int64(7 * time.Second), status: jobstatus.Failed,
				failure: "Job supervisor actor died: it ended with a status SUCCEEDED.\nv1.0"},
		},
	} {
		var e evidence
		if e.addEvent("a", pyjson.Obj("message", message, "timestamp", pyjson.Number("7"))); !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v, want %+v", message, e, want)
		}
	}
	for failure, want := range map[string]string{
		"runtime_env setup failed: x":                    "RUNTIME_ENV_SETUP_FAILURE",
		"Job supervisor actor could not be scheduled: x": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
		"Job supervisor actor died: x":                   "JOB_SUPERVISOR_ACTOR_DIED",
		"Unexpected error occurred: x":                   "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "else": "",
	} {
		says.Equal(t, failureType(failure), want, "%s", failure)
	}
}

// TestMemoryOfEvents: events that are read take no more memory than they may, however little text they are.
func TestMemoryOfEvents(t *testing.T) {
	const small = `{"event_id": "a", "message": "x\\ny"}` + "\n"
	const large = `{"event_id": "b", "custom_fields": [{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}` +
		"\n"
	all := eventReader{left: 1000, seen: map[string]bool{}}
	says.True(t, all.addLines([]byte(small+"no JSON\n[1]\n"+small+`{"event_id": "cut`)),
		"small events are too large")
	says.True(t, !all.addLines([]byte(large)), "a large event is not, with %d bytes left", all.left)
	text := eventReader{left: 1000, seen: map[string]bool{}}
	files := 0
	for ; files < 100 && text.addLines([]byte(strings.Repeat("no JSON\n", 100))); files++ {
	}
	says.Equal(t, files, 1000*textShare/800, "files without events are read")
	if len(all.events) != 1 || all.events[0].String("message") != "x\ny" {
		t.Errorf("%d events: %q", len(all.events), all.events[0].String("message"))
	}
}

// TestLastLines: lines are what Python takes for lines.
func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "a\n": "a\n", "a\nb\n": "a\nb\n", "a\nb\nc": "b\nc", "a\nb\nc\n": "b\nc\n", "\n\n\n": "\n\n",
		"10%\r20%\r30%\r": "20%\r30%\r", "a\r\nb\r\nc\r\n": "b\r\nc\r\n", "a\vb\u2028c": "b\u2028c",
	} {
		says.Equal(t, lastLines(text, 2), want, "%q", text)
	}
}

// TestLife: a session's begin is what its collectors stored, or its first event's time while only its name tells of
// one.
func TestLife(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC) }
	named := lifetime.Life{Start: at(2)} // the local time of a head that began at 10:00 UTC
	recorded := lifetime.Life{Start: at(9), Recorded: true}
	ended := lifetime.Life{Start: at(10), Recorded: true, End: at(13)}
	of := func(life lifetime.Life, first, last int) session.Session {
		return session.Session{Life: life, Start: at(first).UnixNano(), End: at(last).UnixNano(),
			Ref: layout.Session{Name: "session_2026-11-20_02-00-00_000001_100"},
			Set: entities.Set{Nodes: []entities.Node{{Start: at(first).UnixNano()}}}}
	}
	noNode, lateNode := of(named, 10, 12), of(named, 10, 12)
	noNode.Nodes, lateNode.Nodes[0].Start = nil, at(11).UnixNano() // the head's event was lost
	for what, tt := range map[string]struct {
		session    session.Session
		at         int64
		begin, end time.Time
	}{
		"ended":              {of(ended, 11, 12), 0, at(10), at(13)},
		"events before":      {of(ended, 9, 14), 0, at(9), at(14)},
		"no end":             {of(named, 10, 12), 0, at(10), at(12)},
		"no end, no node":    {noNode, 0, at(10), at(12)},
		"no end, late node":  {lateNode, 0, at(10), at(12)},
		"no end, recorded":   {of(recorded, 10, 12), 0, at(9), at(12)},
		"no end, at":         {of(named, 10, 10), at(11).UnixNano(), at(10), at(11)},
		"no begin":           {of(lifetime.Life{End: at(13)}, 11, 12), 0, at(11), at(13)},
		"ended, of a moment": {session.Session{Life: ended}, at(12).UnixNano(), at(10), at(12)},
	} {
		m := Moment{Session: &tt.session, At: tt.at}
		if begin, end := m.Life(t.Context()); !begin.Equal(tt.begin) || !end.Equal(tt.end) {
			t.Errorf("%s: %s to %s, want %s to %s", what, begin, end, tt.begin, tt.end)
		}
	}
}

// TestZoneChanges: times in logs are right before and after summer time begins or ends within a session.
func TestZoneChanges(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-10-30_20-00-00_000001_100"}
	store := storetest.New()
	set := snapshots.New(store, snapshots.Options{})
	first := layout.SnapshotKey("log", ref, "/timezone")
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC) }
	for key, body := range map[string]string{
		first: `{"offset":"-07:00","value":"America/Phoenix"}`,
		layout.SnapshotVersionKey(first, at(1, 9, 4)):  `{"offset":"-08:00","value":"America/Los_Angeles"}`,
		layout.SnapshotVersionKey(first, at(2, 9, 4)):  `{"offset":null,"value":null}`, // Ray does not know each zone
		layout.SnapshotVersionKey(first, at(3, 9, 4)):  `{"offset":"-08:00","value":"America/Los_Angeles"}`,
		layout.SnapshotVersionKey(first, at(9, 10, 3)): `{"offset":"-07:00","value":"America/Phoenix"}`,
	} {
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
		o := must.Get(layout.ParseObject("log", ref, key))(t)
		set.Add(o, must.Get(store.Stat(t.Context(), key))(t))
	}
	m := &Moment{Session: &session.Session{Ref: ref, Snapshots: set}}
	zone := must.Get(m.Zone(t.Context()))(t)
	for local, want := range map[string]time.Time{
		"2026-10-31 12:00": at(0, 19, 0), "2026-11-01 00:59": at(1, 7, 59), "2026-11-01 02:01": at(1, 10, 1),
		"2026-11-09 01:59": at(9, 9, 59), "2026-11-09 03:01": at(9, 10, 1), "2027-01-01 00:00": at(62, 7, 0),
	} {
		got := must.Get(time.ParseInLocation("2006-01-02 15:04", local, zone))(t)
		says.True(t, got.Equal(want), "%s is %s, want %s", local, got.UTC(), want)
	}
}

// TestOneListIsRead: of saved lists of one thing under many addresses only the one that counts is read, which may take
// as much memory as one answer may.
func TestOneListIsRead(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-10-30_20-00-00_000001_100"}
	store := storetest.New()
	set := snapshots.New(store, snapshots.Options{})
	longest := int64(0)
	for i := range 50 {
		body := fmt.Sprintf(`{"data":{"events":[{"eventId":"%d","timestamp":"2026-10-30T20:00:00Z"}]}}`, i)
		key := layout.SnapshotKey("log", ref, fmt.Sprintf("/api/v0/platform_events?detail=1&limit=%d", i+1))
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
		set.Add(must.Get(layout.ParseObject("log", ref, key))(t), must.Get(store.Stat(t.Context(), key))(t))
		longest = max(longest, int64(len(body)))
	}
	m := &Moment{Session: &session.Session{Ref: ref, Snapshots: set}}
	events := must.Get(m.PlatformEvents(t.Context()))(t)
	says.True(t, len(events) == 1 && events[0].ID == "49" && store.Read.Load() <= longest,
		"%d events, %d bytes were read", len(events), store.Read.Load())
}

// TestManySavedRows: of saved lists with very many rows the first count, also of several lists together.
func TestManySavedRows(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-10-30_20-00-00_000001_100"}
	store := storetest.New()
	set := snapshots.New(store, snapshots.Options{})
	first := layout.SnapshotKey("log", ref, jobsURL)
	for i, key := range []string{first, layout.SnapshotVersionKey(first, time.UnixMilli(1)),
		layout.SnapshotVersionKey(first, time.UnixMilli(2))} {
		var rows []string
		for k := range maxRows/2 + 100*(2-i) { // each shorter than the one before, and about other jobs
			rows = append(rows, fmt.Sprintf(`{"type":"SUBMISSION","submission_id":"%d-%d"}`, i, k))
		}
		must.OK(t, store.Create(t.Context(), key, strings.NewReader("["+strings.Join(rows, ",")+"]")))
		set.Add(must.Get(layout.ParseObject("log", ref, key))(t), must.Get(store.Stat(t.Context(), key))(t))
	}
	m := &Moment{Session: &session.Session{Ref: ref, Snapshots: set}}
	rows, _, err := m.savedJobs(t.Context())
	must.True(t, err == nil && len(rows) == maxRows && rows[0].String("submission_id") == "2-0" &&
		rows[maxRows-1].String("submission_id") == "1-49999", "%d rows of jobs, %v", len(rows), err)
	list := make([]any, maxRows+1)
	for i := range list {
		list[i] = pyjson.Obj("node_id", fmt.Sprint(i))
	}
	nodes := join(m, kind[entities.Node, NodeState]{
		savedID:  func(row *pyjson.Object) string { return row.String("node_id") },
		eventsOf: func(string) *entities.Node { return nil },
		began:    func(*pyjson.Object) int64 { return 0 },
	}, list, 0)
	says.True(t, len(nodes) == maxRows && len(Objects(list)) == maxRows, "%d nodes, %d rows", len(nodes),
		len(Objects(list)))
}

// TestZoneByName: where no snapshot tells the zone, it is that in which the session's name has the head's start.
func TestZoneByName(t *testing.T) {
	started := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	for named, hours := range map[string]float64{
		"2026-11-20_12-00-00": -8, "2026-11-20_11-59-55": -8, "2026-11-20_20-00-00": 0, "2026-11-20_19-59-02": 0,
		"2026-11-21_01-29-58": 5.5, "2026-11-20_16-29-59": -3.5,
		// no zone has these: events of the first minutes were lost, or the clock was set
		"2026-11-20_19-50-00": 0, "2026-11-20_12-00-05": 0, "2026-11-22_20-00-00": 0, "latest": 0,
	} {
		s := &session.Session{Ref: layout.Session{Name: "session_" + named + "_000001_100"}}
		s.Nodes = []entities.Node{{Start: started.Add(time.Hour).UnixNano()}, {}, {Start: started.UnixNano()}}
		start, zone, known := (&Moment{Session: s}).namedStart()
		_, seconds := time.Now().In(zone).Zone()
		late := started.Sub(start)
		says.True(t, !known || late >= 0 && late <= time.Minute, "%s: it started at %s", named, start)
		says.Equal(t, float64(seconds)/3600, hours, "%s", named)
	}
	if _, zone, _ := (&Moment{Session: &session.Session{}}).namedStart(); zone != time.UTC {
		t.Errorf("nothing stored: %s", zone)
	}
}
