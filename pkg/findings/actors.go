package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

const outOfMemory = "oomContext" // the context of actors that Ray's memory monitor killed

// intendedDeaths holds the reasons of deaths that are no failure of the actor: somebody wanted the death, or the
// actor's owner ended.
var intendedDeaths = map[string]bool{"RAY_KILL": true, "OUT_OF_SCOPE": true, "REF_DELETED": true, "OWNER_DIED": true}

var actorExit = lazyregexp.New(`Worker exit type: (\w+)`)

// wasIntendedDeath reports whether an actor's death is no failure: somebody wanted it, or the actor's owner ended.
func wasIntendedDeath(c moment.Cause) bool {
	m := actorExit().FindStringSubmatch(c.Text)
	return intendedDeaths[c.Reason] || m != nil && (death{exit: m[1]}).wasIntended()
}

// readActors finds the actors that died, or that Ray started again. Of the actors that Ray runs for itself it finds
// only those for which there was no memory: how the others ended is told by the findings about what they serve.
func (b *builder) readActors() {
	for i := range b.session.Actors {
		a := &b.session.Actors[i]
		state, existed := moment.ActorAt(a, b.moment.At)
		if !existed || b.runsForRay(a.Class, a.Job) && state.Cause().Context != outOfMemory {
			continue
		}
		processes := b.formerProcesses(a, state)
		for _, p := range processes {
			b.actorRestarted(a, p)
		}
		// After the last of many processes no other one followed, so its end was not repaired.
		if f := b.actors[a.ID]; len(processes) >= crashLoop && !state.Placed && f != nil && f.recovered > 0 {
			f.recovered, f.unrecovered = f.recovered-1, f.unrecovered+1
		}
		if state.State != moment.Dead {
			continue
		}
		if c := state.Cause(); c.Text != "" && !wasIntendedDeath(c) {
			b.actorDied(a, state, c)
		}
	}
}

// failedOn matches the GCS's line about a process of an actor that ended (gcs_actor_manager.cc), and whether Ray starts
// the actor again. Of a process that ended in the actor's constructor no event names the worker.
var failedOn = lazyregexp.New(
	`Actor is failed on worker ([0-9a-f]{56}) at node ([0-9a-f]{56}), need_reschedule = ([01]), .* actor_id=([0-9a-f]{32})\b`)

// failedProcesses returns the matches of failedOn about an actor, in the log's order.
func (b *builder) failedProcesses(a *entities.Actor) []match {
	return b.logs.about("gcs_server.out", failedOn(), 4, a.ID.String())
}

// lastWorker returns the process in which an actor runs or ran last, also one that ended in the constructor.
func (b *builder) lastWorker(a *entities.Actor, state moment.ActorState) rayid.Worker {
	if failed := b.failedProcesses(a); state.Worker.Nil() && state.Restarts == 0 && len(failed) > 0 {
		state.Worker, _ = rayid.Parse[rayid.Worker](failed[0].groups[1]) // the expression matched 56 digits
	}
	return state.Worker
}

// formerProcesses returns the processes in which an actor ran before Ray started it again: those that were ready, and
// those that ended in the actor's constructor, of which only the GCS's log tells.
func (b *builder) formerProcesses(a *entities.Actor, state moment.ActorState) []moment.ActorProcess {
	all := state.RestartedProcesses()
	if state.Restarts == 0 {
		return all
	}
	for _, m := range b.failedProcesses(a) {
		worker, err := rayid.Parse[rayid.Worker](m.groups[1])
		known := slices.ContainsFunc(all, func(p moment.ActorProcess) bool { return p.Worker == worker })
		if err == nil && !known && m.groups[3] == "1" && worker != state.Worker {
			node, _ := rayid.Parse[rayid.Node](m.groups[2]) // the expression matched 56 hexadecimal digits
			all = append(all, moment.ActorProcess{Node: node, Worker: worker, Left: m.at})
		}
	}
	return all
}

// actorName returns an actor's class, with the actor's own name in parentheses if it has one.
func actorName(a *entities.Actor) string {
	if a.Name != "" && a.Name != a.Class {
		return fmt.Sprintf("%s (%s)", a.Class, a.Name)
	}
	return a.Class
}

