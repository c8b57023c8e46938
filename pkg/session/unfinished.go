package session

// Unfinished counts jobs and actors whose end is in no event. In a session that is over they ended with the cluster.
type Unfinished struct {
	Jobs   int // drivers and submissions
	Actors int
}

// Unfinished counts what had not ended when the session's last event was sent. A submission and its driver count as one
// job.
func (s *Session) Unfinished() (u Unfinished) {
	driven := map[string]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if id := j.Metadata["job_submission_id"]; id != "" {
			driven[id] = true
		}
		if n := len(j.Transitions); n > 0 && j.Transitions[n-1].State != "FINISHED" {
			u.Jobs++
		}
	}
	for i := range s.Submissions {
		sub := &s.Submissions[i]
		if n := len(sub.Transitions); n > 0 && !driven[sub.ID] {
			switch sub.Transitions[n-1].State {
			case "STOPPED", "SUCCEEDED", "FAILED":
			default:
				u.Jobs++
			}
		}
	}
	for i := range s.Actors {
		if t := s.Actors[i].Transitions; len(t) > 0 && t[len(t)-1].State != "DEAD" {
			u.Actors++
		}
	}
	return u
}
