package catalog

import "slices"

// Outcomes of a session or a job, in the words that are stored, sent and shown. The findings decide them.
const (
	Failed     = "failed"
	Succeeded  = "succeeded"
	Stopped    = "stopped"    // somebody stopped the jobs
	Unfinished = "unfinished" // the cluster ended before its jobs did
	Unknown    = "unknown"    // nothing is stored of the jobs, or the server could not find out
	Running    = "running"    // the session has not ended
	// NotKnownYet is for filters and counts: the session has ended, and nobody has found out how. Where one session is
	// stored or sent, its outcome is then "".
	NotKnownYet = "not-known-yet"
)

// Ended is, beside Running, the state of a session.
const Ended = "ended"

// State is the state of a session: Running or Ended.
func State(running bool) string {
	if running {
		return Running
	}
	return Ended
}

// Outcomes are those of ended sessions.
var Outcomes = []string{Failed, Succeeded, Stopped, Unfinished, Unknown}

// FilterOutcomes are those that a filter takes.
var FilterOutcomes = append(slices.Clip(Outcomes), NotKnownYet)
