package findings

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// maxFailures limits the failed attempts that one report examines.
const maxFailures = 200_000

// readTasks groups the failed attempts by cause: also those of which only their workers say that they had failed, as
// their callers ended just then.
func (b *builder) readTasks() {
	g := taskGroups{b: b, known: map[string]*finding{}}
	g.addAll(tasktable.StateFailed, func(tasktable.Row) bool { return true })
	g.addAll(tasktable.StateRunning, func(row tasktable.Row) bool {
		_, trace := (attempt{row: row}).endedUnseen()
		return trace != ""
	})
}

// addAll adds the attempts in a state that count.
func (g *taskGroups) addAll(state string, counts func(tasktable.Row) bool) {
	b := g.b
	query := tasktable.Query{
		Filters: []tasktable.Filter{{Key: "state", Value: state}}, Limit: maxFailures, ExcludeDriver: true, At: b.r.At,
		Stop: b.stopped,
	}
	found, err := b.s.Tasks.Select(query)
	if b.fail(err) {
		return
	}
	for i, n := range found.Rows {
		row, err := found.Row(i)
		if b.fail(err) || i%1024 == 0 && b.fail(b.stopped()) {
			return
		}
		if counts(row) {
			g.add(row, b.retried(int(n), row))
		}
	}
	if found.Matching > len(found.Rows) {
		b.missing = append(b.missing, fmt.Sprintf("Only the first %d of %d attempts of tasks in state %s were looked at.",
			len(found.Rows), found.Matching, state))
	}
	b.fail(b.s.Tasks.Err())
}

// retried reports whether a later attempt of a failed row's task succeeded. A task's last attempt is its first row.
func (b *builder) retried(n int, row tasktable.Row) bool {
	last := row
	for k := n - 1; k >= 0; k-- {
		before := b.s.Tasks.Row(k, b.r.At)
		if before.ID() != row.ID() {
			break
		}
		last = before
	}
	return last.State() == tasktable.StateFinished
}

// taskGroups adds failed attempts to findings.
type taskGroups struct {
	b     *builder
	known map[string]*finding // by what failed and how, without what differs between attempts
	key   []byte
}

// add adds one failed attempt.
func (g *taskGroups) add(row tasktable.Row, retried bool) {
	kind, text, ok := row.Failure()
	at := failedAt(row)
	if !ok || string(kind) == "WORKER_DIED" { // its caller may have ended before it could say what it had raised
		if end, trace := (attempt{row: row}).endedUnseen(); trace != "" {
			kind, text, at, ok = []byte(taskRaised), []byte(trace), end, true
		}
	}
	switch {
	case !ok:
		kind = nil
	case callerOf(row) == row.Job() && isJobEnd(text) || g.b.vanished(row, string(kind), text, at):
		g.b.addAbandoned(row) // it ended because its driver did; the finding about the driver says why
		if kind := string(kind); kind != taskCancelled && kind != "ACTOR_DIED" || isJobEnd(text) {
			return
		}
	}
	own := string(kind) == taskRaised || string(kind) == taskCancelled
	if own { // such errors do not depend on how the attempt's process ended
		g.key = append(append(append(g.key[:0], callerOf(row).String()...), row.Function()...), kind...)
		g.key = appendCommon(g.key, text)
		if f := g.known[string(g.key)]; f != nil {
			f.failedIn(string(row.GivenName()), at, retried)
			if len(f.Entities) < maxEntities {
				f.addRaiser(g.b.s.Actor(actorOf(row)), string(row.GivenName()))
				f.addEntity(g.b.taskEntity(row.ID(), string(row.Name())))
			}
			return
		}
	}
	f := g.b.taskFailed(row, string(kind), string(text), at)
	if f == nil {
		return
	}
	if own && len(g.known) < 10*maxFindings {
		g.known[string(g.key)] = f
	}
	f.addJob(callerOf(row))
	ownWords := f.Kind == TaskFailed && f.raised.Type != "" && !ownBugs[f.raised.Type] &&
		(tellsOfOthers(f.raised, f.raised.Message) || general().MatchString(f.raised.Type) ||
			hasNone().MatchString(f.raised.Message))
	if (f.Kind == Timeout || ownWords) && len(g.b.waits) < maxWaits {
		g.b.waits = append(g.b.waits, wait{f, row, at})
	}
	g.b.addFailure(row, f)
	if f.Kind != NodeDied {
		f.failedIn(string(row.GivenName()), at, retried)
	}
	if f.Kind == OutOfMemory && f == g.b.actors[actorOf(row)] {
		f.Count-- // the end of the actor's process is counted already, however many calls ended with it
	}
	f.addEntity(g.b.taskEntity(row.ID(), string(row.Name())))
}

