package catalog

import (
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Entry is one stored session in the list of sessions.
type Entry struct {
	Ref layout.Session
	Summary
	Start time.Time
	// End is when the session ended; zero while it runs. Without metadata from the collector it is the time of the last
	// write.
	End       time.Time
	LastWrite time.Time // when the last object of the session was stored
	Running   bool
	// Described is false until the session's objects are listed. Until then, only the fields from the marker are set.
	Described bool
}

// Summary is what lists show of a session besides its name, its state and its times. Programs get it as JSON.
type Summary struct {
	// OwnerKind is RayCluster, RayJob or RayService. OwnerName is the name of the object that the user created; for a
	// RayCluster it is the cluster's own name.
	OwnerKind  string `json:"ownerKind"`
	OwnerName  string `json:"ownerName"`
	RayVersion string `json:"rayVersion,omitempty"` // "2.60.0"; "" if not known
	Nodes      int    `json:"nodes,omitempty"`      // 0 if not known
	Objects    int    `json:"objects"`
	Bytes      int64  `json:"bytes"` // of all stored objects
	// Outcome is one of Outcomes; "" is not known yet. Cause is the first error in one line, or why the server could not
	// find out; of a running session it is what Ray says about the first job that failed. Both are as of when the
	// session's details were read.
	Outcome string `json:"outcome,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// FailedJobs is how many jobs of a running session have failed. For an ended session it is 0: see Outcome.
	FailedJobs int `json:"failedJobs,omitempty"`
}

// LastOfEnded is when the last object of a session was stored that has ended; zero while more may be stored, or if
// nobody has looked yet.
func (e *Entry) LastOfEnded() time.Time {
	if e.Running || e.End.IsZero() {
		return time.Time{}
	}
	return e.LastWrite
}

// IsNotKnownYet says whether the session has ended, and nobody has found out how.
func (e Entry) IsNotKnownYet() bool {
	return e.Described && !e.Running && e.Objects > 0 && e.Outcome == ""
}

// Duration is how long the session ran, up to now if it still runs; 0 if not known.
func (e Entry) Duration(now time.Time) time.Duration {
	end := e.End
	switch {
	case e.Running:
		end = now
	case end.IsZero():
		return 0
	}
	return max(0, end.Sub(e.Start))
}

// Kinds of objects that own a session, as Kubernetes spells them.
const (
	RayCluster = "RayCluster"
	RayJob     = "RayJob"
	RayService = "RayService"
)

// Kinds are all of these.
var Kinds = []string{RayCluster, RayJob, RayService}

// Kind returns a kind in the spelling of Kubernetes, from any upper or lower case ("rayjob", "RayJob"); "" if it is
// none of them.
func Kind(s string) string {
	for _, k := range Kinds {
		if strings.EqualFold(k, s) {
			return k
		}
	}
	return ""
}
