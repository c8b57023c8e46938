package catalog

import (
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/packs"
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

// Summary is what lists show of a session. Outcome and Cause are as of when the session's details were read. Of a
// running session, Cause is what Ray says about the first job that failed.
type Summary = packs.Summary

// LastOfEnded returns when the last object of an ended session was stored. It is zero while the session runs, because
// more may be stored, and while its objects are not listed yet.
func (e *Entry) LastOfEnded() time.Time {
	if e.Running || e.End.IsZero() {
		return time.Time{}
	}
	return e.LastWrite
}

// Latest is when the session ended or when its last object was stored, whichever is later.
func (e Entry) Latest() time.Time {
	if e.LastWrite.After(e.End) {
		return e.LastWrite
	}
	return e.End
}

// LacksOutcome says whether the session has ended and its outcome is not determined yet (NotKnownYet).
func (e Entry) LacksOutcome() bool {
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

// Kinds are all kinds of owners.
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