const (
	taskCancelled = "TASK_CANCELLED" // the kind of error of what somebody cancelled
	taskRaised    = "TASK_EXECUTION_EXCEPTION"
)

// failedAt returns when an attempt failed, Unix ns; 0 if that is not known.
func failedAt(row tasktable.Row) int64 {
	var buf [8]tasktable.StateTime
	for _, s := range row.States(buf[:0]) {
		if s.State == tasktable.StateFailed {
			return s.Time
		}
	}
	return 0
}

// appendCommon appends a message to a key. It replaces words that contain digits by #, because they differ between
// attempts. Of a long message it uses only the beginning and the end.
func appendCommon(key, text []byte) []byte {
	const maxPart = 1024
	if len(text) > 2*maxPart {
		key = appendCommon(key, text[:maxPart])
		text = text[len(text)-maxPart:]
	}
	for i := 0; i < len(text); {
		j, digits := i, false
		for j < len(text) && (text[j]|0x20 >= 'a' && text[j]|0x20 <= 'z' || text[j] >= '0' && text[j] <= '9') {
			digits = digits || text[j] <= '9'
			j++
		}
		switch {
		case j == i:
			key = append(key, text[i])
			j++
		case digits:
			key = append(key, '#')
		default:
			key = append(key, text[i:j]...)
		}
		i = j
	}
	return key
}

// ownerWorker matches the part of Ray's message that names the process that owned a lost object.
var ownerWorker = lazyregexp.New(`Owner worker ID: ([0-9a-f]{56})(?:, owner node ID: ([0-9a-f]{56}))?`)

var actorID = lazyregexp.New(`actor_id: ?([0-9a-f]{32})`)

// taskFailed returns the finding for a failed attempt, and adds it if there is none yet. It returns nil if the attempt
// needs no finding, or is already part of one.
func (b *builder) taskFailed(row tasktable.Row, kind, text string, at int64) *finding {
	name := string(row.GivenName())
	if kind == taskRaised {
		text = wholeText(row, text)
	}
	worker := idOf[rayid.Worker](row.Worker())
	node := idOf[rayid.Node](row.Node())
	evident := Evidence{
		Source: "event", NodeID: rayid.Hex(node), Time: stamp(at),
		Text: fmt.Sprintf("task %s (attempt %d) failed: %s: %s", name, row.Attempt(),
			cmp.Or(kind, "no error was recorded"), text),
		Link: b.link("#/tasks/%s", row.ID()),
	}
	death, dead := b.deaths[worker]
	made, _ := b.actorState(actorOf(row))
	workerGone := kind == "WORKER_DIED" || kind == "LOCAL_RAYLET_DIED"
	var f *finding
	switch {
	case string(row.Type()) == eventjson.TypeActorCreation && b.actors[actorOf(row)] != nil:
		if died := b.actors[actorOf(row)]; died.Kind != NodeDied {
			died.addEvidence(evident)
		}
		return nil
	case string(row.Type()) == eventjson.TypeActorCreation && made.State == moment.Dead &&
		intended(made.Cause()):
		return nil // its end may have come before its constructor returned
	case string(row.Type()) == eventjson.TypeActorCreation && strings.HasPrefix(text, nameTaken):
		return nil // who wanted to make it got an exception at once, and with get_if_exists=True the other actor
	case kind == "OUT_OF_MEMORY" || dead && death.exit == exitOutOfMemory && kind == "WORKER_DIED":
		f = b.outOfMemory(callerOf(row), node, name, text)
	case kind == "NODE_DIED" || workerGone && !dead && b.lost[node] != nil:
		f = b.taskOfLostNode(row, node, name, kind, evident)
	case kind == "ACTOR_DIED" || kind == "ACTOR_UNAVAILABLE" || kind == "ACTOR_CREATION_FAILED" ||
		kind == "ACTOR_UNSCHEDULABLE_ERROR" && b.actors[actorOf(row)] != nil:
		b.callsFailed(row, name, kind, text, evident)
		return nil
	case workerGone:
		if dead && strings.Contains(death.detail, groupRemoved) {
			f = b.find(WorkerDied, callerOf(row).String()+name+groupRemoved)
			f.intended = true
			f.Title = fmt.Sprintf("%s was ended because its placement group was removed", name)
			f.addEvidence(death.evident)
			break
		}
		if dead && death.intended() {
			return nil // the worker was told to end, for example because its job had ended
		}
		if !dead {
			death.detail = text
		}
		f = b.processDied(WorkerDied, callerOf(row).String()+name, fmt.Sprintf("The worker that ran %s died", name), worker,
			death)
		if strings.Contains(death.detail, output.TracebackStart) {
			f.raised = output.ExceptionOf(death.detail)
		}
		f.addEntity(b.nodeEntity(node))
		f.addEvidence(evident)
		if dead {
			f.addEvidence(death.evident)
		}
	default:
		f = b.taskOfKind(row, name, kind, text)
	}
	f.addName(name)
	f.addPlace(node, at)
	f.addEvidence(evident)
	f.showRaiser(name, b.taskEntity(row.ID(), string(row.Name())), evident)
	return f
}

