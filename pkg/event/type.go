// Package event reads Ray's export events: the JSON form of ray.rpc.events.RayEvent (src/ray/protobuf/public/events_base_event.proto),
// as Ray's aggregator agent POSTs them, in camelCase or snake_case.
package event

// Type is the eventType of an event, an index into names. Types this version does not know are Unknown: they are stored as they came
// and counted, never refused.
type Type uint8

// Numbers are those of ray.rpc.events.RayEvent.EventType.
const (
	Unknown Type = iota
	TaskDefinition
	TaskLifecycle
	ActorTaskDefinition
	TaskProfile
	DriverJobDefinition
	DriverJobLifecycle
	NodeDefinition
	NodeLifecycle
	ActorDefinition
	ActorLifecycle
	PlacementGroupDefinition
	PlacementGroupLifecycle
	SubmissionJobDefinition
	SubmissionJobLifecycle
	Platform
	WorkerLifecycle
	WorkerDefinition
	NumTypes
)

var names = [NumTypes]string{
	"EVENT_TYPE_UNSPECIFIED",
	"TASK_DEFINITION_EVENT", "TASK_LIFECYCLE_EVENT", "ACTOR_TASK_DEFINITION_EVENT", "TASK_PROFILE_EVENT",
	"DRIVER_JOB_DEFINITION_EVENT", "DRIVER_JOB_LIFECYCLE_EVENT", "NODE_DEFINITION_EVENT", "NODE_LIFECYCLE_EVENT",
	"ACTOR_DEFINITION_EVENT", "ACTOR_LIFECYCLE_EVENT", "PLACEMENT_GROUP_DEFINITION_EVENT", "PLACEMENT_GROUP_LIFECYCLE_EVENT",
	"SUBMISSION_JOB_DEFINITION_EVENT", "SUBMISSION_JOB_LIFECYCLE_EVENT", "PLATFORM_EVENT", "WORKER_LIFECYCLE_EVENT", "WORKER_DEFINITION_EVENT",
}

var byName = func() map[string]Type {
	m := make(map[string]Type, len(names))
	for t, n := range names {
		m[n] = Type(t)
	}
	return m
}()

// ParseType maps Ray's name of an event type; names it does not know are Unknown.
func ParseType(name []byte) Type { return byName[string(name)] }

func (t Type) String() string {
	if t < NumTypes {
		return names[t]
	}
	return names[Unknown]
}

// NodeScope reports whether events of this type belong to the session as a whole (stored under node_events) rather than to one job.
func (t Type) NodeScope() bool {
	switch t {
	case NodeDefinition, NodeLifecycle, Platform:
		return true
	}
	return false
}
