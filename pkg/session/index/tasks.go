package index

import (
	"cmp"
	"encoding/hex"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// The names of the large tables for analysis.
const (
	tasksTable      = "tasks"
	taskEventsTable = "task_events"
	profileTable    = "profile"
)

// taskRow is one attempt of a task. Times are when states were entered; strings are NULL where Ray's State API answers
// null.
type taskRow struct {
	owner
	JobID             string  `parquet:"job_id,dict"`
	TaskID            string  `parquet:"task_id,zstd"`
	AttemptNumber     int32   `parquet:"attempt_number,delta"`
	Name              string  `parquet:"name,dict"`
	FuncOrClassName   string  `parquet:"func_or_class_name,dict"`
	Type              string  `parquet:"type,dict"`
	State             string  `parquet:"state,dict"`
	CreationTime      int64   `parquet:"creation_time,optional,timestamp(microsecond),delta"`
	StartTime         int64   `parquet:"start_time,optional,timestamp(microsecond),delta"`
	EndTime           int64   `parquet:"end_time,optional,timestamp(microsecond),delta"`
	QueuedMs          float64 `parquet:"queued_ms,optional"`   // from creation to start
	DurationMs        float64 `parquet:"duration_ms,optional"` // from start to end
	NodeID            string  `parquet:"node_id,dict,optional"`
	WorkerID          string  `parquet:"worker_id,dict,optional"`
	WorkerPID         int32   `parquet:"worker_pid,dict,optional"`
	ActorID           string  `parquet:"actor_id,dict,optional"`
	ParentTaskID      string  `parquet:"parent_task_id,dict,optional"`
	PlacementGroupID  string  `parquet:"placement_group_id,dict,optional"`
	ErrorType         string  `parquet:"error_type,dict,optional"`
	ErrorMessage      string  `parquet:"error_message,zstd,optional"`
	Language          string  `parquet:"language,dict"`
	RequiredResources string  `parquet:"required_resources,dict,optional"`
	LabelSelector     string  `parquet:"label_selector,dict,optional"`
	RuntimeEnv        string  `parquet:"runtime_env,dict,optional"`
	CallSite          string  `parquet:"call_site,dict,optional"`
}

// taskEventRow is a state that an attempt entered.
type taskEventRow struct {
	owner
	JobID         string `parquet:"job_id,dict"`
	TaskID        string `parquet:"task_id,dict,zstd"`
	AttemptNumber int32  `parquet:"attempt_number,delta"`
	State         string `parquet:"state,dict"`
	Time          int64  `parquet:"time,timestamp(microsecond),delta"`
}

// profileRow is a span of time that an attempt's process measured.
type profileRow struct {
	owner
	JobID         string  `parquet:"job_id,dict"`
	TaskID        string  `parquet:"task_id,dict,zstd"`
	AttemptNumber int32   `parquet:"attempt_number,delta"`
	ComponentType string  `parquet:"component_type,dict"`
	ComponentID   string  `parquet:"component_id,dict"`
	NodeIP        string  `parquet:"node_ip,dict"`
	EventName     string  `parquet:"event_name,dict"`
	StartTime     int64   `parquet:"start_time,timestamp(microsecond),delta"`
	DurationMs    float64 `parquet:"duration_ms"`
	ExtraData     string  `parquet:"extra_data,dict,zstd,json"`
}

// analysisGroupRows is how many tasks a row group of the tables for analysis holds. Query engines read a row group on
// each core.
const analysisGroupRows = 64 << 10

// taskWriter writes the three tables about tasks.
type taskWriter struct {
	owner     owner
	byJob     bool // rows are sorted by job first
	groupRows int
	tasks     *parquet.GenericWriter[taskRow]
	events    *parquet.GenericWriter[taskEventRow]
	spans     *parquet.GenericWriter[profileRow]

	// Buffers for one attempt, used again.
	states  []tasktable.StateTime
	profile tasktable.Profile
	event   []taskEventRow
	span    []profileRow
}

// newTaskWriter makes a writer of the three tables about tasks that people read: attempts, their changes of state, and
// their profile events. With byJob the rows are sorted by job first, otherwise by task.
func newTaskWriter(o owner, generation string, byJob bool, tasks, events, spans io.Writer) *taskWriter {
	sorting := []parquet.SortingColumn{parquet.Ascending("task_id"), parquet.Descending("attempt_number")}
	if byJob {
		sorting = slices.Insert(sorting, 0, parquet.Ascending("job_id"))
	}
	options := append(writerOptions(generation), parquet.SortingWriterConfig(parquet.SortingColumns(sorting...)))
	return &taskWriter{
		owner: o, byJob: byJob, groupRows: analysisGroupRows,
		tasks:  parquet.NewGenericWriter[taskRow](tasks, options...),
		events: parquet.NewGenericWriter[taskEventRow](events, options...),
		spans:  parquet.NewGenericWriter[profileRow](spans, options...),
	}
}

// write writes all attempts: with byJob by job, then by task, the last attempt first. progress is called with how many
// were written since its last call.
func (w *taskWriter) write(tasks *tasktable.Table, progress func(rows int)) error {
	rowAt := func(i int) int { return i }
	if w.byJob {
		order := orderByJob(tasks)
		rowAt = func(i int) int { return int(order[i]) }
	}
	for i := range tasks.Len() {
		if err := w.writeAttempt(tasks.Row(rowAt(i), tasktable.AtEnd)); err != nil {
			return err
		}
		if (i+1)%w.groupRows == 0 {
			if err := w.flush(); err != nil {
				return err
			}
			progress(w.groupRows)
		}
	}
	progress(tasks.Len() % w.groupRows)
	return w.close()
}

// orderByJob returns the rows ordered by job, and within a job in their own order.
func orderByJob(tasks *tasktable.Table) []int32 {
	order := make([]int32, tasks.Len())
	for n := range order {
		order[n] = int32(n)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := tasks.Row(int(a), tasktable.AtEnd).Job(), tasks.Row(int(b), tasktable.AtEnd).Job()
		return cmp.Compare(string(x[:]), string(y[:]))
	})
	return order
}