// nameTaken begins the GCS's text about an actor that was not made, as another one has its name
// (gcs_actor_manager.cc).
const nameTaken = "AlreadyExists: Actor with name "

// groupRemoved is in the raylet's text about a worker that it ended for this reason.
const groupRemoved = "its placement group was removed"

// taskOfKind returns the finding about attempts for which the kind of error, or its text, says what failed.
func (b *builder) taskOfKind(row tasktable.Row, name, kind, text string) *finding {
	var f *finding
	switch {
	case kind == taskCancelled:
		f = b.find(Cancelled, callerOf(row).String()+name)
		f.intended = true
		f.Title = fmt.Sprintf("%s was cancelled", name)
	case kind == "RUNTIME_ENV_SETUP_FAILED":
		f = b.envFailed(callerOf(row), name, text)
	case strings.HasSuffix(kind, "UNSCHEDULABLE_ERROR") || strings.HasSuffix(kind, "PLACEMENT_GROUP_REMOVED") ||
		kind == "WORKER_STARTUP_FAILED":
		f = b.notScheduled(name, callerOf(row).String()+name, text)
	case kind == "OUT_OF_DISK_ERROR":
		f = b.find(ObjectStore, "disk "+callerOf(row).String())
		f.Title = fmt.Sprintf("%s failed because the disk of its node was full", name)
	case strings.HasPrefix(kind, "OBJECT_") || kind == "OWNER_DIED" || kind == "DEPENDENCY_RESOLUTION_FAILED":
		f = b.find(ObjectLost, callerOf(row).String()+name+kind)
		f.Title = fmt.Sprintf("%s failed because an object was lost: %s", name, output.FirstSentence(text))
		f.addJob(callerOf(row))
		b.linkLostObject(f, kind, text)
	default:
		f = b.raisedBy(row, name, kind, text)
	}
	return f
}

// startupFailed is in Ray's messages about tasks and actors that it gave up because their worker processes had ended
// again and again before Ray could use them.
const startupFailed = "Failed to startup worker after"

// groupIsGone matches Ray's messages about tasks and actors that had not started when their placement group was
// removed.
var groupIsGone = lazyregexp.New(
	`Required placement group [0-9a-f]+ is removed|its associated placement group was removed`)

// notScheduled returns the finding about a task or an actor that Ray gave up before a worker ran it. task names it in
// the title, and text is Ray's message.
func (b *builder) notScheduled(task, key, text string) *finding {
	if at := strings.Index(text, startupFailed); at >= 0 {
		f := b.find(WorkerStart, key)
		f.Title = fmt.Sprintf("%s was not run because its worker processes did not start: %s", task,
			output.FirstSentence(text[at:]))
		for _, other := range b.all { // the message names the node
			if other.Kind == WorkerStart && slices.ContainsFunc(other.Entities,
				func(e Entity) bool { return e.Type == "node" && strings.Contains(text, e.ID) }) {
				f.causedBy(other)
			}
		}
		return f
	}
	if groupIsGone().MatchString(text) {
		f := b.find(Unschedulable, key+groupRemoved)
		f.intended = true
		f.Title = fmt.Sprintf("%s was not run because its placement group was removed", task)
		return f
	}
	f := b.find(Unschedulable, key)
	f.Title = fmt.Sprintf("%s could not be scheduled: %s", task, output.FirstSentence(text))
	return f
}

// actorState returns the state of an actor; false if nothing of the actor is known.
func (b *builder) actorState(id rayid.Actor) (state moment.ActorState, known bool) {
	if a := b.s.Actor(id); a != nil {
		return moment.ActorAt(a, b.r.At)
	}
	return state, false
}

// idOf returns an ID from a row; nil if the row has none.
func idOf[T rayid.ID](raw []byte) T {
	id, _ := rayid.ParseBytes[T]([]byte(hex.EncodeToString(raw)))
	return id
}

