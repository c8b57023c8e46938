package moment

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// The state of Ray's libraries Serve, Data and Train is in no events, only in snapshots.
//
// What was saved before the moment is what Ray answered then. An answer that was saved later, or nobody knows when, is
// believed only in what it says about the time before: which datasets and runs had ended, and which had begun. Of those
// it does not say how far they were.

// Metrics are the stored metrics of sessions.
type Metrics interface {
	// Values calls see with each series that a PromQL expression has at a moment, and returns its labels by name.
	Values(ctx context.Context, ref layout.Session, running bool, at time.Time, expression string,
		see func(label func(name string) string, value float64)) error
}

// Application is an application of Serve as it was when the state of Serve was saved.
type Application struct {
	Name, Status, Message string
	Deployments           []Deployment
	Taken                 int64 // when it was saved, Unix ns; 0: not known
}

// Deployment is a deployment of an application.
type Deployment struct{ Name, Status, Trigger, Message string }

// Applications returns the applications of Serve, as the last answer that was saved before the moment shows them.
func (m *Moment) Applications(ctx context.Context) (apps []Application, err error) {
	details, taken, err := m.SavedServe(ctx)
	for name, v := range details.Object("applications").All() {
		o, _ := v.(*pyjson.Object)
		app := Application{Name: name, Status: o.String("status"), Message: o.String("message"), Taken: taken}
		for name, v := range o.Object("deployments").All() {
			if d, ok := v.(*pyjson.Object); ok {
				app.Deployments = append(app.Deployments, Deployment{name, d.String("status"),
					d.String("status_trigger"), d.String("message")})
			}
		}
		apps = append(apps, app)
	}
	return apps, err
}

// Run is a dataset of Data or a run of Train.
type Run struct {
	Name, Status, Detail string
	Job                  rayid.Job // nil if it is not known
	Ended                int64     // when it ended or, if that is not known, when it was saved; Unix ns
}

// Datasets returns the datasets of a job that had begun by the moment.
func (m *Moment) Datasets(ctx context.Context, job rayid.Job) (runs []Run, err error) {
	saved, taken, err := m.SavedDatasets(ctx, job.String())
	for _, d := range Objects(saved.List("datasets")) {
		runs = append(runs, Run{Name: cmp.Or(d.String("name"), d.String("dataset")), Status: d.String("state"),
			Job: job, Ended: taken})
	}
	return runs, err
}

// trainRunLists are the addresses of Ray's two lists of Train's runs.
var trainRunLists = []string{"/api/train/v2/runs", "/api/train/v2/runs/v1"}

