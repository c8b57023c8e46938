package layout

import "time"

// Names of a session's facts, for FactsKey.
const (
	Start = "start"
	End   = "end"
)

// StartFacts is session/start.json: what the head's collector tells of a session when it first sees it. The list of sessions is made
// from it. Empty fields were not known.
type StartFacts struct {
	// OwnerKind is RayCluster, RayJob or RayService: what the user created. OwnerName is its name (for a RayCluster, the cluster's).
	OwnerKind string `json:"ownerKind,omitempty"`
	OwnerName string `json:"ownerName,omitempty"`
	// RayVersion is Ray's own, "2.60.0".
	RayVersion string `json:"rayVersion,omitempty"`
	// Start is when the head started (UTC).
	Start time.Time `json:"start"`
}

// EndFacts is session/end.json: written by the head's collector once everything it had is stored. It says that the session is over.
type EndFacts struct {
	// RayVersion and Start are told again, for sessions in which they were not known at the start.
	RayVersion string    `json:"rayVersion,omitempty"`
	Start      time.Time `json:"start"`
	// End is when the session ended (UTC).
	End time.Time `json:"end"`
	// Nodes is how many nodes the session had in its life, dead ones included; 0 where that was not known.
	Nodes int `json:"nodes,omitempty"`
}
