package findings

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// cause is why an actor died (ray.rpc.ActorDeathCause), in the names of protobuf's JSON.
type cause struct {
	context string // the one that is set
	reason  string // of actorDiedErrorContext
	text    string
}

func causeOf(death []byte) (c cause) {
	if len(death) == 0 {
		return c
	}
	o, err := pyjson.ParseObject(death)
	if err != nil {
		return c
	}
	for name, v := range o.All() {
		if context, ok := v.(*pyjson.Object); ok {
			return cause{context: name, reason: context.String("reason"), text: cmp.Or(context.String("errorMessage"), context.String("formattedExceptionString"))}
		}
	}
	return c
}

// Reasons of an actor's death that somebody wanted, or that are the end of its owner.
var wantedDeaths = map[string]bool{"RAY_KILL": true, "OUT_OF_SCOPE": true, "REF_DELETED": true, "OWNER_DIED": true}

var actorExit = expression(`Worker exit type: (\w+)`)

// wanted says that the actor was told to go.
func (c cause) wanted() bool {
	m := actorExit().FindStringSubmatch(c.text)
	return wantedDeaths[c.reason] || m != nil && (death{exit: m[1]}).wanted()
}

// readActors finds the actors that died or were restarted.
func (b *builder) readActors(ctx context.Context) error {
	for i := range b.s.Actors {
		a := &b.s.Actors[i]
		state, existed := moment.Actor(a, b.r.At)
		if !existed || isOfRay(a) {
			continue
		}
		for _, p := range state.FormerProcesses {
			if err := b.actorRestarted(ctx, a, p); err != nil {
				return err
			}
		}
		if state.State != moment.Dead {
			continue
		}
		if c := causeOf(state.Death); c.text != "" && !c.wanted() {
			if err := b.actorDied(ctx, a, state, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// isOfRay says that an actor is Ray's own, whose end is told where what it serves is.
func isOfRay(a *entities.Actor) bool {
	return strings.HasPrefix(a.Name, supervisor) || strings.HasPrefix(a.Class, replicaClass) ||
		a.Class == "ServeController" || a.Class == "ProxyActor"
}

// actorName is a class with the actor's name where it has one.
func actorName(a *entities.Actor) string {
	if a.Name != "" && a.Name != a.Class {
		return fmt.Sprintf("%s (%s)", a.Class, a.Name)
	}
	return a.Class
}

func (b *builder) actorEntity(a *entities.Actor) Entity {
	return Entity{Type: "actor", ID: a.ID.String(), Name: cmp.Or(a.Name, a.Class), Link: b.link("#/actors/%s", a.ID)}
}

// argumentFailed is how Ray tells that a task was not run.
const argumentFailed = "At least one of the input arguments for this task could not be computed"

// actorDied adds a death to the finding of those that died of the same.
func (b *builder) actorDied(ctx context.Context, a *entities.Actor, state moment.ActorState, c cause) error {
	name := actorName(a)
	d, known := b.deaths[state.Worker]
	evident := Evidence{Source: "event", NodeID: rayid.Hex(state.Node), Time: stamp(state.Ended), Text: c.text, Link: b.link("#/actors/%s", a.ID)}
	var f *finding
	switch {
	case c.context == "creationTaskFailureContext":
		what := exceptionOf(c.text)
		f = b.find(ActorDied, a.Class+what.Type+normalised(what.Message))
		f.what = what
		how := "its constructor raised"
		if f.ofArgument = strings.Contains(c.text, argumentFailed); f.ofArgument {
			how = "an argument of its constructor failed:"
		}
		f.Title = fmt.Sprintf("Actor %s could not be created: %s %s", name, how, cmp.Or(what.String(), firstSentence(c.text)))
	case c.context == "runtimeEnvFailedContext":
		f = b.envFailed(name, c.text)
	case c.context == "actorUnschedulableContext":
		f = b.find(Unschedulable, a.Class)
		f.Title = fmt.Sprintf("Actor %s could not be scheduled: %s", name, firstSentence(c.text))
	case c.context == "oomContext" || known && d.exit == exitOutOfMemory || strings.Contains(c.text, exitOutOfMemory):
		f = b.outOfMemory(a.Job, state.Node, name)
	case c.reason == "NODE_DIED" || b.lost[state.Node] != nil && !known:
		f = b.find(ActorDied, "node "+a.Class+state.Node.String())
		f.Title = fmt.Sprintf("Actor %s died with its node %s", name, b.nodeName(state.Node))
		if lost := b.lost[state.Node]; lost != nil {
			f.causedBy(lost)
			lost.named("actor " + name)
			lost.of(a.Job)
			lost.show(evident)
		}
	default:
		signal, e, err := b.crash(ctx, state.Worker)
		if err != nil {
			return err
		}
		if !known {
			d.detail = c.text
		}
		how := d.how(signal)
		f = b.find(ActorDied, a.Class+normalised(how))
		f.Title = fmt.Sprintf("Actor %s died unexpectedly: %s", name, how)
		f.show(e)
	}
	f.named(name)
	f.of(a.Job)
	f.happened(state.Ended, false)
	f.on(state.Node, state.Ended)
	f.about(b.actorEntity(a))
	f.show(evident)
	if known {
		f.show(d.evident)
	}
	b.actors[a.ID] = f
	return nil
}

// actorRestarted adds the end of a process that the actor survived.
func (b *builder) actorRestarted(ctx context.Context, a *entities.Actor, p moment.Process) error {
	d, known := b.deaths[p.Worker]
	name := actorName(a)
	var f *finding
	switch {
	case known && d.wanted():
		return nil
	case known && d.exit == exitOutOfMemory:
		f = b.outOfMemory(a.Job, p.Node, name)
	case b.lost[p.Node] != nil:
		f = b.lost[p.Node]
		f.named("actor " + name)
	default:
		signal, e, err := b.crash(ctx, p.Worker)
		if err != nil {
			return err
		}
		how := "its process ended"
		if known || signal != "" {
			how = d.how(signal)
		}
		f = b.find(ActorDied, "restarted "+a.Class+normalised(how))
		f.Title = fmt.Sprintf("Actor %s died and was restarted: %s", name, how)
		f.show(e)
	}
	f.named(name)
	f.of(a.Job)
	if f.Kind != NodeDied {
		f.happened(d.at, true)
		f.on(p.Node, d.at)
	}
	f.about(b.actorEntity(a))
	b.actors[a.ID] = f
	if known {
		f.show(d.evident)
	} else {
		f.show(Evidence{
			Source: "event", NodeID: rayid.Hex(p.Node), Text: fmt.Sprintf("actor %s was restarted after worker %s", a.ID, p.Worker), Link: b.link("#/actors/%s", a.ID),
		})
	}
	return nil
}

// outOfMemory is the finding about workers of a job that were killed because their node ran out of memory.
func (b *builder) outOfMemory(job rayid.Job, node rayid.Node, name string) *finding {
	f := b.find(OutOfMemory, job.String())
	f.named(name)
	if !node.Nil() {
		f.about(b.nodeEntity(node))
	}
	return f
}

// envFailed is the finding about runtime environments that failed for the same reason.
func (b *builder) envFailed(name, text string) *finding {
	reason := envReason(text)
	f := b.find(RuntimeEnv, normalised(reason))
	f.named(name)
	if f.Title == "" {
		f.Title = fmt.Sprintf("The runtime environment of %s could not be set up: %s", name, reason)
	}
	return f
}

// toolError is what pip, uv and conda print of what they refuse.
var toolError = expression(`(?m)^\s*(?:ERROR|error|Error|CondaError|× )\b:?\s*([^\n]+)$`)

// envReason is what of a message about a runtime environment tells the reason: what the tool that made it printed, else the last error.
func envReason(text string) string {
	if m := toolError().FindStringSubmatch(printable(text)); m != nil {
		return clip(strings.TrimSpace(m[0]), maxTitleText)
	}
	if what := exceptionOf(text); what.Message != "" {
		return clip(what.String(), maxTitleText)
	}
	for _, line := range strings.Split(strings.TrimSpace(colour().ReplaceAllString(text, "")), "\n") {
		if strings.Contains(strings.ToLower(line), "error") || strings.Contains(strings.ToLower(line), "fail") {
			return firstSentence(line)
		}
	}
	return firstSentence(text)
}
