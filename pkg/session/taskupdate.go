package session

import "github.com/rayhistory/historyserver/pkg/rayid"

// taskUpdate is what one event tells of one attempt of a task, like Ray's own gcs.proto TaskEvents. A decoder has one and fills it anew
// for each event; its slices are used again.
type taskUpdate struct {
	id      rayid.Task
	attempt int32
	job     rayid.Job

	// Of TASK_DEFINITION_EVENT and ACTOR_TASK_DEFINITION_EVENT; def is 0 in all others.
	def    defID
	parent textID
	actor  textID

	// Of TASK_LIFECYCLE_EVENT.
	transitions []transition
	node        textID
	worker      textID
	pid         int32
	reprName    textID
	flags       rowFlags // all but the first bits
	time        int64    // of the event, for what only the last event decides
	hasError    bool
	errorType   textID
	errorText   []byte // without terminal colours

	stdoutFile, stderrFile                         textID
	stdoutStart, stdoutEnd, stderrStart, stderrEnd int64

	// Of TASK_PROFILE_EVENT: encoded by appendProfile.
	profiler profilerID
	profile  []byte
}

type transition struct {
	state taskState
	time  int64 // Unix nanoseconds
}

func (u *taskUpdate) reset() {
	*u = taskUpdate{transitions: u.transitions[:0], errorText: u.errorText[:0], profile: u.profile[:0]}
}

// endTime is when the update says the attempt failed, 0 if it does not.
func (u *taskUpdate) failedAt() (t int64) {
	for _, tr := range u.transitions {
		if tr.state == stateFailed {
			t = max(t, tr.time)
		}
	}
	return t
}
