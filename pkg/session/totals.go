package session

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Activity counts task attempts over time, in slices of equal length.
type Activity struct {
	// From and To bound the time, Unix nanoseconds.
	From, To int64
	// Running counts, for each slice, the attempts that ran at some moment of it; Failed those that failed in it.
	Running, Failed []int
}

// Activity divides the time between the session's first and last event into equal slices, and counts the attempts that
// ran and that failed in each. An attempt without an end ran until the session's end. A session without times has no
// slices. An error says that rows could not be read, so counts are missing, or is the context's.
func (s *Session) Activity(ctx context.Context, slices int) (Activity, error) {
	a := Activity{From: s.Start, To: s.End}
	// the difference of damaged times may overflow, and is negative then
	if s.Start == 0 || s.End-s.Start <= 0 || slices <= 0 {
		return a, nil
	}
	at := func(time int64) int {
		time = min(max(time, s.Start), s.End)
		return min(int(float64(time-s.Start)/float64(s.End-s.Start)*float64(slices)), slices-1)
	}
	// changes holds how many attempts begin to run in a slice, less those that ended in the slice before.
	changes := make([]int, slices+1)
	a.Failed = make([]int, slices)
	var states []tasktable.StateTime
	for n := range s.Tasks.Len() {
		if n%tasktable.GroupRows == 0 && ctx.Err() != nil { // a group may be read from the store
			return a, context.Cause(ctx)
		}
		began, ended := int64(0), s.End
		states = s.Tasks.Row(n, tasktable.AtEnd).States(states[:0])
		for _, st := range states {
			switch st.State {
			case tasktable.StateRunning:
				began = st.Time
			case tasktable.StateFailed:
				a.Failed[at(st.Time)]++
				ended = st.Time
			case tasktable.StateFinished:
				ended = st.Time
			}
		}
		if began != 0 && ended >= began {
			changes[at(began)]++
			changes[at(ended)+1]--
		}
	}
	a.Running = make([]int, slices)
	running := 0
	for i := range a.Running {
		running += changes[i]
		a.Running[i] = running
	}
	return a, s.Tasks.Err()
}

// Unfinished counts jobs and actors whose end is in no event. In a session that is over they ended with the cluster.
type Unfinished struct {
	Jobs   int // drivers and submissions
	Actors int
}

// Unfinished counts the jobs and actors that had not ended when the session's last event was sent. A submission and its
// driver count as one job. Things of which no change of state is stored are not counted.
func (s *Session) Unfinished() (u Unfinished) {
	driven := map[string]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if id := j.Submission(); id != "" {
			driven[id] = true
		}
		if n := len(j.Transitions); n > 0 && j.Transitions[n-1].State != "FINISHED" {
			u.Jobs++
		}
	}
	for i := range s.Submissions {
		sub := &s.Submissions[i]
		if n := len(sub.Transitions); n > 0 && !driven[sub.ID] && !jobstatus.Ended(sub.Transitions[n-1].State) {
			u.Jobs++
		}
	}
	for i := range s.Actors {
		if t := s.Actors[i].Transitions; len(t) > 0 && t[len(t)-1].State != "DEAD" {
			u.Actors++
		}
	}
	return u
}
