package entities

import (
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// The rows of everything there are few of: a session of a million tasks has some thousands of these. Tasks are columns:
// see tasktable. The tags name the fields of Ray's events, which package eventjson reads by them: see its message.
//
// Times are Unix nanoseconds; 0 if no event has them. States are Ray's own names (ALIVE, DEAD, …), so that a state a
// newer Ray adds is shown as it is. Transitions are sorted by time, but what ends the row is last; repeats are removed.

// Actor is one actor, from actor events (events_actor_definition_event.proto, events_actor_lifecycle_event.proto).
type Actor struct {
	ID             rayid.Actor          `definition:"actorId" lifecycle:"actorId"`
	Job            rayid.Job            `definition:"jobId"`
	Defined        bool                 `definition:"actorId,present"` // a definition event came
	Detached       bool                 `definition:"isDetached"`
	Name           string               `definition:"name"`
	Namespace      string               `definition:"rayNamespace"`
	Class          string               `definition:"className"`
	RuntimeEnv     string               `definition:"serializedRuntimeEnv"` // serialized, JSON
	CallSite       string               `definition:"callSite"`
	Resources      map[string]float64   `definition:"requiredResources"`
	LabelSelector  map[string]string    `definition:"labelSelector"`
	PlacementGroup rayid.PlacementGroup `definition:"placementGroupId"`
	Parent         []byte               `definition:"parentId,parent"`
	Transitions    []ActorTransition    `lifecycle:"stateTransitions"`
}

// ActorTransition is one change of an actor's state. IDs and PID are nil or 0 if the transition has none.
type ActorTransition struct {
	State         string       `lifecycle:"state,enum"`
	Time          int64        `lifecycle:"timestamp,time"`
	Node          rayid.Node   `lifecycle:"nodeId"`
	Worker        rayid.Worker `lifecycle:"workerId"`
	PID           uint32       `lifecycle:"pid"`
	Port          int32        `lifecycle:"port"`
	ReprName      string       `lifecycle:"reprName"`
	RestartReason string       `lifecycle:"restartReason,enum"`
	// DeathCause is protobuf's JSON of ray.rpc.ActorDeathCause, camelCase; nil unless DEAD.
	DeathCause []byte `lifecycle:"deathCause,message"`
}

// Node is one node, from node events.
type Node struct {
	ID           rayid.Node        `definition:"nodeId" lifecycle:"nodeId"`
	IP           string            `definition:"nodeIpAddress"`
	Hostname     string            `definition:"hostname"`
	Name         string            `definition:"nodeName"`
	InstanceID   string            `definition:"instanceId"`
	InstanceType string            `definition:"instanceTypeName"`
	Labels       map[string]string `definition:"labels"`
	Start        int64             `definition:"startTimestamp,time"`
	Transitions  []NodeTransition  `lifecycle:"stateTransitions"`
}

// NodeTransition is one change of a node's state.
type NodeTransition struct {
	State        string             `lifecycle:"state,enum"`
	SubState     string             `lifecycle:"aliveSubState,enum"` // DRAINING or UNSPECIFIED
	Time         int64              `lifecycle:"timestamp,time"`
	Resources    map[string]float64 `lifecycle:"resources"`
	DeathReason  string             `lifecycle:"deathInfo.reason,enum"`
	DeathMessage string             `lifecycle:"deathInfo.reasonMessage"`
}

// Job is one driver, from driver-job events.
type Job struct {
	ID          rayid.Job         `definition:"jobId" lifecycle:"jobId"`
	DriverPID   int64             `definition:"driverPid"`
	DriverNode  rayid.Node        `definition:"driverNodeId"`
	Entrypoint  string            `definition:"entrypoint"`
	RuntimeEnv  string            `definition:"config.serializedRuntimeEnv"` // serialized, JSON
	Metadata    map[string]string `definition:"config.metadata"`
	Transitions []JobTransition   `lifecycle:"stateTransitions"` // CREATED, FINISHED
}

// SubmissionKey names a driver's submission in its metadata (ray/dashboard/modules/job/common.py).
const SubmissionKey = "job_submission_id"

// Submission is the ID of the submission whose driver the job is; "" if nobody submitted it.
func (j *Job) Submission() string { return j.Metadata[SubmissionKey] }

// JobTransition is one change of a driver job's state.
type JobTransition struct {
	State string `lifecycle:"state,enum"`
	Time  int64  `lifecycle:"timestamp,time"`
}

// Submission is one submitted job, from submission-job events (events_submission_job_definition_event.proto and
// events_submission_job_lifecycle_event.proto). No Ray up to 2.60 sends them.
type Submission struct {
	ID          string                 `definition:"submissionId" lifecycle:"submissionId"`
	Entrypoint  string                 `definition:"entrypoint"`
	RuntimeEnv  string                 `definition:"config.serializedRuntimeEnv"`
	Metadata    map[string]string      `definition:"config.metadata"`
	NumCPUs     float64                `definition:"entrypointResources.numCpus"`
	NumGPUs     float64                `definition:"entrypointResources.numGpus"`
	Memory      int64                  `definition:"entrypointResources.memory"`
	Resources   map[string]float64     `definition:"entrypointResources.customResources"`
	Transitions []SubmissionTransition `lifecycle:"stateTransitions"`
}

// SubmissionTransition is one change of a submission's status, one of jobstatus.
type SubmissionTransition struct {
	State        string     `lifecycle:"state,enum"`
	Time         int64      `lifecycle:"timestamp,time"`
	Message      string     `lifecycle:"message"`
	ErrorType    string     `lifecycle:"errorType"`
	DriverNode   rayid.Node `lifecycle:"driverNodeId"`
	AgentAddress string     `lifecycle:"driverAgentHttpAddress"`
	ExitCode     int32      `lifecycle:"driverExitCode"`
	HasExitCode  bool       `lifecycle:"driverExitCode,present"`
}

// Worker is one worker process, from worker events. Ray sends them from 2.58 on.
type Worker struct {
	ID          rayid.Worker       `definition:"workerId" lifecycle:"workerId"`
	Node        rayid.Node         `definition:"nodeId"`
	Job         rayid.Job          `lifecycle:"jobId"`
	Type        string             `definition:"workerType,enum"` // WORKER, DRIVER, SPILL_WORKER, RESTORE_WORKER
	PID         uint32             `definition:"pid"`
	Transitions []WorkerTransition `lifecycle:"stateTransitions"`
}

// WorkerTransition is one change of a worker's state; the times in ms are Ray's own fields.
type WorkerTransition struct {
	State      string `lifecycle:"state,enum"`
	Time       int64  `lifecycle:"timestamp,time"`
	LaunchMs   uint64 `lifecycle:"workerLaunchTimeMs"`
	LaunchedMs uint64 `lifecycle:"workerLaunchedTimeMs"`
	StartMs    uint64 `lifecycle:"startTimeMs"`
	EndMs      uint64 `lifecycle:"endTimeMs"`
	ExitType   string `lifecycle:"deathInfo.exitType,enum"`
	ExitDetail string `lifecycle:"deathInfo.exitDetail"`
}

// PlacementGroup is one placement group, from placement-group events (events_placement_group_definition_event.proto and
// events_placement_group_lifecycle_event.proto). No Ray up to 2.60 sends them.
type PlacementGroup struct {
	ID           rayid.PlacementGroup       `definition:"placementGroupId" lifecycle:"placementGroupId"`
	Name         string                     `definition:"name"`
	Namespace    string                     `definition:"rayNamespace"`
	Strategy     string                     `definition:"strategy,enum"`
	Detached     bool                       `definition:"isDetached"`
	CreatorJob   rayid.Job                  `definition:"creatorJobId"`
	CreatorActor rayid.Actor                `definition:"creatorActorId"`
	Created      int64                      `definition:"creationRequestReceivedNs,nanos"` // when the GCS was asked for it
	Bundles      []Bundle                   `definition:"bundles"`
	Transitions  []PlacementGroupTransition `lifecycle:"stateTransitions"`
}

// Bundle is one reserved set of resources.
type Bundle struct {
	Index         int32              `definition:"bundleIndex"`
	Resources     map[string]float64 `definition:"unitResources"`
	LabelSelector map[string]string  `definition:"labelSelector"`
}

// PlacementGroupTransition is one change of a placement group's state.
type PlacementGroupTransition struct {
	State           string               `lifecycle:"state,enum"`
	SchedulingState string               `lifecycle:"schedulingState,enum"`
	Time            int64                `lifecycle:"timestamp,time"`
	Attempt         uint32               `lifecycle:"schedulingAttempt"`   // of placing it, from 1; 0 before the first
	RetryDelayMs    float64              `lifecycle:"highestRetryDelayMs"` // the longest between two attempts
	Placements      map[int32]rayid.Node `lifecycle:"bundlePlacements"`    // bundle index → node
}

// PlatformEvent is one delivery of an event of the platform that the cluster runs on, such as Kubernetes
// (platform_event.proto). Ray sends them from 2.56 on, if its head was told to watch its platform. An event that
// happens again is delivered again, with a later time.
type PlatformEvent struct {
	ID           string            // Ray's, base64: of Kubernetes the UID of the event
	Time         int64             // of its last occurrence; 0 if the platform did not tell
	Severity     string            // INFO or WARNING
	Platform     string            `definition:"source.platform,enum"` // KUBERNETES
	Component    string            `definition:"source.component"`     // of the platform that reported it
	Metadata     map[string]string `definition:"source.metadata"`
	ObjectKind   string            `definition:"objectKind"` // Pod, RayCluster, RayJob or RayService
	ObjectName   string            `definition:"objectName"`
	Reason       string            `definition:"reason"`
	Message      string            `definition:"message"`
	CustomFields map[string]string `definition:"customFields"` // count: how often it happened, if more than once
}
