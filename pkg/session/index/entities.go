package index

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// The small tables' names.
const (
	actorsTable      = "actors"
	nodesTable       = "nodes"
	jobsTable        = "jobs"
	submissionsTable = "submissions"
	workersTable     = "workers"
	groupsTable      = "placement_groups"
	platformTable    = "platform_events"
)

// owner says which session a row belongs to. It is in every table for analysis, because those of many sessions are
// queried together.
type owner struct {
	Session   string `parquet:"session,dict"`
	Cluster   string `parquet:"cluster,dict"`
	Namespace string `parquet:"namespace,dict"`
}

func ownerOf(s *session.Session) owner {
	return owner{Session: s.Ref.Name, Cluster: s.Ref.Cluster, Namespace: s.Ref.Namespace}
}

// entity is the first columns of all small tables. Row is everything that is known, as JSON of package session's
// struct, with times in Unix nanoseconds. The other columns hold what most queries are about.
type entity struct {
	owner
	Row string `parquet:"row,zstd,json"`
}

// Times are microseconds, NULL if not known. States are the last ones.
type actorRow struct {
	entity
	ActorID    string `parquet:"actor_id"`
	JobID      string `parquet:"job_id,dict"`
	Name       string `parquet:"name,optional"`
	ClassName  string `parquet:"class_name,dict,optional"`
	State      string `parquet:"state,dict,optional"`
	NodeID     string `parquet:"node_id,dict,optional"`
	WorkerID   string `parquet:"worker_id,optional"`
	PID        int64  `parquet:"pid,optional"`
	StartTime  int64  `parquet:"start_time,optional,timestamp(microsecond)"` // of the first transition
	EndTime    int64  `parquet:"end_time,optional,timestamp(microsecond)"`   // of the death
	DeathCause string `parquet:"death_cause,optional"`
}

type nodeRow struct {
	entity
	NodeID    string `parquet:"node_id"`
	IP        string `parquet:"ip,optional"`
	Hostname  string `parquet:"hostname,optional"`
	State     string `parquet:"state,dict,optional"`
	StartTime int64  `parquet:"start_time,optional,timestamp(microsecond)"`
	EndTime   int64  `parquet:"end_time,optional,timestamp(microsecond)"`
}

type jobRow struct {
	entity
	JobID        string `parquet:"job_id"`
	SubmissionID string `parquet:"submission_id,optional"`
	Entrypoint   string `parquet:"entrypoint,optional"`
	DriverNodeID string `parquet:"driver_node_id,optional"`
	DriverPID    int64  `parquet:"driver_pid,optional"`
	State        string `parquet:"state,dict,optional"`
	StartTime    int64  `parquet:"start_time,optional,timestamp(microsecond)"`
	EndTime      int64  `parquet:"end_time,optional,timestamp(microsecond)"`
}

type submissionRow struct {
	entity
	SubmissionID string `parquet:"submission_id"`
	Entrypoint   string `parquet:"entrypoint,optional"`
	Status       string `parquet:"status,dict,optional"`
	Message      string `parquet:"message,optional"`
	StartTime    int64  `parquet:"start_time,optional,timestamp(microsecond)"`
	EndTime      int64  `parquet:"end_time,optional,timestamp(microsecond)"`
}

type workerRow struct {
	entity
	WorkerID   string `parquet:"worker_id"`
	NodeID     string `parquet:"node_id,dict,optional"`
	JobID      string `parquet:"job_id,dict,optional"`
	Type       string `parquet:"type,dict,optional"`
	PID        int64  `parquet:"pid,optional"`
	State      string `parquet:"state,dict,optional"`
	StartTime  int64  `parquet:"start_time,optional,timestamp(microsecond)"`
	EndTime    int64  `parquet:"end_time,optional,timestamp(microsecond)"`
	ExitType   string `parquet:"exit_type,dict,optional"`
	ExitDetail string `parquet:"exit_detail,optional"`
}

type groupRow struct {
	entity
	PlacementGroupID string `parquet:"placement_group_id"`
	Name             string `parquet:"name,optional"`
	Strategy         string `parquet:"strategy,dict,optional"`
	State            string `parquet:"state,dict,optional"`
	CreatorJobID     string `parquet:"creator_job_id,dict,optional"`
	StartTime        int64  `parquet:"start_time,optional,timestamp(microsecond)"`
}

type platformRow struct {
	entity
	EventID    string `parquet:"event_id,dict"`
	Time       int64  `parquet:"time,optional,timestamp(microsecond)"`
	Severity   string `parquet:"severity,dict,optional"`
	ObjectKind string `parquet:"object_kind,dict,optional"`
	ObjectName string `parquet:"object_name,dict,optional"`
	Reason     string `parquet:"reason,dict,optional"`
	Message    string `parquet:"message,dict,optional"`
}

// entityRows makes the rows of a small table. A row that JSON would change is an error: the index would not answer as
// the events would.
func entityRows[E, R any](o owner, all []E, row func(entity, *E) R) ([]R, error) {
	rows := make([]R, len(all))
	for i := range all {
		text, err := losslessJSON(all[i])
		if err != nil {
			return nil, err
		}
		rows[i] = row(entity{o, text}, &all[i])
	}
	return rows, nil
}

