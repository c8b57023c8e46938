package findings

// noteUnknown says what is missing where no job of an ended session is known.
func (b *builder) noteUnknown() {
	if len(b.jobs) > 0 || b.running || b.r.At != 0 {
		return
	}
	switch {
	case b.s.Start == 0:
		b.missing = append(b.missing, "No events are stored: of no job, task, actor or node.")
	case b.s.Tasks.Len()+len(b.s.Actors) == 0:
		b.missing = append(b.missing, "No events of jobs, tasks or actors are stored, only others.")
	default:
		b.missing = append(b.missing, "No events of jobs are stored, only others.")
	}
	if !b.jobsSaved {
		b.missing = append(b.missing, "No snapshots of the dashboard's list of jobs are stored.")
	}
}

// unknownSummary says why nothing is known of how a session's jobs ended.
func (b *builder) unknownSummary() string {
	switch {
	case b.r.At != 0:
		return "No job was known at this moment."
	case len(b.lostJobs) > 0:
		return "How its jobs ended is not stored."
	case b.jobsSaved:
		return "No job is known: its dashboard listed none."
	case b.s.Tasks.Len()+len(b.s.Actors) > 0:
		return "Nothing of this session's jobs is stored but their tasks and actors, of which none failed."
	}
	return "Nothing of this session's jobs is stored."
}
