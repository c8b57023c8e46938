package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// task describes one attempt for events to be made of.
type task struct {
	n, attempt int
	kind       string // NORMAL_TASK if empty
	name       string
	function   string // name if empty
	actor      *rayid.Actor
	parent     *rayid.Task // the driver if nil
	states     string      // "STATE@second …"
	node       byte        // first byte of the node's ID, 0 for none
	pid        int
	err        string
	repr       string
	paused     *bool
}

var (
	testDriver = func() rayid.Task { id := noTask; copy(id[20:], testJob[:]); return id }()
	testActor  = rayid.Actor{0: 7, 12: testJob[0]}
)

const testStart = 1795216800 // 2026-11-20T23:20:00Z

func (k task) id() rayid.Task {
	id := taskID(k.n)
	if k.actor != nil {
		copy(id[8:], k.actor[:])
		if k.kind == "ACTOR_CREATION_TASK" {
			copy(id[:8], noTask[:])
		}
	}
	return id
}

// events are the attempt's definition and its life cycle.
func (k task) events(t testing.TB) []string {
	t.Helper()
	id, parent, kind := k.id(), testDriver, k.kind
	if k.parent != nil {
		parent = *k.parent
	}
	kind = cmp.Or(kind, "NORMAL_TASK")
	class, function, dotted := strings.Cut(k.function, ".")
	if k.function == "" {
		class, function, dotted = strings.Cut(k.name, ".")
	}
	if !dotted {
		class, function = "", class
	}
	definition := map[string]any{
		"taskId": id[:], "taskAttempt": k.attempt, "taskType": kind, "language": "PYTHON", "taskName": k.name,
		"jobId":        testJob[:],
		"parentTaskId": parent[:], "taskFunc": map[string]any{
			"pythonFunctionDescriptor": map[string]any{"className": class, "functionName": function}},
	}
	field := "taskDefinitionEvent"
	if kind == "ACTOR_TASK" {
		field = "actorTaskDefinitionEvent"
		delete(definition, "taskType")
		delete(definition, "taskName")
		delete(definition, "taskFunc")
		definition["actorTaskName"], definition["actorId"] = k.name, k.actor[:]
		definition["actorFunc"] = map[string]any{"pythonFunctionDescriptor": map[string]any{"className": class,
			"functionName": function}}
	}
	transitions := []any{}
	for s := range strings.FieldsSeq(k.states) {
		state, second, _ := strings.Cut(s, "@")
		at := must.Get(time.ParseDuration(second + "s"))(t)
		transitions = append(transitions, map[string]any{"state": state,
			"timestamp": time.Unix(testStart, 0).Add(at).UTC().Format(time.RFC3339Nano)})
	}
	cycle := map[string]any{"taskId": id[:], "taskAttempt": k.attempt, "jobId": testJob[:],
		"stateTransitions": transitions, "workerPid": k.pid}
	if k.node != 0 {
		cycle["nodeId"], cycle["workerId"] = (&rayid.Node{k.node})[:], (&rayid.Worker{k.node, 1})[:]
	}
	if k.err != "" {
		cycle["rayErrorInfo"] = map[string]any{"errorType": k.err, "errorMessage": "\x1b[31mboom\x1b[0m in " + k.name}
	}
	if k.repr != "" {
		cycle["actorReprName"] = k.repr
	}
	if k.paused != nil {
		cycle["isDebuggerPaused"] = *k.paused
	}
	var out []string
	for name, body := range map[string]any{field: definition, "taskLifecycleEvent": cycle} {
		e := must.Get(json.Marshal(map[string]any{"eventId": "AA==", "sessionName": testSession.Name, name: body}))(t)
		out = append(out, string(e))
	}
	return out
}

// loadTasks loads a session of tasks, and of more events.
func loadTasks(t testing.TB, tasks []task, more ...string) *Session {
	t.Helper()
	for _, k := range tasks {
		more = append(more, k.events(t)...)
	}
	return loadEvents(t, testSession, more)
}

var yes = true