// losslessJSON writes v as JSON, and fails if decoding that would not give v again.
func losslessJSON[T any](v T) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write %T as JSON: %w", v, err)
	}
	var again T
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(v, again) {
		return "", fmt.Errorf("%T cannot be written as JSON without loss: %.200s", v, text)
	}
	return string(text), nil
}

func micros(ns int64) int64 { return ns / 1000 }

// newActorRow returns an actor with its last process and state. Its start is its first change of state.
func newActorRow(e entity, a *entities.Actor) actorRow {
	r := actorRow{entity: e, ActorID: a.ID.String(), JobID: rayid.Hex(a.Job), Name: a.Name, ClassName: a.Class}
	for i, t := range a.Transitions {
		if i == 0 {
			r.StartTime = micros(t.Time)
		}
		if t.State == "DEAD" && r.State == "DEAD" {
			continue // Ray reports some deaths twice
		}
		r.State = t.State
		if t.PID != 0 {
			r.NodeID, r.WorkerID, r.PID = rayid.Hex(t.Node), rayid.Hex(t.Worker), int64(t.PID)
		}
		r.EndTime, r.DeathCause = 0, "" // it may have been made again
		if t.State == "DEAD" {
			r.EndTime, r.DeathCause = micros(t.Time), hexIDs(t.DeathCause)
		}
	}
	return r
}

func newNodeRow(e entity, n *entities.Node) nodeRow {
	r := nodeRow{entity: e, NodeID: n.ID.String(), IP: n.IP, Hostname: n.Hostname, StartTime: micros(n.Start)}
	for _, t := range n.Transitions {
		r.State = t.State
		if t.State == "DEAD" {
			r.EndTime = micros(t.Time)
		}
	}
	return r
}

// newJobRow returns a job with its last state: transitions are in the order of time.
func newJobRow(e entity, j *entities.Job) jobRow {
	r := jobRow{
		entity: e, JobID: j.ID.String(), SubmissionID: j.Submission(), Entrypoint: j.Entrypoint,
		DriverNodeID: rayid.Hex(j.DriverNode), DriverPID: j.DriverPID,
	}
	for _, t := range j.Transitions {
		r.State = t.State
		switch t.State {
		case "CREATED":
			r.StartTime = micros(t.Time)
		case "FINISHED":
			r.EndTime = micros(t.Time)
		}
	}
	return r
}

// newSubmissionRow returns a submission with its last status.
func newSubmissionRow(e entity, s *entities.Submission) submissionRow {
	r := submissionRow{entity: e, SubmissionID: s.ID, Entrypoint: s.Entrypoint}
	for i, t := range s.Transitions {
		ended := jobstatus.Ended(t.State)
		if i == 0 || r.EndTime != 0 && !ended { // it was deleted, and its ID submitted again
			r.StartTime, r.EndTime = micros(t.Time), 0
		}
		r.Status, r.Message = t.State, t.Message
		if ended {
			r.EndTime = micros(t.Time)
		}
	}
	return r
}

// newWorkerRow returns a worker with its last state.
func newWorkerRow(e entity, w *entities.Worker) workerRow {
	r := workerRow{entity: e, WorkerID: w.ID.String(), NodeID: rayid.Hex(w.Node), JobID: rayid.Hex(w.Job), Type: w.Type,
		PID: int64(w.PID)}
	for i, t := range w.Transitions {
		if i == 0 {
			r.StartTime = micros(t.Time)
		}
		r.State = t.State
		if t.State == "DEAD" {
			r.EndTime, r.ExitType, r.ExitDetail = micros(t.Time), t.ExitType, t.ExitDetail
		}
	}
	return r
}

// newGroupRow returns a placement group with its last state.
func newGroupRow(e entity, g *entities.PlacementGroup) groupRow {
	r := groupRow{entity: e, PlacementGroupID: g.ID.String(), Name: g.Name, Strategy: g.Strategy,
		CreatorJobID: rayid.Hex(g.CreatorJob)}
	for i, t := range g.Transitions {
		if i == 0 {
			r.StartTime = micros(t.Time)
		}
		r.State = t.State
	}
	return r
}

func newPlatformRow(e entity, p *entities.PlatformEvent) platformRow {
	return platformRow{
		entity: e, EventID: p.ID, Time: micros(p.Time), Severity: p.Severity, ObjectKind: p.ObjectKind,
		ObjectName: p.ObjectName, Reason: p.Reason, Message: p.Message,
	}
}

// hexIDs writes the identifiers in protobuf's JSON, which are base64 there, in hex as all tables do. Text that is not
// JSON stays as it is.
func hexIDs(text []byte) string {
	value, err := pyjson.Parse(text)
	if err != nil {
		return string(text)
	}
	return string(pyjson.Append(nil, pyjson.Rewrite(value, func(key string, value any) (string, any, bool) {
		id, isID := rayid.FromProto(key, value)
		return key, id, isID
	})))
}
