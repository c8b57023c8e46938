package entities

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// The rows of everything there are few of: a session of a million tasks has some thousands of these. Tasks are columns:
// see tasktable.
//
// Times are Unix nanoseconds; 0 if no event has them. States are Ray's own names (ALIVE, DEAD, …), so that a state a
// newer Ray adds is shown as it is. Transitions are sorted by time, repeats removed; the last one is the final state.

// Actor is one actor, from actor events (events_actor_definition_event.proto, events_actor_lifecycle_event.proto).
type Actor struct {
	ID             rayid.Actor
	Job            rayid.Job
	Defined        bool // a definition event came
	Detached       bool
	Name           string
	Namespace      string
	Class          string
	RuntimeEnv     string // serialized, JSON
	CallSite       string
	Resources      map[string]float64
	LabelSelector  map[string]string
	PlacementGroup rayid.PlacementGroup
	Parent         []byte
	Transitions    []ActorTransition
}

// ActorTransition is one change of an actor's state. IDs and PID are nil or 0 if the transition has none.
type ActorTransition struct {
	State         string
	Time          int64
	Node          rayid.Node
	Worker        rayid.Worker
	PID           uint32
	Port          int32
	ReprName      string
	RestartReason string
	DeathCause    []byte // protobuf's JSON of ray.rpc.ActorDeathCause, camelCase; nil unless DEAD
}

// Node is one node, from node events.
type Node struct {
	ID           rayid.Node
	IP           string
	Hostname     string
	Name         string
	InstanceID   string
	InstanceType string
	Labels       map[string]string
	Start        int64
	Transitions  []NodeTransition
}

// NodeTransition is one change of a node's state.
type NodeTransition struct {
	State        string
	SubState     string // DRAINING or UNSPECIFIED
	Time         int64
	Resources    map[string]float64
	DeathReason  string
	DeathMessage string
}

// Job is one driver, from driver-job events.
type Job struct {
	ID          rayid.Job
	DriverPID   int64
	DriverNode  rayid.Node
	Entrypoint  string
	RuntimeEnv  string            // serialized, JSON
	Metadata    map[string]string // job_submission_id names the submission, if there is one
	Transitions []JobTransition   // CREATED, FINISHED
}

// JobTransition is one change of a driver job's state.
type JobTransition struct {
	State string
	Time  int64
}

// Submission is one submitted job, from submission-job events (events_submission_job_definition_event.proto and
// events_submission_job_lifecycle_event.proto). No Ray up to 2.60 sends them.
type Submission struct {
	ID          string
	Entrypoint  string
	RuntimeEnv  string
	Metadata    map[string]string
	NumCPUs     float64
	NumGPUs     float64
	Memory      int64
	Resources   map[string]float64
	Transitions []SubmissionTransition
}

// SubmissionTransition is one change of a submission's status (PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED).
type SubmissionTransition struct {
	State        string
	Time         int64
	Message      string
	ErrorType    string
	DriverNode   rayid.Node
	AgentAddress string
	ExitCode     int32
	HasExitCode  bool
}

// Worker is one worker process, from worker events. Ray sends them from 2.58 on.
type Worker struct {
	ID          rayid.Worker
	Node        rayid.Node
	Job         rayid.Job
	Type        string // WORKER, DRIVER, SPILL_WORKER, RESTORE_WORKER
	PID         uint32
	Transitions []WorkerTransition
}

// WorkerTransition is one change of a worker's state; the times in ms are Ray's own fields.
type WorkerTransition struct {
	State      string
	Time       int64
	LaunchMs   uint64
	LaunchedMs uint64
	StartMs    uint64
	EndMs      uint64
	ExitType   string
	ExitDetail string
}

// PlacementGroup is one placement group, from placement-group events (events_placement_group_definition_event.proto and
// events_placement_group_lifecycle_event.proto). No Ray up to 2.60 sends them.
type PlacementGroup struct {
	ID           rayid.PlacementGroup
	Name         string
	Namespace    string
	Strategy     string
	Detached     bool
	CreatorJob   rayid.Job
	CreatorActor rayid.Actor
	Created      int64 // when the GCS was asked for it
	Bundles      []Bundle
	Transitions  []PlacementGroupTransition
}

// Bundle is one reserved set of resources.
type Bundle struct {
	Index         int32
	Resources     map[string]float64
	LabelSelector map[string]string
}

// PlacementGroupTransition is one change of a placement group's state.
type PlacementGroupTransition struct {
	State           string
	SchedulingState string
	Time            int64
	Attempt         uint32               // of placing it, from 1; 0 before the first
	RetryDelayMs    float64              // the longest between two attempts
	Placements      map[int32]rayid.Node // bundle index → node
}

// PlatformEvent is one delivery of an event of the platform that the cluster runs on, such as Kubernetes
// (platform_event.proto). Ray sends them from 2.56 on, if its head was told to watch its platform. An event that
// happens again is delivered again, with a later time.
type PlatformEvent struct {
	ID           string // Ray's, base64: of Kubernetes the UID of the event
	Time         int64  // of its last occurrence; 0 if the platform did not tell
	Severity     string // INFO or WARNING
	Platform     string // KUBERNETES
	Component    string // of the platform that reported it
	Metadata     map[string]string
	ObjectKind   string // Pod, RayCluster, RayJob or RayService
	ObjectName   string
	Reason       string
	Message      string
	CustomFields map[string]string // count: how often it happened, if more than once
}

// delivery identifies a PlatformEvent.
type delivery struct {
	id   string
	time int64
}

func (p *PlatformEvent) delivery() delivery { return delivery{p.ID, p.Time} }

func comparePlatformEvents(a, b *PlatformEvent) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.ID, b.ID))
}