// callerOf returns the job that an attempt was made for. To Ray a call of another job's actor is of the actor's job;
// but the ID of the task that made the call ends with the caller's job.
func callerOf(row tasktable.Row) rayid.Job {
	if caller := idOf[rayid.Task](row.Parent()).Job(); !caller.Nil() {
		return caller
	}
	return row.Job()
}

func actorOf(row tasktable.Row) rayid.Actor { return idOf[rayid.Actor](row.Actor()) }

// taskOfLostNode returns the finding about attempts of one function that failed because a node died.
func (b *builder) taskOfLostNode(row tasktable.Row, node rayid.Node, name, kind string, evident Evidence) *finding {
	if named := b.lostNodeIn(evident.Text); b.lost[node] == nil && !named.Nil() {
		node = named // the attempt does not name the node, but Ray's message may
	}
	f := b.find(TaskFailed, callerOf(row).String()+name+kind+node.String())
	f.advised = withItsNode
	if node.Nil() {
		f.Title = fmt.Sprintf("%s failed because its node died", name)
		return f
	}
	lost := b.nodeLost(node)
	if lost.Count == 0 {
		lost.count(failedAt(row))
	}
	lost.describe(occurrence{job: callerOf(row), name: name, evidence: []Evidence{evident}})
	f.Title = fmt.Sprintf("%s failed because its node %s died", name, b.nodeName(node))
	f.causedBy(lost)
	return f
}

// replicaCall matches the name of a method of a Serve replica, "ServeReplica:app:deployment.method", also behind the
// replica's own name.
var replicaCall = lazyregexp.New(`^(?:SERVE_REPLICA::[^:]*:)?ServeReplica:([^:]+):([^.:]+)`)

// raisedBy returns the finding about an exception that a task raised, or that was raised in a task that it called. name
// is the task's; kind and text are Ray's type of its error and the message.
func (b *builder) raisedBy(row tasktable.Row, name, kind, text string) *finding {
	raised := output.ExceptionOf(text)
	common := "" // texts that are not understood are the same failure only if all of them is the same
	if raised.Type == "" {
		said, _ := output.Crash(text)
		raised.Message = cmp.Or(said, output.FirstSentence(strings.TrimPrefix(text, "User exception:")))
		common = string(appendCommon(nil, []byte(text)))
	}
	raiser := cmp.Or(raised.Function, name)
	if trial := trialOf(text); trial != "" && raiser == trialRun {
		raiser = "Tune trial " + trial
	}
	cancelled := raised.Type == "TaskCancelledError" || raised.Type == "RequestCancelledError" || // the latter: Serve's
		raised.Message == "'Handlers' object is not callable" // ray.cancel while Ray defers SIGINT (DeferSigint)
	if m := replicaCall().FindStringSubmatch(raiser); m != nil && !cancelled {
		f := b.replicaFailed(m[1], m[2], raised)
		if f.Title == "" {
			f.Title = fmt.Sprintf("Calls of deployment %s of application %s raised %s", m[2], m[1], raised)
		}
		return f
	}
	class := TaskFailed
	switch {
	case cancelled:
		class = Cancelled
	case isTimeout(raised):
		class = Timeout
	case raised.Type == "OutOfDiskError" || raised.Type == "ObjectStoreFullError":
		class = ObjectStore
	}
	function := raiser
	if raiser == name {
		function = string(row.Function()) // tasks of one function may have different names
	}
	f := b.find(class, callerOf(row).String()+function+raised.Type+output.Normalised(raised.Message)+common)
	f.raised, f.intended = raised, class == Cancelled
	if f.Title == "" {
		who := raiser
		if a := b.s.Actor(actorOf(row)); a != nil && raiser == name && a.Name != "" {
			who += " (" + a.Name + ")"
		}
		f.Title = fmt.Sprintf("%s failed: %s", who, cmp.Or(raised.String(), kind, "no error was recorded"))
		if handled := output.Handled(text); output.Reworded(text) && handled.Message != "" && handled.Function == "" &&
			tellsOfOthers(raised, raised.Message) {
			f.tellEarlier(handled.String())
		}
	}
	f.addName(raiser)
	f.addRaiser(b.s.Actor(actorOf(row)), name)
	if raised.More > 0 {
		f.addEvidence(Evidence{Source: "event", Text: fmt.Sprintf("task %s raised %s with %d more in its group: %s",
			name, raised, raised.More, text), Link: b.link("#/tasks/%s", row.ID())})
	}
	// readActors found actors before whose constructors got an argument that raised the exception.
	for _, died := range b.all {
		if died.ofArgument && died.job == row.Job() && died.raised.Same(raised) {
			died.causedBy(f)
		}
	}
	f.addJob(callerOf(row))
	b.linkException(f, text)
	return f
}