var someTasks = []task{
	{n: 1, name: "add", states: "PENDING_ARGS_AVAIL@0 SUBMITTED_TO_WORKER@1 RUNNING@2 FINISHED@3", node: 5, pid: 100},
	{n: 2, name: "ADD", states: "PENDING_ARGS_AVAIL@0 RUNNING@2 FAILED@4", node: 6, pid: 101,
		err: "TASK_EXECUTION_EXCEPTION"},
	{n: 2, attempt: 1, name: "ADD", states: "PENDING_ARGS_AVAIL@4 RUNNING@5 FINISHED@6", node: 5, pid: 100},
	{n: 3, name: "renamed", function: "sub", states: "PENDING_ARGS_AVAIL@1", paused: &yes},
	{n: 4, kind: "ACTOR_CREATION_TASK", name: "Counter.__init__", actor: &testActor,
		states: "PENDING_ARGS_AVAIL@0 RUNNING@1 FINISHED@2", node: 5, pid: 200},
	{n: 5, kind: "ACTOR_TASK", name: "Counter.inc", actor: &testActor, repr: "Counter(n=0)",
		states: "PENDING_ARGS_AVAIL@2 RUNNING@3", node: 5, pid: 200},
	{n: 6, kind: "DRIVER_TASK", name: "", states: "RUNNING@0"},
}

func TestSelect(t *testing.T) {
	s := loadTasks(t, someTasks)
	var unnamed Session
	unnamed.Tasks = tasktable.NewBuilder().Freeze()
	is := func(key, value string) tasktable.Filter {
		return tasktable.Filter{Key: key, Value: value, SentLowerCase: true}
	}
	not := func(key, value string) tasktable.Filter {
		return tasktable.Filter{Key: key, Value: value, Not: true, SentLowerCase: true}
	}
	late := func(f tasktable.Filter) tasktable.Filter { f.SentLowerCase = false; return f }
	hexOf := func(n, attempt int) string { return task{n: n, attempt: attempt}.id().String() }
	for _, tt := range []struct {
		name    string
		filters []tasktable.Filter
		want    string // numbers of tasks, with attempts where not 0
		listed  int
	}{
		{"none", nil, "1 2.1 2 3 5 4", 6},
		{"name, regardless of case", []tasktable.Filter{is("name", "Add")}, "1 2.1 2", 3},
		{"name as shown, not as given", []tasktable.Filter{is("name", "counter(n=0).inc")}, "", 0},
		{"name as shown, when Ray's store is not asked", []tasktable.Filter{late(is("name", "counter(n=0).inc"))}, "5",
			6},
		{"not a name", []tasktable.Filter{not("name", "add")}, "3 5 4", 3},
		{"function", []tasktable.Filter{is("func_or_class_name", "sub")}, "3", 6},
		{"state", []tasktable.Filter{is("state", "finished")}, "1 2.1 4", 3},
		{"state spelled otherwise", []tasktable.Filter{late(is("state", "FINISHED"))}, "1 2.1 4", 6},
		{"not a state", []tasktable.Filter{not("state", "FINISHED")}, "2 3 5", 3},
		{"type", []tasktable.Filter{is("type", "actor_task")}, "5", 6},
		{"job", []tasktable.Filter{is("job_id", "02000000")}, "1 2.1 2 3 5 4", 6},
		{"another job", []tasktable.Filter{is("job_id", "03000000")}, "", 0},
		{"task, its first attempt first", []tasktable.Filter{is("task_id", hexOf(2, 0))}, "2 2.1", 2},
		{"task in upper case", []tasktable.Filter{is("task_id", strings.ToUpper(hexOf(1, 0)))}, "1", 1},
		{"unknown task", []tasktable.Filter{is("task_id", hexOf(99, 0))}, "", 0},
		{"not a task", []tasktable.Filter{not("task_id", hexOf(2, 0))}, "1 3 5 4", 4},
		{"actor", []tasktable.Filter{is("actor_id", testActor.String())}, "5 4", 2},
		{"not an actor", []tasktable.Filter{not("actor_id", testActor.String())}, "1 2.1 2 3", 4},
		{"node", []tasktable.Filter{is("node_id", rayid.Node{5}.String())}, "1 2.1 5 4", 6},
		{"no node", []tasktable.Filter{is("node_id", "")}, "", 6},
		{"not a node, so none too", []tasktable.Filter{not("node_id", rayid.Node{5}.String())}, "2 3", 6},
		{"worker", []tasktable.Filter{is("worker_id", rayid.Worker{6, 1}.String())}, "2", 6},
		{"parent", []tasktable.Filter{is("parent_task_id", testDriver.String())}, "1 2.1 2 3 5 4", 6},
		{"placement group of none", []tasktable.Filter{not("placement_group_id", "00")}, "1 2.1 2 3 5 4", 6},
		{"pid", []tasktable.Filter{is("worker_pid", " 1_00 ")}, "1 2.1", 6},
		{"not a pid: text and numbers always differ", []tasktable.Filter{not("worker_pid", "100")}, "1 2.1 2 3 5 4", 6},
		{"attempt", []tasktable.Filter{is("attempt_number", "0_1")}, "2.1", 6},
		{"not an attempt", []tasktable.Filter{not("attempt_number", "0")}, "2.1", 6},
		{"not an attempt, a key in capital letters: text and numbers always differ",
			[]tasktable.Filter{late(not("attempt_number", "0"))}, "1 2.1 2 3 5 4", 6},
		{"error type", []tasktable.Filter{is("error_type", "task_execution_exception")}, "2", 6},
		{"not an error type: rows without errors have no such column", []tasktable.Filter{not("error_type", "x")}, "2",
			6},
		{"paused", []tasktable.Filter{is("is_debugger_paused", "1")}, "3", 6},
		{"language", []tasktable.Filter{is("language", "python"), is("type", "normal_task")}, "1 2.1 2 3", 6},
		{"several", []tasktable.Filter{is("name", "add"), not("state", "FAILED"), is("attempt_number", "0")}, "1", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := must.Get(s.Tasks.Select(tasktable.Query{Filters: tt.filters, Limit: 100, ExcludeDriver: true}))(t)
			var names []string
			for i := range got.Rows {
				names = append(names, taskName(rowOf(t, got, i)))
			}
			list := strings.Join(names, " ")
			says.True(t, list == tt.want && got.Listed == tt.listed && got.Matching == len(names),
				"got %q of %d listed, %d matching; want %q of %d", list, got.Listed, got.Matching, tt.want, tt.listed)
			if none, err := unnamed.Tasks.Select(tasktable.Query{Filters: tt.filters, Limit: 100}); err != nil ||
				len(none.Rows) > 0 {
				t.Errorf("no tasks: %v, %v", none, err)
			}
		})
	}
	t.Run("limit", func(t *testing.T) {
		for _, limit := range []int{0, 1, 4} {
			got, err := s.Tasks.Select(tasktable.Query{Limit: limit})
			says.True(t, err == nil && len(got.Rows) == limit && got.Matching == 7 && got.Listed == 7,
				"limit %d: %+v, %v", limit, got, err)
		}
	})
}