// TrainRuns returns the runs of Train that had begun by the moment, from both of Ray's lists.
func (m *Moment) TrainRuns(ctx context.Context) (runs []Run, err error) {
	for _, url := range trainRunLists {
		saved, taken, err := m.SavedTrainRuns(ctx, url)
		if err != nil {
			return nil, err
		}
		for _, o := range Objects(saved.List("train_runs")) {
			run := Run{
				Name:   cmp.Or(o.String("name"), o.String("id")),
				Status: cmp.Or(o.String("status"), o.String("run_status")),
				Detail: o.String("status_detail"),
				Ended:  cmp.Or(o.Int("end_time_ns"), TimeIn(o, "end_time_ms", time.Millisecond), taken),
			}
			run.Job, _ = rayid.Parse[rayid.Job](o.String("job_id")) // nil if it is not known
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// SavedServe returns the saved state of Serve, and when it was saved (Unix ns; 0: not known); nil if none is saved.
func (m *Moment) SavedServe(ctx context.Context) (*pyjson.Object, int64, error) {
	// A later answer says when applications were deployed, but not in which state they were.
	value, taken, err := m.SavedThen(ctx, "/api/serve/applications/")
	details, _ := value.(*pyjson.Object)
	return details, taken, err
}

// DatasetsURL is the address of Ray's answer with the datasets of a job (hex).
func DatasetsURL(job string) string { return "/api/data/datasets/" + url.PathEscape(job) }

// SavedDatasets returns the saved answer with the datasets of a job (hex), and when it was saved; nil if none is saved.
func (m *Moment) SavedDatasets(ctx context.Context, job string) (*pyjson.Object, int64, error) {
	return m.savedRows(ctx, DatasetsURL(job), "datasets", dataset)
}

// SavedTrainRuns returns the saved answer with the runs of Train, and when it was saved; nil if none is saved.
func (m *Moment) SavedTrainRuns(ctx context.Context, url string) (*pyjson.Object, int64, error) {
	return m.savedRows(ctx, url, "train_runs", trainRun)
}

// savedRows returns the last answer to url that was saved before the moment, and when it was saved (Unix ns; 0: not
// known); nil if none is saved. If all were saved later, it is a copy of the first of them in which each row of the
// list called field is what rowAt makes of it for the moment; rows for which rowAt returns nil are left out.
func (m *Moment) savedRows(ctx context.Context, url, field string,
	rowAt func(*pyjson.Object, int64) *pyjson.Object) (*pyjson.Object, int64, error) {
	value, taken, err := m.SavedThen(ctx, url)
	if o, ok := value.(*pyjson.Object); ok || err != nil || m.At == 0 {
		return o, taken, err
	}
	value, taken, err = m.Saved(ctx, url)
	o, ok := value.(*pyjson.Object)
	if !ok || err != nil {
		return nil, taken, err
	}
	o = o.Clone()
	o.Set(field, rowsAt(o.List(field), m.At, rowAt))
	return o, taken, err
}

// rowsAt returns what rowAt makes of each row for a moment (Unix ns), without rows for which rowAt returns nil; at most
// maxRows of them.
func rowsAt(list []any, at int64, rowAt func(*pyjson.Object, int64) *pyjson.Object) []any {
	existed := []any{}
	for _, v := range list {
		if row, ok := v.(*pyjson.Object); ok && len(existed) < maxRows {
			if row = rowAt(row, at); row != nil {
				existed = append(existed, row)
			}
		}
	}
	return existed
}

// dataset returns the row of a dataset, which was saved after a moment (Unix ns), as it was at that moment; nil if the
// dataset had not begun. If it still ran then, its figures are 0, because they were not saved.
func dataset(row *pyjson.Object, at int64) *pyjson.Object {
	began, ended := secondsAsNs(row, "start_time"), secondsAsNs(row, "end_time")
	switch {
	case began == 0 || began > at:
		return nil
	case ended != 0 && ended <= at:
		return row
	}
	then := row.Clone()
	for name, v := range row.All() {
		figures, isObject := v.(*pyjson.Object)
		switch {
		case name == "progress" || name == "total" || name == "total_rows":
			then.Set(name, pyjson.Number("0"))
		case isObject:
			empty := &pyjson.Object{}
			for figure := range figures.All() {
				empty.Set(figure, pyjson.Number("0"))
			}
			then.Set(name, empty)
		}
	}
	then.SetAll("state", "RUNNING", "end_time", nil, "operators", []any{})
	return then
}

// trainRun returns the row of a run of Train, or of one of its attempts, which was saved after a moment (Unix ns), as
// it was at that moment; nil if it had not begun. A run of Train's first interface has a "run_status", times in
// milliseconds, and "" for no detail, not null (ray/train/_internal/state/schema.py).
func trainRun(row *pyjson.Object, at int64) *pyjson.Object {
	began := cmp.Or(row.Int("start_time_ns"), row.Int("start_time_ms")*1e6)
	ended := cmp.Or(row.Int("end_time_ns"), row.Int("end_time_ms")*1e6)
	if began == 0 || began > at {
		return nil
	}
	row = row.Clone()
	if attempts := row.List("attempts"); attempts != nil {
		row.Set("attempts", rowsAt(attempts, at, trainRun))
	}
	if job, _ := row.Get("job_details").(*pyjson.Object); job != nil {
		row.Set("job_details", jobDetails(job, at))
	}
	if ended != 0 && ended <= at {
		return row
	}
	var detail any
	if _, first := row.Lookup("run_status"); first {
		detail = ""
	}
	row.SetExisting(map[string]any{
		"status": "RUNNING", "run_status": "RUNNING", "status_detail": detail,
		"end_time_ns": nil, "end_time_ms": nil,
	})
	if workers := row.List("workers"); workers != nil {
		row.Set("workers", rowsAt(workers, at, runningWorker))
	}
	return row
}

// jobDetails returns what a run says of its job as it was at a moment (Unix ns): the job ends after the run.
func jobDetails(job *pyjson.Object, at int64) *pyjson.Object {
	if ended := job.Int("end_time") * 1e6; ended != 0 && ended <= at {
		return job
	}
	job = job.Clone()
	job.SetExisting(map[string]any{"status": "RUNNING", "end_time": nil, "message": nil, "error_type": nil,
		"driver_exit_code": nil})
	return job
}

// runningWorker returns the row of a worker of a run that had not ended at the moment: the worker's actor lived, and
// what was measured of it later is left out.
func runningWorker(row *pyjson.Object, _ int64) *pyjson.Object {
	row = row.Clone()
	row.SetExisting(map[string]any{"status": Alive, "processStats": nil, "gpus": []any{}})
	return row
}

// secondsAsNs returns a time that a row has in Unix seconds as Unix ns; 0 if it has none.
func secondsAsNs(row *pyjson.Object, name string) int64 {
	n, _ := row.Get(name).(pyjson.Number)
	s, err := strconv.ParseFloat(string(n), 64)
	if err != nil || !(s > 0 && s < 1<<33) {
		return 0
	}
	return int64(s * 1e9)
}