func (b *builder) actorEntity(a *entities.Actor) Entity {
	return Entity{Type: "actor", ID: a.ID.String(), Name: cmp.Or(a.Name, a.Class), Link: b.link("#/actors/%s", a.ID)}
}

// argumentFailed is in Ray's messages about tasks that were not run because one of their arguments had failed.
const argumentFailed = "At least one of the input arguments for this task could not be computed"

// actorDied adds an actor's death to the finding about deaths with the same cause. state is the actor's at its death,
// and c is what Ray tells of it. The causes are asked for in this order: the constructor, the runtime environment,
// resources that no node had, memory, the node, and at last how the actor's process ended.
func (b *builder) actorDied(a *entities.Actor, state moment.ActorState, c moment.Cause) {
	name, key := actorName(a), a.Job.String()+a.Class
	state.Worker = b.lastWorker(a, state)
	d, known := b.deaths[state.Worker] // how its process ended
	evident := Evidence{Source: "event", NodeID: rayid.Hex(state.Node), Time: timestamp(state.Ended), Text: c.Text,
		Link: b.link("#/actors/%s", a.ID)}
	if state.Node.Nil() && c.Reason == "NODE_DIED" {
		state.Node = b.lostNodeIn(c.Text) // its process had not started there
	}
	var f *finding
	switch {
	case c.Context == "creationTaskFailureContext":
		raised := output.ExceptionOf(c.Text)
		f = b.findOrAdd(ActorDied, key+raised.Type+output.Normalised(raised.Message))
		f.raised = raised
		how := "its constructor raised"
		if f.ofArgument = strings.Contains(c.Text, argumentFailed); f.ofArgument {
			how = "an argument of its constructor failed:"
		}
		f.Title = fmt.Sprintf("Actor %s could not be created: %s %s", name, how,
			cmp.Or(raised.String(), output.FirstSentence(c.Text)))
	case c.Context == "runtimeEnvFailedContext":
		f = b.envFailed(a.Job, name, c.Text)
	case c.Context == "actorUnschedulableContext":
		f = b.notScheduled("Actor "+name, key, c.Text, a.Job)
	case c.Context == outOfMemory || known && d.exit == exitOutOfMemory || strings.Contains(c.Text, exitOutOfMemory):
		f = b.outOfMemory(a.Job, state.Node, name, c.Text)
	case c.Reason == "NODE_DIED" || b.lostNodes[state.Node] != nil && !known: // it did not end by itself
		f = b.findOrAdd(ActorDied, "node "+key+state.Node.String())
		f.Title, f.helpName = fmt.Sprintf("Actor %s died with its node %s", name, b.nodeName(state.Node)),
			actorWithItsNode
		if !state.Node.Nil() {
			lost := b.nodeLost(state.Node) // also if its raylet was told to end
			if lost.Count == 0 {
				lost.count(state.Ended)
			}
			f.causedBy(lost)
			lost.describe(occurrence{job: a.Job, name: "actor " + name, evidence: []Evidence{evident}})
		}
	default:
		if !known {
			d.detail = c.Text
		}
		f = b.processDied(ActorDied, key, fmt.Sprintf("Actor %s died unexpectedly", name), state.Worker, d)
	}
	f.addActor(a)
	f.detached = f.detached || a.Detached
	f.add(occurrence{
		at: state.Ended, job: a.Job, node: state.Node, name: name, entity: b.actorEntity(a),
		evidence: []Evidence{evident, d.evident},
	})
	b.actors[a.ID] = f
}