// taskName finds the number and the attempt of a test task.
func taskName(r tasktable.Row) string {
	for _, k := range someTasks {
		if k.id() == r.ID() && int32(k.attempt) == r.Attempt() {
			if k.attempt > 0 {
				return fmt.Sprintf("%d.%d", k.n, k.attempt)
			}
			return fmt.Sprint(k.n)
		}
	}
	return "?"
}

func TestSelectRefuses(t *testing.T) {
	s := loadTasks(t, someTasks)
	for _, tt := range []struct {
		filters []tasktable.Filter
		want    string // "" if it is not refused
	}{
		{[]tasktable.Filter{{Key: "bogus", Value: "x"}}, "tasks cannot be filtered by bogus"},
		{[]tasktable.Filter{{Key: "required_resources", Value: "x"}}, "tasks cannot be filtered by required_resources"},
		{[]tasktable.Filter{{Key: "name", Value: "nobody"}, {Key: "bogus", Value: "x"}}, ""},
		{[]tasktable.Filter{{Key: "job_id", Value: "0", SentLowerCase: true}}, "Odd-length string"},
		{[]tasktable.Filter{{Key: "job_id", Value: "zz", SentLowerCase: true}}, "Non-hexadecimal digit found"},
		{[]tasktable.Filter{{Key: "actor_id", Value: "0102", SentLowerCase: true}},
			"ID string needs to have length 16, got 2"},
		{[]tasktable.Filter{{Key: "task_id", Value: "ä", SentLowerCase: true}},
			"string argument should contain only ASCII characters"},
		{[]tasktable.Filter{{Key: "job_id", Value: "zz"}}, ""},
		{[]tasktable.Filter{{Key: "node_id", Value: "zz", SentLowerCase: true}}, ""},
		{[]tasktable.Filter{{Key: "attempt_number", Value: "one"}},
			"Failed to convert a value one of type <class 'str'> to <class 'int'>"},
		{[]tasktable.Filter{{Key: "attempt_number", Value: "one", SentLowerCase: true}},
			"Invalid filter `--filter attempt_number one` for a int type column. Please provide an integer filter `--filter attempt_number [int]`"},
		{[]tasktable.Filter{{Key: "worker_pid", Value: "one"}},
			"Failed to convert a value one of type <class 'str'> to <class 'int'>"},
		{[]tasktable.Filter{{Key: "worker_pid", Value: "one", Not: true}}, ""},
		{[]tasktable.Filter{{Key: "is_debugger_paused", Value: "maybe"}},
			"Failed to convert a value maybe of type <class 'str'> to <class 'bool'>"},
	} {
		_, err := s.Tasks.Select(tasktable.Query{Filters: tt.filters, Limit: 10})
		got := fmt.Sprint(err)
		says.True(t, got == tt.want || err == nil && tt.want == "", "%+v: %v, want %q", tt.filters, err, tt.want)
	}
}

