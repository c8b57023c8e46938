package layout

import "time"

// Names of a session's metadata, for MetadataKey. Each further head of a session stores versions of both, under keys as
// of SnapshotVersionKey.
const (
	Start  = "start"
	End    = "end"
	Joined = "joined"
)

const (
	// MaxLabels is how many labels of a cluster are stored at most.
	MaxLabels = 64
	// MaxMetadata is how many bytes of a metadata object are read at most; a usual one has some hundred.
	MaxMetadata = 1 << 20
)

// StartMetadata is session/start.json: what the head's collector knows of a session when it first sees it. The list of
// sessions is made from it. Empty fields were not known.
type StartMetadata struct {
	// OwnerKind is RayCluster, RayJob or RayService: what the user created. OwnerName is its name (for a RayCluster,
	// the cluster's).
	OwnerKind string `json:"ownerKind,omitempty"`
	OwnerName string `json:"ownerName,omitempty"`
	// RayVersion is Ray's own, "2.60.0".
	RayVersion string `json:"rayVersion,omitempty"`
	// Labels are those that users gave the object they created, MaxLabels at most.
	Labels map[string]string `json:"labels,omitempty"`
	// Start is when the head started (UTC).
	Start time.Time `json:"start"`
	// NodeID is the head's node, in hex.
	NodeID string `json:"nodeId,omitempty"`
}

// EndMetadata is session/end.json: the head's collector writes it once everything it had is stored. It says that this
// head has ended; with GCS fault tolerance another one may continue the session. Package lifetime says what that means.
type EndMetadata struct {
	// RayVersion and Start are repeated here for sessions where they were not known at the start.
	RayVersion string    `json:"rayVersion,omitempty"`
	Start      time.Time `json:"start"`
	// End is when the session ended (UTC).
	End time.Time `json:"end"`
	// Nodes is how many nodes the session had in its life, dead ones included; 0 where that was not known.
	Nodes int `json:"nodes,omitempty"`
	// NodeID is the head's node, in hex.
	NodeID string `json:"nodeId,omitempty"`
}

// JoinedMetadata is session/joined.json. Compaction stores it before it joins chunks of an ended session, because from
// then on the times when first chunks were stored do not tell when the session was written. A copy of a session without
// an end has it, too.
type JoinedMetadata struct {
	// End is when the session had ended (UTC).
	End time.Time `json:"end"`
}
