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
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

const (
	// maxFailures limits the failed attempts that one report examines.
	maxFailures = 200_000
	// maxErrors is how many bytes of the texts of errors are examined whole, which takes some seconds. Of further ones
	// only so many bytes of the beginning and the end are: the end of a traceback names the exception.
	maxErrors            = 32 << 20
	errorHead, errorTail = 512, 1536
)

// readTasks finds the attempts that failed, and puts those that failed in the same way into one finding. An attempt
// that Ray shows as running also counts if its worker says that it raised an exception: its caller ended just then.
func (b *builder) readTasks() {
	g := taskGroups{b: b, known: map[string]*finding{}}
	g.addAll(tasktable.StateFailed, func(tasktable.Row) bool { return true })
	g.addAll(tasktable.StateRunning, func(row tasktable.Row) bool {
		_, trace := unreportedEnd(row)
		return trace != ""
	})
}

// addAll adds the attempts in a state for which counts returns true, at most maxFailures.
func (g *taskGroups) addAll(state string, counts func(tasktable.Row) bool) {
	b := g.b
	query := tasktable.Query{
		Filters: []tasktable.Filter{{Key: "state", Value: state}}, Limit: maxFailures, ExcludeDriver: true,
		At: b.moment.At, Stop: b.requestErr,
	}
	found, err := b.session.Tasks.Select(query)
	if b.stopOn(err) {
		return
	}
	for i, n := range found.Rows {
		row, err := found.Row(i)
		if b.stopOn(err) || i%1024 == 0 && b.stopOn(b.requestErr()) {
			return
		}
		if counts(row) {
			g.add(row, b.retrySucceeded(int(n), row))
		}
	}
	if found.Matching > len(found.Rows) {
		b.noteMissing("Only the first %d of %d attempts of tasks in state %s were looked at.", len(found.Rows), found.Matching, state)
	}
	b.stopOn(b.session.Tasks.Err())
}