func TestSummarize(t *testing.T) {
	s := loadTasks(t, someTasks)
	show := func(byFunction bool) string {
		got := must.Get(s.Tasks.Summarize(tasktable.Query{ExcludeDriver: true}, byFunction))(t)
		var all []string
		for _, g := range got.Groups {
			all = append(all, fmt.Sprintf("%s(%s)%v", g.Name, g.Type, g.States))
		}
		return fmt.Sprintf("%s %+v %d %d", strings.Join(all, " "), got.TaskCounts, got.Listed, got.Matching)
	}
	counts := " {Tasks:4 ActorTasks:1 ActorsScheduled:1} 6 6"
	says.Equal(t, show(false),
		"add(NORMAL_TASK)[{FINISHED 1}] ADD(NORMAL_TASK)[{FINISHED 1} {FAILED 1}] renamed(NORMAL_TASK)[{PENDING_ARGS_AVAIL 1}] "+
			"Counter(n=0).inc(ACTOR_TASK)[{RUNNING 1}] Counter.__init__(ACTOR_CREATION_TASK)[{FINISHED 1}]"+
			counts)
	says.Equal(t, show(true),
		"add(NORMAL_TASK)[{FINISHED 1}] ADD(NORMAL_TASK)[{FINISHED 1} {FAILED 1}] sub(NORMAL_TASK)[{PENDING_ARGS_AVAIL 1}] "+
			"Counter.inc(ACTOR_TASK)[{RUNNING 1}] Counter.__init__(ACTOR_CREATION_TASK)[{FINISHED 1}]"+counts, "by function")
}

func TestLineage(t *testing.T) {
	parent := task{n: 10}.id()
	unknown := task{n: 99}.id()
	tasks := []task{
		{n: 10, name: "outer", states: "PENDING_ARGS_AVAIL@5 FINISHED@9"},
		{n: 11, name: "inner", parent: &parent, states: "PENDING_ARGS_AVAIL@6 FINISHED@7"},
		{n: 12, name: "inner", parent: &parent, states: "PENDING_ARGS_AVAIL@7 FAILED@8"},
		{n: 13, name: "orphan", parent: &unknown, states: "PENDING_ARGS_AVAIL@7"},
		{n: 14, kind: "ACTOR_CREATION_TASK", name: "Counter.__init__", actor: &testActor,
			states: "PENDING_ARGS_AVAIL@1 FINISHED@2"},
		{n: 15, kind: "ACTOR_TASK", name: "Counter.inc", actor: &testActor, states: "PENDING_ARGS_AVAIL@1 RUNNING@3"},
		{n: 16, name: "waits", states: "PENDING_ARGS_AVAIL@20"},
	}
	for i := range 5 {
		tasks = append(tasks, task{n: 20 + i, name: "many",
			states: fmt.Sprintf("PENDING_ARGS_AVAIL@%d FINISHED@40", 30-i)})
	}
	s := loadTasks(t, tasks)
	show := func(limit int) (string, *tasktable.Lineage) {
		got := must.Get(s.Tasks.Lineage(tasktable.Query{ExcludeDriver: true, Limit: limit},
			func(rayid.Actor) string { return "" }, 2))(t)
		var nest func([]*tasktable.Node) string
		nest = func(all []*tasktable.Node) string {
			var out []string
			for _, n := range all {
				s := fmt.Sprintf("%s %s@%d%v", n.Type, n.Name, n.Time/1000-testStart, n.States)
				if len(n.Children) > 0 {
					s += "(" + nest(n.Children) + ")"
				}
				out = append(out, s)
			}
			return strings.Join(out, "; ")
		}
		return nest(got.Tops), got
	}
	got, l := show(100)
	want := "ACTOR Counter@1[{RUNNING 1} {FINISHED 1}](ACTOR_TASK Counter.inc@1[{RUNNING 1}]; ACTOR_CREATION_TASK Counter.__init__@1[{FINISHED 1}]); " +
		"NORMAL_TASK orphan@7[{PENDING_ARGS_AVAIL 1}]; NORMAL_TASK waits@20[{PENDING_ARGS_AVAIL 1}]; " +
		"NORMAL_TASK outer@5[{FINISHED 2} {FAILED 1}](GROUP inner@6[{FINISHED 1} {FAILED 1}](NORMAL_TASK inner@7[{FAILED 1}]; NORMAL_TASK inner@6[{FINISHED 1}])); " +
		"GROUP many@26[{FINISHED 5}](NORMAL_TASK many@26[{FINISHED 1}]; NORMAL_TASK many@27[{FINISHED 1}]; NORMAL_TASK many@28[{FINISHED 1}]; " +
		"NORMAL_TASK many@29[{FINISHED 1}]; NORMAL_TASK many@30[{FINISHED 1}])"
	says.Equal(t, got, want)
	says.True(t, l.TaskCounts == (tasktable.TaskCounts{Tasks: 10, ActorTasks: 1, ActorsScheduled: 1}) &&
		l.Listed == 12 && l.Matching == 12 && !l.Cut && l.Orphans == 1, "counts %+v", l)
	got, l = show(5)
	if want := want[:strings.Index(want, "; NORMAL_TASK many@28")] + ")"; got != want || !l.Cut {
		t.Errorf("cut: got %s\nwant %s; cut %t", got, want, l.Cut)
	}
}

