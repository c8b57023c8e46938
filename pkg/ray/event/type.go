// Package event reads Ray's export events: the JSON form of ray.rpc.events.RayEvent
// (src/ray/protobuf/public/events_base_event.proto), as Ray's aggregator agent POSTs them, in camelCase or snake_case.
package event

// Type is the eventType of an event: the number that ray.rpc.events.RayEvent.EventType gives it. Types this version
// does not know are Unknown: their events are stored as they came and counted, never refused.
type Type uint8

// Unknown is 0, as in Ray.
const Unknown Type = 0

// typeNames are Ray's names of the types, by number.
var typeNames = [...]string{
	Unknown: "EVENT_TYPE_UNSPECIFIED",
	1:       "TASK_DEFINITION_EVENT",
	2:       "TASK_LIFECYCLE_EVENT",
	3:       "ACTOR_TASK_DEFINITION_EVENT",
	4:       "TASK_PROFILE_EVENT",
	5:       "DRIVER_JOB_DEFINITION_EVENT",
	6:       "DRIVER_JOB_LIFECYCLE_EVENT",
	7:       "NODE_DEFINITION_EVENT",
	8:       "NODE_LIFECYCLE_EVENT",
	9:       "ACTOR_DEFINITION_EVENT",
	10:      "ACTOR_LIFECYCLE_EVENT",
	11:      "PLACEMENT_GROUP_DEFINITION_EVENT",
	12:      "PLACEMENT_GROUP_LIFECYCLE_EVENT",
	13:      "SUBMISSION_JOB_DEFINITION_EVENT",
	14:      "SUBMISSION_JOB_LIFECYCLE_EVENT",
	15:      "PLATFORM_EVENT",
	16:      "WORKER_LIFECYCLE_EVENT",
	17:      "WORKER_DEFINITION_EVENT",
}

// The types whose events belong to the session, not to a job.
const (
	nodeDefinition Type = 7
	nodeLifecycle  Type = 8
	platform       Type = 15
)

var byName = func() map[string]Type {
	m := make(map[string]Type, len(typeNames))
	for t, name := range typeNames {
		m[name] = Type(t)
	}
	return m
}()

// TypeNames are Ray's names of the types that this version knows, in the order of their numbers.
func TypeNames() []string { return typeNames[Unknown+1:] }

// ParseType is the type that Ray's name stands for, Unknown if it is not known.
func ParseType(name []byte) Type { return byName[string(name)] }

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return typeNames[Unknown]
}

// NodeScope says whether events of this type belong to the session (and are stored under node_events), not to one job.
func (t Type) NodeScope() bool {
	switch t {
	case nodeDefinition, nodeLifecycle, platform:
		return true
	}
	return false
}
