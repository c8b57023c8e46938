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

// LogsAbout are the logs that tell of a task, an actor or a job, and when that began (Unix nanoseconds, 0: not known):
// of its worker what it printed, of its driver, and of the raylet of its node or, of a job, the GCS. There are none if
// no such thing is stored.
func LogsAbout(ctx context.Context, m *moment.Moment, form url.Values) (found []moment.LogFile, began int64,
	err error) {
	jobs, err := m.Jobs(ctx)
	if err != nil {
		return nil, 0, err
	}
	job, submission := form.Get("job_id"), form.Get("submission_id")
	var node rayid.Node
	var worker rayid.Worker
	switch {
	case form.Get("task_id") != "":
		id, err := rayid.Parse[rayid.Task](form.Get("task_id"))
		if err != nil {
			return nil, 0, &param.Error{Name: "task_id", Value: form.Get("task_id"), Want: "the ID of a task, in hex"}
		}
		numbers := param.Form{Values: form}
		attempt := numbers.Number("attempt_number", 0, math.MaxInt32) // the first one, if none is named
		if numbers.Err != nil {
			return nil, 0, numbers.Err
		}
		log, ok, err := m.Session.Tasks.Log(id, int(attempt), m.At)
		if err != nil || !ok {
			return nil, 0, err
		}
		node, worker, began, job = log.Node, log.Worker, log.Started, id.Job().String()
	case form.Get("actor_id") != "":
		actors, err := m.Actors(ctx)
		if err != nil {
			return nil, 0, err
		}
		i := slices.IndexFunc(actors, func(a moment.Actor) bool { return a.ID == form.Get("actor_id") })
		if i < 0 {
			return nil, 0, nil
		}
		if processes := actors[i].Processes(); len(processes) > 0 {
			node, worker = processes[0].Node, processes[0].Worker
		}
		began = actors[i].Started
		if id, err := rayid.Parse[rayid.Actor](actors[i].ID); err == nil {
			job = id.Job().String()
		}
	}
	add := func(node rayid.Node, names ...string) {
		for _, name := range names {
			if log := (moment.LogFile{Node: node, Path: name}); !slices.Contains(found, log) &&
				slices.Contains(m.Session.Logs.Paths(node), name) {
				found = append(found, log)
			}
		}
	}
	if !worker.Nil() {
		for _, suffix := range []string{"err", "out"} {
			add(node, findWorkerLog(m.Session.Logs, node, worker.String(), "", suffix))
		}
		add(node, "raylet.out")
	}
	for _, j := range jobs {
		if (job == "" || j.ID != job) && (submission == "" || j.SubmissionID != submission) {
			continue
		}
		if driver, ok := m.LogNames().Jobs[j.SubmissionID]; ok {
			add(driver, moment.SubmissionPrefix+j.SubmissionID+moment.Suffix)
			node = driver
		}
		if worker.Nil() {
			began = j.Start
			add(node, "gcs_server.out", "raylet.out")
		}
		break
	}
	return found, began, nil
}

// LogWriters says what wrote a log of a session, by its name.
type LogWriters struct{ actors map[string]string } // names, by worker

// LogWritersOf are those of a session at a moment.
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