// TestLineageIsNotDeeperThanItMayBe: a chain of tasks, each submitted by the next or by the one before, is shown in
// parts.
func TestLineageIsNotDeeperThanItMayBe(t *testing.T) {
	const maxDepth = 900 // see tasktable.Lineage
	const chain = 3 * maxDepth
	for _, step := range []int{1, -1} {
		var tasks []task
		for n := 1; n <= chain; n++ {
			tk := task{n: n, name: fmt.Sprint("f", n), states: "RUNNING@1"}
			if by := n + step; by >= 1 && by <= chain {
				parent := task{n: by}.id()
				tk.parent = &parent
			}
			tasks = append(tasks, tk)
		}
		l, err := loadTasks(t, tasks).Tasks.Lineage(tasktable.Query{Limit: 10}, func(rayid.Actor) string { return "" },
			10)
		must.OK(t, err)
		shown, deepest := 0, 0
		var walk func(all []*tasktable.Node, depth int)
		walk = func(all []*tasktable.Node, depth int) {
			deepest = max(deepest, depth)
			for _, n := range all {
				shown++
				walk(n.Children, depth+1)
			}
		}
		walk(l.Tops, 0)
		says.True(t, shown == chain && deepest <= 2*maxDepth+2 && l.Deep,
			"step %d: %d of %d tasks shown, %d deep; said so: %t", step, shown, chain, deepest, l.Deep)
	}
}

// TestLineageOfLoop: parents that are each other's parents do not end in a loop.
func TestLineageOfLoop(t *testing.T) {
	a, b := task{n: 1}.id(), task{n: 2}.id()
	s := loadTasks(t, []task{{n: 1, name: "a", parent: &b, states: "RUNNING@1"},
		{n: 2, name: "b", parent: &a, states: "RUNNING@1"}})
	l, err := s.Tasks.Lineage(tasktable.Query{Limit: 10}, func(rayid.Actor) string { return "" }, 10)
	says.True(t, err == nil && len(l.Tops) == 1 && len(l.Tops[0].Children) == 1 && l.Matching == 2 && l.Orphans == 1,
		"%+v, %v", l, err)
}