// actorRestarted adds the end of an actor's process (p) after which Ray started the actor again in another one: to the
// finding about memory, to that about the lost node, or to the one about such ends. It adds nothing if the process was
// told to end.
func (b *builder) actorRestarted(a *entities.Actor, p moment.ActorProcess) {
	d, known := b.deaths[p.Worker]
	name := actorName(a)
	var f *finding
	switch {
	case known && d.wasIntended():
		return
	case known && d.exit == exitOutOfMemory:
		f = b.outOfMemory(a.Job, p.Node, name, d.detail)
	case b.lostNodes[p.Node] != nil:
		f, name = b.lostNodes[p.Node], "actor "+name
	default:
		if !known {
			d.detail = "its process ended"
		}
		f = b.processDied(ActorDied, "restarted "+a.Job.String()+a.Class,
			fmt.Sprintf("Actor %s died and was restarted", name), p.Worker, d)
		f.addActor(a)
	}
	if !known {
		d.evident = Evidence{
			Source: "event", NodeID: rayid.Hex(p.Node), Text: fmt.Sprintf("actor %s was restarted after worker %s",
				a.ID, p.Worker),
			Link: b.link("#/actors/%s", a.ID),
		}
	}
	o := occurrence{
		at: cmp.Or(d.at, p.Left), recovered: true, job: a.Job, node: p.Node, name: name, entity: b.actorEntity(a),
		evidence: []Evidence{d.evident},
	}
	if f.Kind == NodeDied {
		f.describe(o) // it is counted once, whatever was on the node
	} else {
		f.add(o)
	}
	b.actors[a.ID] = f
}

// callsFailed adds the finding about calls of an actor that failed because the actor was gone.
func (b *builder) callsFailed(a *failedAttempt) {
	id := actorIDOf(a.row)
	died := b.actors[id]
	var f *finding
	if died != nil {
		died.addName(a.name)
		died.addEvidence(a.evident)
		f = b.findOrAdd(TaskFailed, a.job.String()+a.name+a.kind+died.Title)
		f.helpName = withItsActor
		f.Title = fmt.Sprintf("Calls of %s failed because the actor had died", a.name)
		if a.kind == "ACTOR_UNSCHEDULABLE_ERROR" {
			f.Title = fmt.Sprintf("Calls of %s failed because the actor was not created", a.name)
			f.intended = died.intended
		}
		f.causedBy(died)
	} else {
		f = b.callsOfGoneActor(a)
	}
	f.add(occurrence{at: stateAt(a.row, tasktable.StateFailed), job: a.job, name: a.name, entity: a.entity,
		evidence: []Evidence{a.evident}})
	b.addFailure(a.row, f)
	if died != nil {
		return
	}
	state, _ := b.actorState(id)
	if lost := b.lostNodes[state.Node]; !f.intended && lost != nil {
		f.causedBy(lost) // the calls failed before the head noticed that the node was lost
		lost.describe(occurrence{job: a.job, name: a.name})
	}
	if !id.Nil() {
		f.addEntity(Entity{Type: "actor", ID: id.String(), Name: a.name, Link: b.link("#/actors/%s", id)})
	}
}

// callsOfGoneActor returns the finding about calls of an actor that was gone, if no finding is about the actor's death:
// it then says what Ray's message tells of that, and which job had made the actor.
func (b *builder) callsOfGoneActor(a *failedAttempt) (f *finding) {
	raised, title := output.ExceptionOf(a.text), fmt.Sprintf("Calls of %s failed because the actor was gone", a.name)
	key := "calls " + a.job.String() + a.name + a.kind
	if _, detail, ended := strings.Cut(a.text, processDead); ended && raised.Type == "" && a.row.Worker() != nil {
		f = b.processDied(ActorDied, key, title, a.worker, death{detail: detail})
	} else {
		f = b.findOrAdd(ActorDied, key+output.Normalised(raised.String()))
		f.Title = title + ": " + cmp.Or(raised.String(), deathSentence(a.text))
	}
	f.raised = raised
	maker, who, actor := b.jobOfID(a.row.Job()), "an actor", b.session.Actor(actorIDOf(a.row))
	if actor != nil {
		who = "actor " + actorName(actor)
	}
	if foreign := makerOf(a.row) != a.row.Job(); foreign && maker != nil {
		f.appendTitle(fmt.Sprintf("; it was %s of job %s (%s)", who, maker.name(), maker.Status))
	} else if !foreign {
		if actor != nil && actor.Name != "" {
			f.appendTitle("; it was " + who)
		}
		f.intended = f.intended || slices.ContainsFunc(wantedEnds,
			func(said string) bool { return strings.Contains(a.text, said) })
	}
	return f
}

// wantedEnds are what Ray's messages about actors that are gone say if that is no failure.
var wantedEnds = []string{"ray.kill", exitIntendedUser, exitIntended, "out of scope",
	"all references to the actor were removed"}

