package findings

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// A constructor that had run for longConstructor when its driver or the session ended gets a finding. While a session runs the limit is
// runningConstructor, because loading a large model takes time.
const (
	longConstructor    = 10 * time.Second
	runningConstructor = time.Minute
)

// readConstructors finds the actors whose constructors had not returned.
func (b *builder) readConstructors(ctx context.Context) error {
	actors := map[string]*entities.Actor{} // by the bytes of their IDs
	for i := range b.s.Actors {
		actors[string(b.s.Actors[i].ID[:])] = &b.s.Actors[i]
	}
	for _, c := range b.constructors {
		a := actors[string(c.row.Actor())]
		if a == nil || isOfRay(a) {
			continue
		}
		if j := b.jobOfID(a.Job); j != nil && j.submission != "" && (j.status == "SUCCEEDED" || j.status == "STOPPED") {
			continue
		}
		if err := b.constructing(ctx, a, c); err != nil {
			return err
		}
	}
	return nil
}

// constructing adds the finding about an actor whose constructor had been running for a long time.
func (b *builder) constructing(ctx context.Context, a *entities.Actor, c abandoned) error {
	now, existed := moment.ActorAt(a, b.r.At)
	until, least, how := b.s.End, longConstructor, "had been running for %s when the session ended"
	lasts := b.running || b.r.At != 0
	switch {
	case !existed || now.State == moment.Alive || now.State == moment.Dead && (now.Started != 0 || !causeOf(now.Death).wanted()):
		return nil // the constructor returned, or another finding says how the actor ended
	case now.State == moment.Dead:
		until, how, lasts = now.Ended, "had been running for %s when its driver ended", false
	case lasts:
		least, how = runningConstructor, "has been running for %s"
		until = cmp.Or(b.r.At, until)
	}
	took := time.Duration(until - c.since)
	if took < least {
		return nil
	}
	f := b.find(ActorStart, a.Class+a.Job.String())
	f.Title = fmt.Sprintf("Actor %s was not created: its constructor "+how, actorName(a), took.Round(time.Second))
	if lasts || now.State == moment.Dead {
		f.Severity = Warning // it becomes an error if the job failed because of it
	}
	f.named(actorName(a))
	f.of(a.Job)
	f.happened(c.since, false)
	f.last = max(f.last, until)
	f.about(b.actorEntity(a))
	worker := idOf[rayid.Worker](c.row.Worker())
	f.show(Evidence{
		Source: "event", Time: stamp(c.since), Text: fmt.Sprintf("task %s was RUNNING from %s on, and actor %s never became ALIVE", c.row.Name(), stamp(c.since), a.ID),
		Link: b.link("#/actors/%s", a.ID),
	})
	return b.showPrinted(ctx, f, worker)
}

// showPrinted adds the last lines that a worker printed to the evidence.
func (b *builder) showPrinted(ctx context.Context, f *finding, worker rayid.Worker) error {
	for _, file := range b.logsOf(worker) {
		if !strings.HasPrefix(file.Path, "worker-") {
			continue
		}
		log, err := b.readOf(ctx, worker, file)
		if err != nil {
			return err
		}
		if at := log.lastLines(5); strings.TrimSpace(log.text) != "" {
			f.show(b.evidence(log, at, len(log.text)))
		}
	}
	return nil
}