// TestLineageHoldsAll: each task is shown once, whatever of those above it is not stored or not among the rows.
func TestLineageHoldsAll(t *testing.T) {
	outer, lost, other := task{n: 1}.id(), task{n: 99}.id(), testActor
	other[0]++
	all := []task{
		{n: 1, name: "outer", parent: &lost, states: "RUNNING@1"},
		{n: 2, name: "inner", parent: &outer, states: "FINISHED@2"},
		{n: 3, name: "inner", parent: &outer, states: "FAILED@2"},
		{n: 4, name: "child", parent: &lost, states: "FINISHED@3"},
		{n: 5, name: "child", parent: &lost, states: "FINISHED@4"},
		{n: 6, kind: "ACTOR_TASK", name: "Lost.call", actor: &other, parent: &outer, states: "RUNNING@5"},
		{n: 7, kind: "ACTOR_TASK", name: "Lost.call", actor: &other, parent: &lost, states: "FINISHED@6"},
		{n: 8, kind: "ACTOR_CREATION_TASK", name: "Made.__init__", actor: &testActor, parent: &lost,
			states: "FINISHED@6"},
		{n: 9, kind: "ACTOR_TASK", name: "Made.run", actor: &testActor, states: "FINISHED@7"},
		{n: 10, name: "top", states: "FINISHED@8"},
	}
	s := loadTasks(t, all)
	for filter, want := range map[string]struct{ tasks, orphans int }{"": {10, 5}, "FINISHED": {7, 5},
		"FAILED": {1, 1}} {
		q := tasktable.Query{Limit: 100}
		if filter != "" {
			q.Filters = []tasktable.Filter{{Key: "state", Value: filter}}
		}
		l := must.Get(s.Tasks.Lineage(q, func(rayid.Actor) string { return "" }, 100))(t)
		sum, shown, names := 0, 0, ""
		for _, n := range l.Tops {
			for _, c := range n.States {
				sum += c.Count
			}
			names += n.Name + " "
		}
		var walk func([]*tasktable.Node)
		walk = func(nodes []*tasktable.Node) {
			for _, n := range nodes {
				if n.LinkType == "task" {
					shown++
				}
				walk(n.Children)
			}
		}
		walk(l.Tops)
		says.True(t, sum == want.tasks && shown == want.tasks && l.Matching == want.tasks && l.Orphans == want.orphans,
			"%q: %d counted and %d shown of %d, %d orphans; want %+v; %s", filter, sum, shown, l.Matching, l.Orphans,
			want, names)
		says.True(t, filter != "" || strings.Contains(names, "Lost ") && strings.Contains(names, "Made "),
			"on top are %s", names)
	}
}

func TestAt(t *testing.T) {
	s := loadTasks(t, []task{
		{n: 1, name: "f", states: "PENDING_ARGS_AVAIL@1 SUBMITTED_TO_WORKER@2 RUNNING@3 FAILED@5", node: 5, pid: 9,
			err: "OUT_OF_MEMORY"},
		{n: 2, name: "g", states: "PENDING_ARGS_AVAIL@4 RUNNING@4.5 RUNNING_IN_RAY_GET@6"},
	}, jobFinished(8))
	for _, tt := range []struct {
		second float64
		want   string
	}{
		{0.5, ""},
		{1, "f PENDING_ARGS_AVAIL node=false pid=0 error="},
		{2, "f SUBMITTED_TO_WORKER node=true pid=0 error="},
		{3.5, "f RUNNING node=true pid=9 error="},
		{4.6, "f RUNNING node=true pid=9 error=; g RUNNING node=false pid=0 error="},
		{5, "f FAILED node=true pid=9 error=OUT_OF_MEMORY; g RUNNING node=false pid=0 error="},
		{7, "f FAILED node=true pid=9 error=OUT_OF_MEMORY; g RUNNING_IN_RAY_GET node=false pid=0 error="},
		{8, "f FAILED node=true pid=9 error=OUT_OF_MEMORY; g FAILED node=false pid=0 error=WORKER_DIED"},
	} {
		q := tasktable.Query{Limit: 10, At: testStart*1e9 + int64(tt.second*1e9)}
		picked := must.Get(s.Tasks.Select(q))(t)
		var all []string
		for i := range picked.Rows {
			r := rowOf(t, picked, i)
			kind, _, _ := r.Failure()
			all = append(all, fmt.Sprintf("%s %s node=%t pid=%d error=%s", r.Name(), r.State(), r.Node() != nil,
				r.PID(), kind))
		}
		slices.Sort(all)
		got := strings.Join(all, "; ")
		says.True(t, got == tt.want && picked.Listed == len(all), "after %v s: %q, want %q", tt.second, got, tt.want)
	}
}