// deadBecause begins the sentence in Ray's message about a dead actor that says why it died.
const deadBecause = "The actor is dead because"

// processDead is how that sentence goes on if the actor's process ended by itself; behind it stands how.
const processDead = deadBecause + " its worker process has died."

// toldToExit matches what Ray says of a process that it ended, and why: of that the first sentence.
var toldToExit = lazyregexp.New(`\. Worker exit type: INTENDED_SYSTEM_EXIT Worker exit detail: (.+?)(?:\.(?:\s|$)|\n|$)`)

// deathSentence returns the sentence of Ray's message about a dead actor that says why it died. If there is none, it
// returns the message's beginning.
func deathSentence(text string) string {
	if at := strings.Index(text, deadBecause); at >= 0 {
		text = text[at:]
	}
	if m := toldToExit().FindStringSubmatchIndex(text); m != nil {
		return output.FirstSentence(text[:m[0]]) + ": " + output.Clip(text[m[2]:m[3]], output.MaxMessage)
	}
	return output.FirstSentence(text)
}

// actorDeathReason returns the sentence of Ray's message about a dead actor that says why it died; found is false if
// the text has no such sentence.
func actorDeathReason(text string) (reason string, found bool) {
	reason = deathSentence(text)
	return reason, strings.HasPrefix(reason, deadBecause)
}

// raysOwn holds the classes of actors that Ray's libraries run for themselves.
var raysOwn = []string{
	"ServeController", "ProxyActor", "_StatsActor", "AutoscalingRequester", "_AutoscalingCoordinatorActor",
	"SplitCoordinator", "_ActorPoolAutoscaler", "JobSupervisor", "ActorLocationTracker",
}

// trainsOwn holds the classes of actors that the controller of a Train run makes for itself. Programs have classes of
// such names, too, so they are Ray's only in jobs with a controller.
var trainsOwn = []string{"DatasetManager", "PlacementGroupCleaner", "PreemptionWatcher", "SynchronizationActor"}

const trainController = "TrainController" // the class of the actor that controls a Train run

// endsActor is the name of the method by which a program, or a library as multiprocessing's Pool, ends an actor.
const endsActor = ".__ray_terminate__"

// tidies reports whether a call only ends what was started, when a failure or the end is known already: as Tune and
// Train's controller do it (tune_controller.py, worker_group.py), or any program.
func tidies(call string) bool {
	switch call {
	case "ImplicitFunc.stop", "ResourceTrainable.stop", "ImplicitFunc.get_auto_filled_metrics",
		"ResourceTrainable.get_auto_filled_metrics", "RayTrainWorker.shutdown":
		return true
	}
	return strings.HasSuffix(call, endsActor)
}

// runsForRay reports whether a job's actors of a class are Ray's own, so that only Ray calls their methods. How they
// end is told by the findings about what they serve: a job or a deployment of Serve.
func (b *builder) runsForRay(class string, job rayid.Job) bool {
	return slices.Contains(raysOwn, class) || strings.HasPrefix(class, replicaClass) || b.isTrainsOwn(class, job)
}

// isTrainsOwn reports whether a job's actors of a class are made by the controller of a Train run for itself.
func (b *builder) isTrainsOwn(class string, job rayid.Job) bool {
	return slices.Contains(trainsOwn, class) && b.trainJobs()[job]
}

// printsForRay reports whether Ray itself prints what a job's actors of a class print. It differs from runsForRay in
// two classes: the output of Serve's replicas is that of users, and the output of Train's controller is Ray's.
func (b *builder) printsForRay(class string, job rayid.Job) bool {
	return class == trainController || !strings.HasPrefix(class, replicaClass) && b.runsForRay(class, job)
}

// withoutRaysOwn returns the attempts that are no calls of Ray's own actors, the longest in their state first. It
// filters and sorts all in place.
func (b *builder) withoutRaysOwn(all []attempt) []attempt {
	all = slices.DeleteFunc(all, func(a attempt) bool {
		class, _, _ := strings.Cut(string(a.row.Name()), ".")
		return b.runsForRay(class, a.row.Job()) || tidies(string(a.row.GivenName()))
	})
	slices.SortStableFunc(all, func(x, y attempt) int { return cmp.Compare(x.since, y.since) })
	return all
}
