package dashboard

import (
	"context"
	"math"
	"net/url"
	"path"
	"slices"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// LogsAboutParams are the parameters that name what LogsAbout is about.
var LogsAboutParams = []string{"task_id", "attempt_number", "actor_id", "job_id", "submission_id"}

// LogsAbout returns the stored logs that tell of the task, actor or job that form names, and when that began (Unix
// nanoseconds; 0: not known). Of a task or an actor these are its worker's output, the raylet's log of its node, and
// its driver's log; of a job its driver's log, and those of the GCS and the raylet. There are none if no such thing is
// stored.
func LogsAbout(ctx context.Context, m *moment.Moment, form url.Values) (found []moment.LogFile, began int64,
	err error) {
	jobs, err := m.Jobs(ctx)
	if err != nil {
		return nil, 0, err
	}
	subject, stored, err := subjectOf(ctx, m, form)
	if err != nil || !stored {
		return nil, 0, err
	}
	add := func(node rayid.Node, names ...string) {
		for _, name := range names {
			if log := (moment.LogFile{Node: node, Path: name}); !slices.Contains(found, log) &&
				slices.Contains(m.Session.Logs.Paths(node), name) {
				found = append(found, log)
			}
		}
	}
	node, began := subject.node, subject.began
	if !subject.worker.Nil() {
		for _, suffix := range []string{"err", "out"} {
			add(node, findWorkerLog(m.Session.Logs, node, subject.worker.String(), "", suffix))
		}
		add(node, "raylet.out")
	}
	submission := form.Get("submission_id")
	i := slices.IndexFunc(jobs, func(j moment.Job) bool {
		return j.DrivenBy(subject.job) || submission != "" && j.SubmissionID == submission
	})
	if i < 0 {
		return found, began, nil
	}
	j := &jobs[i]
	if driver, ok := m.LogNames().Jobs[j.SubmissionID]; ok {
		add(driver, moment.SubmissionLog(j.SubmissionID))
		node = driver
	}
	if subject.worker.Nil() { // a job, or an actor that never ran
		began = j.Start
		add(node, "gcs_server.out", "raylet.out")
	}
	return found, began, nil
}

// logSubject is the task, actor or job that logs tell of.
type logSubject struct {
	node   rayid.Node   // where it ran; nil if it is a job, or that is not known
	worker rayid.Worker // in which it ran; nil like node
	job    string       // of the driver, in hex; "" if none is named
	began  int64        // Unix ns, 0: not known
}

// subjectOf reads what logs are asked for: a task, an actor or a job. It is not stored if the task or actor is unknown.
func subjectOf(ctx context.Context, m *moment.Moment, form url.Values) (subject logSubject, stored bool, err error) {
	switch {
	case form.Get("task_id") != "":
		return taskSubject(m, form)
	case form.Get("actor_id") != "":
		return actorSubject(ctx, m, form.Get("actor_id"))
	}
	return logSubject{job: form.Get("job_id")}, true, nil
}

// taskSubject finds the task attempt that form names; stored is false if there is none.
func taskSubject(m *moment.Moment, form url.Values) (subject logSubject, stored bool, err error) {
	id, err := rayid.Parse[rayid.Task](form.Get("task_id"))
	if err != nil {
		return subject, false, &param.Error{Name: "task_id", Value: form.Get("task_id"),
			Want: "the ID of a task, in hex"}
	}
	numbers := param.Form{Values: form}
	attempt := numbers.Number("attempt_number", 0, math.MaxInt32) // the first one, if none is named
	if numbers.Err != nil {
		return subject, false, numbers.Err
	}
	log, stored, err := m.Session.Tasks.Log(id, int(attempt), m.At)
	return logSubject{log.Node, log.Worker, id.Job().String(), log.Started}, stored, err
}

// actorSubject finds an actor by its ID in hex, with its last process; stored is false if there is none.
func actorSubject(ctx context.Context, m *moment.Moment, id string) (subject logSubject, stored bool, err error) {
	actors, err := m.Actors(ctx)
	if err != nil {
		return subject, false, err
	}
	i := slices.IndexFunc(actors, func(a moment.Actor) bool { return a.ID == id })
	if i < 0 {
		return subject, false, nil
	}
	subject.began = actors[i].Started
	if processes := actors[i].Processes(); len(processes) > 0 {
		subject.node, subject.worker = processes[0].Node, processes[0].Worker
	}
	if parsed, err := rayid.Parse[rayid.Actor](id); err == nil {
		subject.job = parsed.Job().String()
	}
	return subject, true, nil
}

// LogWriters says what wrote a log of a session, by its name.
type LogWriters struct{ actors map[string]string } // names, by worker

// LogWritersOf returns which actors wrote the logs of a session's workers, as far as that is known at the moment.
func LogWritersOf(ctx context.Context, m *moment.Moment) (w LogWriters, err error) {
	actors, err := m.Actors(ctx)
	if err != nil {
		return w, err
	}
	w.actors = make(map[string]string, len(actors))
	for i := range actors {
		name := actors[i].Name()
		for _, p := range actors[i].Processes() {
			w.actors[p.Worker.String()] = name
		}
	}
	return w, nil
}

// Of is what wrote a log, such as "worker of actor Counter"; "" if its name does not say that.
func (w LogWriters) Of(file string) string {
	wrote := logsearch.WriterOf(path.Base(file))
	if actor := w.actors[wrote.Worker]; actor != "" && wrote.Worker != "" {
		return wrote.Part + " of actor " + actor
	}
	return wrote.String()
}