// TestWhatIsToldAtTheEnd of an attempt is not known before: where its lines end, and whether it is still paused.
func TestWhatIsToldAtTheEnd(t *testing.T) {
	const lines = `"taskLogInfo":{"stdoutFile":"worker.out","stdoutStart":100,"stdoutEnd":200,"stderrStart":10,"stderrEnd":20}`
	for _, states := range []string{"RUNNING@10 FINISHED@60", "RUNNING@10 FAILED@60"} {
		k := task{n: 1, name: "f", states: states, paused: &yes}
		id := k.id()
		s := loadTasks(t, []task{k}, fmt.Sprintf(`{"taskLifecycleEvent":{"taskId":%q,"jobId":%q,%s}}`, base64Of(id[:]),
			testJob.Base64(), lines))
		for second, want := range map[int64]string{
			5: "none; known false", 30: "100 nil 10 nil; known false", 60: "100 200 10 20; known true",
			-testStart: "100 200 10 20; known true", // the end of the session
		} {
			r := s.Tasks.Row(0, (testStart+second)*1e9)
			log, began, err := s.Tasks.Log(id, 0, (testStart+second)*1e9)
			must.OK(t, err)
			got := "none"
			if info := log.Info; began {
				got = fmt.Sprint(number(info.StdoutStart), " ", number(info.StdoutEnd), " ", number(info.StderrStart),
					" ", number(info.StderrEnd))
			}
			_, known := r.Paused()
			if got = fmt.Sprintf("%s; known %t", got, known); got != want {
				t.Errorf("%s, %d s after the start: %s, want %s", states, second, got, want)
			}
		}
	}
}

// TestOffsetsBeyond2GiB: Ray writes offsets into 32 bits with a sign, so that those from 2 GiB on are negative.
func TestOffsetsBeyond2GiB(t *testing.T) {
	const lines = `"taskLogInfo":{"stdoutFile":"worker.out","stdoutStart":2147483000,"stdoutEnd":-2147483648,` +
		`"stderrFile":"worker.err","stderrStart":-1,"stderrEnd":-9000000000}`
	k := task{n: 1, name: "f", states: "RUNNING@10 FINISHED@60"}
	id := k.id()
	s := loadTasks(t, []task{k}, fmt.Sprintf(`{"taskLifecycleEvent":{"taskId":%q,"jobId":%q,%s}}`, base64Of(id[:]),
		testJob.Base64(), lines))
	info, _ := s.Tasks.Row(0, tasktable.AtEnd).LogInfo()
	says.Equal(t, fmt.Sprint(number(info.StdoutStart), " ", number(info.StdoutEnd), " ", number(info.StderrStart), " ",
		number(info.StderrEnd)), "2147483000 2147483648 4294967295 0")
}

func number(n *int64) string {
	if n == nil {
		return "nil"
	}
	return fmt.Sprint(*n)
}

// jobFinished is the event that ends the test job.
func jobFinished(second int) string {
	return fmt.Sprintf(`{"driverJobLifecycleEvent":{"jobId":%q,"stateTransitions":[{"state":"FINISHED","timestamp":%q}]}}`,
		testJob.Base64(), time.Unix(testStart+int64(second), 999).UTC().Format(time.RFC3339Nano))
}