func (w *taskWriter) flush() error {
	return untilError(w.tasks.Flush, w.events.Flush, w.spans.Flush)
}

func (w *taskWriter) close() error {
	return untilError(w.tasks.Close, w.events.Close, w.spans.Close)
}

// untilError takes steps, one after the other, until one fails, and returns its error.
func untilError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// writeAttempt writes a task attempt: its row, a row for each state, and a row for each profile event.
func (w *taskWriter) writeAttempt(r tasktable.Row) error {
	job, id, attempt := r.Job().String(), r.ID().String(), r.Attempt()
	row := taskRow{
		owner: w.owner, JobID: job, TaskID: id, AttemptNumber: attempt, Name: string(r.Name()),
		FuncOrClassName: string(r.Function()),
		Type:            string(r.Type()), State: r.State(), NodeID: hex.EncodeToString(r.Node()),
		WorkerID:  hex.EncodeToString(r.Worker()),
		WorkerPID: r.PID(), ActorID: hex.EncodeToString(r.Actor()), ParentTaskID: hex.EncodeToString(r.Parent()),
		PlacementGroupID: hex.EncodeToString(r.PlacementGroup()), Language: string(r.Language()),
		RequiredResources: string(r.Resources()),
		LabelSelector:     string(r.Labels()), RuntimeEnv: string(r.RuntimeEnv()),
	}
	site, _ := r.CallSite()
	kind, message, _ := r.Failure()
	row.CallSite, row.ErrorType, row.ErrorMessage = string(site), string(kind), string(message)
	w.states = r.States(w.states[:0])
	row.setTimes(w.states)
	if _, err := w.tasks.Write([]taskRow{row}); err != nil {
		return err
	}
	w.event = w.event[:0]
	for _, s := range w.states {
		w.event = append(w.event, taskEventRow{w.owner, job, id, attempt, s.State, micros(s.Time)})
	}
	if _, err := w.events.Write(w.event); err != nil {
		return err
	}
	w.span = w.span[:0]
	if r.Profile(&w.profile) {
		kind, component, ip := string(w.profile.Kind), hex.EncodeToString(w.profile.ID), string(w.profile.IP)
		for _, e := range w.profile.Events {
			w.span = append(w.span, profileRow{
				w.owner, job, id, attempt, kind, component, ip, string(e.Name), micros(e.Start),
				millis(e.End - e.Start), string(e.Extra),
			})
		}
	}
	_, err := w.spans.Write(w.span)
	return err
}

// setTimes fills in the times and durations that the states give: an attempt is queued from its creation until it runs,
// and lasts from then until it ends. Those that are not known stay null.
func (r *taskRow) setTimes(states []tasktable.StateTime) {
	var created, started, ended int64 // ns
	for _, s := range states {
		switch s.State {
		case tasktable.StateCreated:
			created = s.Time
		case tasktable.StateRunning:
			started = s.Time
		case tasktable.StateFinished, tasktable.StateFailed:
			ended = s.Time
		}
	}
	r.CreationTime, r.StartTime, r.EndTime = micros(created), micros(started), micros(ended)
	if created != 0 && started != 0 {
		r.QueuedMs = millis(started - created)
	}
	if started != 0 && ended != 0 {
		r.DurationMs = millis(ended - started)
	}
}

func millis(ns int64) float64 { return float64(ns) / 1e6 }