// retrySucceeded reports whether the last attempt of a row's task succeeded. n is the row's number in the table: the
// attempts of a task are rows behind each other, the last attempt first.
func (b *builder) retrySucceeded(n int, row tasktable.Row) bool {
	last := row
	for k := n - 1; k >= 0; k-- {
		before := b.session.Tasks.Row(k, b.moment.At)
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
	key   []byte              // of the attempt that is added, in known; one buffer for all
}

// add adds one failed attempt to the finding about such failures. retried says that a later attempt of its task
// succeeded. An attempt that only ended with its driver is remembered for the finding about the driver instead.
func (g *taskGroups) add(row tasktable.Row, retried bool) {
	kind, text, at, stored := errorOf(row)
	name := string(row.GivenName())
	// Train itself ends a rank that does not answer, and its own error says which and why.
	endedRank := name == "RayTrainWorker.poll_status" && strings.Contains(string(text), "killed by `ray.kill`")
	if strings.HasSuffix(name, endsActor) || endedRank {
		return
	}
	job := g.b.callerJob(row)
	jobEnded := job == row.Job() && isJobEnd(text)
	if stored && (jobEnded || g.b.endedWithDriver(row, string(kind), text, at)) {
		// It ended because its driver did, and the finding about the driver says why. What was killed or cancelled has
		// a finding of its own, too.
		g.b.addAbandoned(row)
		killed := string(kind) == taskCancelled || string(kind) == "ACTOR_DIED"
		if !killed || isJobEnd(text) {
			return
		}
	}
	// Such errors do not depend on how the attempt's process ended, so that attempts with the same text are alike.
	ofText := string(kind) == taskRaised || string(kind) == taskCancelled
	if ofText {
		g.key = append(append(append(g.key[:0], job.String()...), row.Function()...), kind...)
		g.key = appendCommon(g.key, text)
		if f := g.known[string(g.key)]; f != nil {
			f.countTaskAttempt(string(row.GivenName()), at, retried)
			if len(f.Entities) < maxEntities {
				f.addRaiser(g.b.session.Actor(actorIDOf(row)), string(row.GivenName()))
				f.addEntity(g.b.taskEntity(row.ID(), string(row.Name())))
			}
			return
		}
	}
	a := failedAttempt{
		row: row, name: string(row.GivenName()), job: job, node: idOf[rayid.Node](row.Node()),
		worker: idOf[rayid.Worker](row.Worker()), entity: g.b.taskEntity(row.ID(), string(row.Name())),
		kind: string(kind), text: string(text), at: at,
	}
	f := g.b.taskFailed(&a)
	if f == nil {
		return
	}
	if ofText && len(g.known) < 10*maxFindings {
		g.known[string(g.key)] = f
	}
	f.addJob(job)
	if f.mayHaveWaited() && len(g.b.waits) < maxWaits {
		g.b.waits = append(g.b.waits, wait{f, row, at})
	}
	g.b.addFailure(row, f)
	if f.Kind != NodeDied {
		f.countTaskAttempt(a.name, at, retried)
	}
	if f.Kind == OutOfMemory && f == g.b.actors[actorIDOf(row)] {
		f.Count-- // the end of the actor's process is counted already, however many calls ended with it
	}
	f.addEntity(a.entity)
}

// errorOf returns the type and the message of the error of a failed attempt, and when it failed (Unix ns). stored is
// false if no error is known. If the attempt's caller may have ended before it could say what the attempt had raised,
// the attempt's worker says so.
func errorOf(row tasktable.Row) (kind, text []byte, at int64, stored bool) {
	kind, text, stored = row.Failure()
	if !stored || string(kind) == "WORKER_DIED" {
		if end, trace := unreportedEnd(row); trace != "" {
			return []byte(taskRaised), []byte(trace), end, true
		}
	}
	return kind, text, stateAt(row, tasktable.StateFailed), stored
}

// mayHaveWaited reports whether the finding's attempts failed because they had waited for something too long, or with
// words of their own that may mean that.
func (f *finding) mayHaveWaited() bool {
	ownWords := f.Kind == TaskFailed && f.raised.Type != "" && !ownBugs[f.raised.Type] &&
		(tellsOfOthers(f.raised, f.raised.Message) || isGeneric(f.raised) ||
			hasNone().MatchString(f.raised.Message))
	return f.Kind == Timeout || ownWords
}

const (
	taskCancelled = "TASK_CANCELLED" // the kind of error of what somebody cancelled
	taskRaised    = "TASK_EXECUTION_EXCEPTION"
)

// stateAt returns when an attempt came into a state, Unix ns; 0 if it did not, or if that is not known.
func stateAt(row tasktable.Row, state string) int64 {
	var buf [8]tasktable.StateTime
	for _, s := range row.States(buf[:0]) {
		if s.State == state {
			return s.Time
		}
	}
	return 0
}

// appendCommon appends a text to a key, in a form that is the same for all attempts that failed alike: each word with a
// digit becomes "#". Of a text of more than 2 KiB only the first and the last KiB are used.
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

// failedAttempt is an attempt of a task that failed.
type failedAttempt struct {
	row        tasktable.Row
	name       string    // of its task
	job        rayid.Job // for which it was made, see callerJob
	node       rayid.Node
	worker     rayid.Worker
	entity     Entity // its task
	kind, text string // type and message of Ray's error; "" if none is stored
	at         int64  // Unix ns
	evident    Evidence
}

// taskFailed returns the finding about a failed attempt, and adds the attempt's evidence to it. It returns nil if the
// attempt was wanted to end, or if it was added to the finding about its actor.
func (b *builder) taskFailed(a *failedAttempt) *finding {
	if _, trace := executionEnd(a.row); a.kind == taskRaised {
		a.text = cmp.Or(trace, a.text) // Ray's error has only the end of a long traceback
	}
	a.text = b.examined(a.text)
	a.evident = Evidence{
		Source: "event", NodeID: rayid.Hex(a.node), Time: timestamp(a.at),
		Text: fmt.Sprintf("task %s (attempt %d) failed: %s: %s", a.name, a.row.Attempt(),
			cmp.Or(a.kind, "no error was recorded"), a.text),
		Link: a.entity.Link,
	}
	if (attempt{row: a.row}).isConstructor() && b.toldByActor(a) {
		return nil
	}
	death, deathKnown := b.deaths[a.worker] // how its process ended
	workerGone := a.kind == "WORKER_DIED" || a.kind == "LOCAL_RAYLET_DIED"
	memoryRanOut := a.kind == "OUT_OF_MEMORY" || a.kind == "WORKER_DIED" && deathKnown && death.exit == exitOutOfMemory
	nodeLost := a.kind == "NODE_DIED" || workerGone && !deathKnown && b.lostNodes[a.node] != nil
	actorGone := a.kind == "ACTOR_DIED" || a.kind == "ACTOR_UNAVAILABLE" || a.kind == "ACTOR_CREATION_FAILED" ||
		a.kind == "ACTOR_UNSCHEDULABLE_ERROR" && b.actors[actorIDOf(a.row)] != nil
	var f *finding
	switch {
	case memoryRanOut && b.actors[actorIDOf(a.row)].isOutOfMemory():
		f = b.actors[actorIDOf(a.row)] // also of calls that had not reached its process
	case memoryRanOut:
		f = b.outOfMemory(a.job, a.node, a.name, a.text)
	case nodeLost:
		f = b.taskOfLostNode(a)
	case actorGone:
		if class, _, _ := strings.Cut(a.name, "."); !b.isTrainsOwn(class, a.job) {
			b.callsFailed(a)
		}
		return nil
	case workerGone:
		if f = b.taskOfDeadWorker(a); f == nil {
			return nil
		}
	default:
		f = b.taskOfKind(a)
	}
	f.addName(a.name)
	f.addPlace(a.node, a.at)
	f.addEvidence(a.evident)
	f.showRaiser(a.name, a.entity, a.evident)
	return f
}

// examined returns what is examined of an error's text, see maxErrors.
func (b *builder) examined(text string) string {
	if b.errorBytes += len(text); b.errorBytes > maxErrors {
		return output.Ends(text, errorHead, errorTail)
	}
	return text
}

// toldByActor reports whether an attempt to create an actor, which failed, needs no finding of its own: there is one
// about the actor's death, to which it is added as evidence, or the actor's end was wanted.
func (b *builder) toldByActor(a *failedAttempt) bool {
	id := actorIDOf(a.row)
	if died := b.actors[id]; died != nil {
		if died.Kind != NodeDied { // that has evidence of the node
			died.addEvidence(a.evident)
		}
		return true
	}
	actor, _ := b.actorState(id) // zero if the actor is not known
	switch {
	case actor.State == moment.Dead && wasIntendedDeath(actor.Cause()): // perhaps before its constructor returned
		return true
	case strings.HasPrefix(a.text, nameTaken):
		return true // who wanted to make it got an exception at once, and with get_if_exists=True the other actor
	}
	return false
}

// taskOfDeadWorker returns the finding about attempts of one name that failed because their worker's process ended; nil
// if the process was told to end, for example because its job had ended. The end of a process whose placement group was
// removed has a finding, which is marked as intended.
func (b *builder) taskOfDeadWorker(a *failedAttempt) *finding {
	death, known := b.deaths[a.worker]
	switch {
	case known && strings.Contains(death.detail, groupRemoved):
		f := b.findOrAdd(WorkerDied, a.job.String()+a.name+groupRemoved)
		f.intended = true
		f.Title = fmt.Sprintf("%s was ended because its placement group was removed", a.name)
		f.addEvidence(death.evident)
		return f
	case known && death.wasIntended():
		return nil
	case !known:
		death.detail = a.text
	}
	f := b.processDied(WorkerDied, a.job.String()+a.name, fmt.Sprintf("The worker that ran %s died", a.name), a.worker,
		death)
	if strings.Contains(death.detail, output.TracebackStart) {
		f.raised = output.ExceptionOf(death.detail)
	}
	f.addEntity(b.nodeEntity(a.node))
	f.addEvidence(a.evident) // above the death; when taskFailed adds it, it is there already
	f.addEvidence(death.evident)
	return f
}

// nameTaken begins the GCS's text about an actor that was not made, as another one has its name
// (gcs_actor_manager.cc).
const nameTaken = "AlreadyExists: Actor with name "

// groupRemoved is in the raylet's text about a worker that it ended for this reason.
const groupRemoved = "its placement group was removed"

// taskOfKind returns the finding about a failed attempt if neither its worker, its actor nor its node ended.
func (b *builder) taskOfKind(a *failedAttempt) (f *finding) {
	key := a.job.String() + a.name
	switch kind := a.kind; {
	case kind == taskCancelled:
		f = b.findOrAdd(Cancelled, key)
		f.intended = true
		f.Title = fmt.Sprintf("%s was cancelled", a.name)
	case kind == "RUNTIME_ENV_SETUP_FAILED":
		f = b.envFailed(a.job, a.name, a.text)
	case strings.HasSuffix(kind, "UNSCHEDULABLE_ERROR") || strings.HasSuffix(kind, "PLACEMENT_GROUP_REMOVED") ||
		kind == "WORKER_STARTUP_FAILED":
		f = b.notScheduled(a.name, key, a.text, a.job)
	case kind == "OUT_OF_DISK_ERROR":
		f = b.findOrAdd(ObjectStore, "disk "+a.job.String())
		f.Title = fmt.Sprintf("%s failed because the disk of its node was full", a.name)
	case strings.HasPrefix(kind, "OBJECT_") || kind == "OWNER_DIED" || kind == "DEPENDENCY_RESOLUTION_FAILED":
		f = b.findOrAdd(ObjectLost, key+kind)
		id, why, _ := strings.Cut(a.text, "\n\n") // between them is advice
		f.Title = fmt.Sprintf("%s failed because an object was lost: %s", a.name,
			strings.TrimSpace(output.FirstSentence(id)+" "+output.FirstSentence(why)))
		f.addJob(a.job)
		// Somebody freed the object, or cancelled the task that made it: no node took it along.
		if kind != "OBJECT_FREED" && kind != "OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED" {
			b.linkLostNode(f, a.text)
		}
	default:
		f = b.raisedBy(a)
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

// pinnedNodeGone is in Ray's message about what only one node should run, which is not there (any more).
const pinnedNodeGone = "The node specified via NodeAffinitySchedulingStrategy doesn't exist any more"

// notScheduled returns the finding about a task or an actor that Ray gave up before a worker ran it. task names it in
// the title, key is the finding's key, text is Ray's message, and job the one that it is of.
func (b *builder) notScheduled(task, key, text string, job rayid.Job) *finding {
	if at := strings.Index(text, startupFailed); at >= 0 {
		f := b.findOrAdd(WorkerStart, key)
		f.Title = fmt.Sprintf("%s was not run because its worker processes did not start: %s", task,
			output.FirstSentence(text[at:]))
		for _, other := range b.findings { // the message names the node
			if other.Kind == WorkerStart && slices.ContainsFunc(other.Entities,
				func(e Entity) bool { return e.Type == "node" && strings.Contains(text, e.ID) }) {
				f.causedBy(other)
			}
		}
		return f
	}
	if groupIsGone().MatchString(text) {
		f := b.findOrAdd(Unschedulable, key+groupRemoved)
		f.intended = true
		f.Title = fmt.Sprintf("%s was not run because its placement group was removed", task)
		return f
	}
	f := b.findOrAdd(Unschedulable, key)
	f.Title = fmt.Sprintf("%s could not be scheduled: %s", task, output.FirstSentence(text))
	if strings.Contains(text, pinnedNodeGone) {
		f.addJob(job) // nodes that were lost before it began are no cause
		b.linkLostNode(f, text)
	}
	return f
}

// actorState returns the state of an actor at the moment of the report; known is false if nothing of the actor is
// stored.
func (b *builder) actorState(id rayid.Actor) (state moment.ActorState, known bool) {
	if a := b.session.Actor(id); a != nil {
		return moment.ActorAt(a, b.moment.At)
	}
	return state, false
}

// idOf returns the ID whose bytes a row has; the nil ID if the row has none.
func idOf[T rayid.ID](raw []byte) T {
	id, _ := rayid.ParseBytes[T]([]byte(hex.EncodeToString(raw)))
	return id
}

// makerOf returns the job whose task made an attempt. Ray counts a call of another job's actor to the actor's job, but
// the ID of its parent has the caller's.
func makerOf(row tasktable.Row) rayid.Job {
	return cmp.Or(idOf[rayid.Task](row.Parent()).Job(), row.Job())
}

// callerJob returns the job for which an attempt was made: mostly that whose task made it, see jobThen.
func (b *builder) callerJob(row tasktable.Row) rayid.Job {
	return b.jobThen(makerOf(row), row.FirstStateAt())
}

// jobThen returns the job for which something of a job, maker, was made at a time (Unix ns). What was made after the
// maker's end was made by a detached actor, such as a replica of Serve: it is for the only job that ran then.
func (b *builder) jobThen(maker rayid.Job, at int64) rayid.Job {
	if j := b.jobOfID(maker); j == nil || j.End == 0 || at-j.End < minHung {
		return maker
	}
	return cmp.Or(b.soleJobAt(at), maker)
}

// soleJobAt returns the only job that ran at a time (Unix ns); the nil ID if none or several did.
func (b *builder) soleJobAt(at int64) (sole rayid.Job) {
	for i := range b.jobs {
		j := &b.jobs[i]
		switch {
		case j.id.Nil() || j.Start > at || j.End != 0 && j.End < at:
		case !sole.Nil():
			return rayid.Job{}
		default:
			sole = j.id
		}
	}
	return sole
}

// actorIDOf returns the ID of the actor that an attempt created or called; the nil ID for other tasks.
func actorIDOf(row tasktable.Row) rayid.Actor { return idOf[rayid.Actor](row.Actor()) }

// taskOfLostNode returns the finding about attempts of one name that failed because their node died, and links it to
// the finding about the node.
func (b *builder) taskOfLostNode(a *failedAttempt) *finding {
	node := a.node
	if named := b.lostNodeIn(a.evident.Text); b.lostNodes[node] == nil && !named.Nil() {
		node = named // the attempt does not name the node, but Ray's message may
	}
	f := b.findOrAdd(TaskFailed, a.job.String()+a.name+a.kind+node.String())
	f.helpName = withItsNode
	if node.Nil() {
		f.Title = fmt.Sprintf("%s failed because its node died", a.name)
		return f
	}
	lost := b.nodeLost(node)
	if lost.Count == 0 {
		lost.count(stateAt(a.row, tasktable.StateFailed))
	}
	lost.describe(occurrence{job: a.job, name: a.name, evidence: []Evidence{a.evident}})
	f.Title = fmt.Sprintf("%s failed because its node %s died", a.name, b.nodeName(node))
	f.causedBy(lost)
	return f
}

// rewordedIn returns the exception that a function of the program handled and raised raised in its place, if raised
// says less: only that something failed, or one word; "" if there is none. text is their traceback.
func rewordedIn(text string, raised output.Exception) string {
	handled := output.Handled(text)
	inSameTask := handled.Function == "" || handled.Function == raised.Function
	saysLess := tellsOfOthers(raised, raised.Message) || raised.Own && !strings.Contains(raised.Message, " ")
	isLess := saysLess && output.Reworded(text) || output.CleaningFailed(text)
	if handled.Message == "" || !inSameTask || !isLess {
		return ""
	}
	return handled.String()
}

// raisedBy returns the finding about an exception that a task raised, or that was raised in a task that it called.
func (b *builder) raisedBy(a *failedAttempt) *finding {
	raised, actor := output.ExceptionOf(a.text), b.session.Actor(actorIDOf(a.row))
	wholeKey := "" // texts without an exception are the same failure only if all of them is the same
	// Ray may have kept only the end of its text
	if m := ownerWorker().FindStringSubmatch(a.text); m != nil && raised.Type == "" {
		raised.Type, raised.Message = "OwnerDiedError", "an object was lost: its owner has died. Owner Id: "+m[1]
	}
	if raised.Type == "" {
		said, _ := output.Crash(a.text)
		raised.Message = cmp.Or(said, output.FirstSentence(strings.TrimPrefix(a.text, "User exception:")))
		wholeKey = string(appendCommon(nil, []byte(a.text)))
	}
	raiser := cmp.Or(raised.Function, a.name)
	if trial := trialOf(a.text); trial != "" && raiser == trialRun {
		raiser = "Tune trial " + trial
	}
	cancelled := raised.Type == "TaskCancelledError" || raised.Type == "RequestCancelledError" || // the latter: Serve's
		raised.Message == "'Handlers' object is not callable" // ray.cancel while Ray defers SIGINT (DeferSigint)
	findingKind := TaskFailed
	switch {
	case cancelled:
		findingKind = Cancelled
	case isTimeout(raised):
		findingKind = Timeout
	case raised.Type == "OutOfDiskError" || raised.Type == "ObjectStoreFullError":
		findingKind = ObjectStore
	}
	function := raiser
	if raiser == a.name {
		function = string(a.row.Function()) // tasks of one function may have different names
	}
	failedAlike := function + raised.Type + output.Normalised(raised.Message) + wholeKey
	f := b.findOrAdd(findingKind, a.job.String()+failedAlike)
	f.raised, f.intended = raised, findingKind == Cancelled
	if f.Title == "" {
		who := raiser
		if actor != nil && raiser == a.name && actor.Name != "" {
			who += " (" + actor.Name + ")"
		}
		f.Title = fmt.Sprintf("%s failed: %s", who, cmp.Or(raised.String(), a.kind, "no error was recorded"))
		f.tellEarlier(rewordedIn(a.text, raised))
	}
	f.addName(raiser)
	f.addRaiser(actor, a.name)
	// readActors found actors before whose constructors got an argument that raised the exception.
	for _, died := range b.findings {
		if died.ofArgument && died.job == a.row.Job() && died.raised.Same(raised) {
			died.causedBy(f)
		}
	}
	f.addJob(a.job)
	b.linkException(f, a.text)
	return f
}