// TestAbandoned: what ends an attempt that no event ended, and what does not.
func TestAbandoned(t *testing.T) {
	workerDied := func(second int) string {
		return fmt.Sprintf(`{"workerLifecycleEvent":{"workerId":%q,"stateTransitions":[{"state":"DEAD","timestamp":"2026-11-20T23:30:00Z","endTimeMs":"%d",`+
			`"deathInfo":{"exitType":"NODE_OUT_OF_MEMORY","exitDetail":"too big"}}]}}`,
			base64Of((&rayid.Worker{5, 1})[:]), (testStart+second)*1000)
	}
	died := fmt.Sprintf("FAILED WORKER_DIED Worker running the task (%s) died with exit_type: 4 with error_message: too big", rayid.Worker{5, 1})
	const jobOver = "FAILED WORKER_DIED Job finishes (02000000) as driver exits. Marking all non-terminal tasks as failed."
	running := task{n: 1, name: "f", states: "RUNNING@1", node: 5}
	for _, tt := range []struct {
		name   string
		task   task
		events []string
		want   string
		at     int // second of the end, 0 for none
	}{
		{"nothing ended", running, nil, "RUNNING", 0},
		{"worker died", running, []string{workerDied(3)}, died, 3},
		{"job over", running, []string{jobFinished(4)}, jobOver, 4},
		{"worker died with its job's end", running, []string{workerDied(5), jobFinished(4)}, died, 5},
		{"worker died long after its job's end", running, []string{workerDied(60), jobFinished(4)}, jobOver, 4},
		{"began while its job's tasks are marked", task{n: 1, name: "f", states: "PENDING_ARGS_AVAIL@19 RUNNING@60"},
			[]string{jobFinished(4)}, jobOver, 4},
		{"began after its job's end", task{n: 1, name: "f", states: "PENDING_ARGS_AVAIL@20 RUNNING@60"},
			[]string{jobFinished(4)}, "RUNNING", 60},
		{"began after its job's end, in a state that is rare", task{n: 1, name: "f", states: "PENDING_ARGS_FETCH@20"},
			[]string{jobFinished(4)}, "PENDING_ARGS_FETCH", 20},
		{"began after its job's end, and its worker died", task{n: 1, name: "f", states: "RUNNING@20", node: 5},
			[]string{workerDied(60), jobFinished(4)}, died, 60},
		{"has no state, and its job is over", task{n: 1, name: "f"}, []string{jobFinished(4)}, jobOver, 4},
		{"another's worker died", task{n: 1, name: "f", states: "RUNNING@1", node: 6}, []string{workerDied(3)},
			"RUNNING", 0},
		{"was finished", task{n: 1, name: "f", states: "FINISHED@2", node: 5}, []string{workerDied(3), jobFinished(4)},
			"FINISHED", 2},
		{"had failed", task{n: 1, name: "f", states: "FAILED@2", node: 5, err: "TASK_CANCELLED"},
			[]string{workerDied(3)}, "FAILED TASK_CANCELLED boom in f", 2},
		{"had failed without a word", task{n: 1, name: "f", states: "FAILED@2", node: 5}, []string{workerDied(3)},
			"FAILED", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := loadTasks(t, []task{tt.task}, tt.events...).Tasks.Row(0, 0)
			got := r.State()
			if kind, text, ok := r.Failure(); ok {
				got += fmt.Sprintf(" %s %s", kind, text)
			}
			says.Equal(t, got, tt.want)
			states := r.States(nil)
			if last := states[len(states)-1]; tt.at != 0 && last.Time != int64(testStart+tt.at)*1e9 {
				t.Errorf("ended %d ns after the start, want %d s", last.Time-testStart*1e9, tt.at)
			}
		})
	}
}

// TestLostDeath: of a worker whose last event was lost the saved list tells the death. Where an event tells it, that
// counts.
func TestLostDeath(t *testing.T) {
	const event = `{"workerLifecycleEvent":{"workerId":%q,"stateTransitions":[{"state":%q,"timestamp":"2026-11-20T23:20:02Z",` +
		`"deathInfo":{"exitType":"INTENDED_USER_EXIT","exitDetail":"by an event"}}]}}` + "\n"
	lost, told := rayid.Worker{5, 1}, rayid.Worker{6, 1}
	events := fmt.Sprintf(event, base64Of(lost[:]), "ALIVE") + fmt.Sprintf(event, base64Of(told[:]), "DEAD")
	for i, node := range []byte{5, 6} {
		running := task{n: i + 1, name: "f", states: "RUNNING@1", node: node}
		events += strings.Join(running.events(t), "\n") + "\n"
	}
	var rows []string
	for _, id := range []rayid.Worker{lost, told} {
		rows = append(rows, fmt.Sprintf(`{"worker_id":%q,"is_alive":false,"end_time_ms":%d,"exit_type":"SYSTEM_ERROR",`+
			`"exit_detail":"by the list"}`, id, (testStart+3)*1000))
	}
	b := newBucket()
	b.objects[testWhole] = []byte(events)
	b.objects[layout.SnapshotKey(layout.DefaultRoot, testSession, "/api/v0/workers"+layout.AllRows)] = fmt.Appendf(nil,
		`{"result":true,"data":{"result":{"result":[%s]}}}`, strings.Join(rows, ","))
	s := loadBucket(t, b)
	for i, want := range []string{"by the list", "by an event"} {
		r := s.Tasks.Row(i, 0)
		if _, text, failed := r.Failure(); !failed || !strings.Contains(string(text), want) {
			t.Errorf("task %d is %s: %q, want %q", i, r.State(), text, want)
		}
	}
}

// rowOf gives the i-th row of a selection.
func rowOf(t *testing.T, s *tasktable.Selection, i int) tasktable.Row {
	t.Helper()
	return must.Get(s.Row(i))(t)
}
