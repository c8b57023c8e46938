package findings

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// job is a submission, or a driver that was not submitted.
type job struct {
	moment.Job
	id     rayid.Job // of the driver; nil if none was started
	undone undone    // of a job that runs
}

const maxJobs = 2000 // jobs that one report examines; if there are more, the failed ones first

// name returns the name under which people know the job.
func (j *job) name() string {
	return cmp.Or(j.SubmissionID, j.id.String())
}

// readJobs reads the jobs as the dashboard shows them. Of more than maxJobs it examines the failed ones first. Of the
// others it remembers in b.otherJobs how they ended, and in b.unexamined which of their drivers did not fail.
func (b *builder) readJobs() {
	known, err := b.moment.Jobs(b.ctx)
	if b.stopOn(err) {
		return
	}
	saved, _, err := b.moment.Saved(b.ctx, "/api/jobs/")
	if b.stopOn(err) {
		return
	}
	_, b.jobsSaved = saved.([]any) // what answers with something else is no dashboard
	if len(known) > maxJobs {
		known = slices.Clone(known)
		place := map[string]int{jobstatus.Failed: -1} // the others have 0
		slices.SortStableFunc(known, func(x, y moment.Job) int { return cmp.Compare(place[x.Status], place[y.Status]) })
	}
	for i := range known {
		if i == maxJobs {
			b.noteMissing("Only %d of %d jobs were looked at, those that failed before others.", maxJobs, len(known))
			b.unexamined = map[rayid.Job]bool{}
			for _, j := range known[i:] {
				b.otherJobs[j.Status]++
				for _, driver := range j.Drivers() {
					if id, err := rayid.Parse[rayid.Job](driver); err == nil {
						b.unexamined[id] = j.Status != jobstatus.Failed
					}
				}
			}
			break
		}
		j := job{Job: known[i]}
		j.id, _ = rayid.Parse[rayid.Job](known[i].ID) // nil if no driver was started
		if j.Node.Nil() && j.Driver != nil {          // Ray's list names no node of a driver that was not submitted
			j.Node = j.Driver.DriverNode
		}
		b.jobs = append(b.jobs, j)
	}
	b.joinClients()
	b.readUnrecordedEnds()
	b.leaveOutLostJobs(known)
}

// maxUnrecorded is how many logs of drivers are read of which only the end is stored, and of which nothing else is.
const maxUnrecorded = 20

// readUnrecordedEnds looks at the logs of drivers of which it is only known that they ended, as when the head was lost
// with them. Ray shows all of them as successes. A driver whose log ends in an exception, or in words about an error,
// failed; of the others b.missing says that nobody knows how they ended.
func (b *builder) readUnrecordedEnds() {
	read, unknown := 0, []string(nil) // how many logs were read, and the names of jobs of which nobody knows
	for i := range b.jobs {
		j := &b.jobs[i]
		if j.Message != moment.EndNotRecorded {
			continue
		}
		if read++; read > maxUnrecorded {
			b.noteMissing("Only %d logs of drivers whose end was not recorded were looked at.", maxUnrecorded)
			break
		}
		if log := b.driverLog(j); endedInException(log) || output.EndsInError(log.text) {
			j.Status = jobstatus.Failed
		} else {
			unknown = append(unknown, j.name())
		}
	}
	if len(unknown) > 0 {
		b.noteMissing("How the driver ended is not recorded, and Ray shows that as a success: %s.", listNames(unknown))
	}
}

// succeededOrStopped reports whether a submission succeeded or was stopped, so that nothing that it left behind is a
// failure. It is false for nil, a job that is not known.
func (j *job) succeededOrStopped() bool {
	return j != nil && j.SubmissionID != "" && (j.Status == jobstatus.Succeeded || j.Status == jobstatus.Stopped)
}

// hasDriver reports whether an ID is that of a driver of the job.
func (j *job) hasDriver(id rayid.Job) bool {
	return !id.Nil() &&
		(id == j.id || slices.ContainsFunc(j.Earlier, func(d *entities.Job) bool { return d.ID == id }))
}

// beganAfter reports whether the job began after a failure was over, which is then no cause of what failed in the job.
// It is false for findings about Serve, whose state stays as it was, and for nil, a job that is not known.
func (j *job) beganAfter(f *finding) bool {
	return j != nil && f.Kind != Serve && f.last != 0 && f.last < j.Start
}

// jobOfID returns the job with the ID of a driver; nil if there is none.
func (b *builder) jobOfID(id rayid.Job) *job {
	if b.jobOfDriver == nil {
		b.jobOfDriver = map[rayid.Job]*job{}
		for i := range b.jobs {
			j := &b.jobs[i]
			for _, d := range j.Earlier {
				b.jobOfDriver[d.ID] = cmp.Or(b.jobOfDriver[d.ID], j)
			}
			b.jobOfDriver[j.id] = cmp.Or(b.jobOfDriver[j.id], j)
		}
	}
	if id.Nil() {
		return nil
	}
	return b.jobOfDriver[id]
}

// readDrivers finds the submissions that failed or were stopped, and the reason in their drivers' logs. It also finds
// drivers without a submission that ended unexpectedly.
func (b *builder) readDrivers() {
	for i := range b.jobs {
		j := &b.jobs[i]
		switch {
		case j.SubmissionID == "":
			b.plainDriverEnded(j)
		case j.Status == jobstatus.Stopped:
			f := b.jobFinding(JobStopped, j, "Job %s was stopped", j.name())
			f.intended = true
			f.addEvidence(b.jobEvidence(j, j.Message))
		case j.Status == jobstatus.Failed, j.Status == jobstatus.Running && !b.isOpen():
			log := b.driverLog(j)
			if !b.driverLostGCS(j, log) && (j.Status == jobstatus.Failed || endedInException(log)) {
				b.driverFailed(j, log)
			}
		}
	}
	for _, f := range b.findings {
		for _, c := range f.because {
			if f.ended != nil && c.Kind == Serve {
				c.addJob(f.job) // an application belongs to the job that it made fail, if it is one
			}
		}
	}
}

// mayHideStatus matches an entrypoint of several programs: it may succeed although one of them failed.
var mayHideStatus = lazyregexp.New(`[|;\n]|\.sh\b`)

// maxSucceeded is how many logs of submissions that succeeded are read.
const maxSucceeded = 20

// readHiddenFailures looks at the logs of submissions that succeeded although a program of theirs may have failed. One
// report reads a bounded number of logs, and what tells of failures needs them more: so it comes last, and reads few.
func (b *builder) readHiddenFailures() {
	read := 0
	for i := range b.jobs {
		if j := &b.jobs[i]; j.Status == jobstatus.Succeeded && mayHideStatus().MatchString(j.Entrypoint) {
			if read++; read > maxSucceeded {
				break
			}
			b.programFailed(j)
		}
	}
}

// programFailed adds a warning about a submission that succeeded if the log shows that an exception ended a program of
// its entrypoint, as in "python train.py | tee train.log". A pipe that is no longer read ends programs in order. What
// connects to Ray behind the exception may be the program itself, if the entrypoint is a pipe.
func (b *builder) programFailed(j *job) {
	e := b.driverEndOf(j, b.driverLog(j))
	handled := e.aftermath == loggedIt || e.aftermath == wentOn && e.piped
	if !e.hasException() || handled || !output.FromModule(e.trace) || e.raised.Type == "BrokenPipeError" {
		return
	}
	how := "an exception ended"
	if strings.TrimSpace(output.Behind(e.trace, e.raised)) != "" {
		how = "an exception may have ended" // or what follows is of the same program
	}
	f := b.jobFinding(JobFailed, j, "Job %s counts as a success, but %s a program of its entrypoint: %s", j.name(), how,
		e.raised)
	f.raised, f.Severity = e.raised, Warning
	f.addEvidence(b.tracebackEvidence(&e))
	f.addEvidence(b.jobEvidence(j, j.Message))
}

// withNode matches the line in which the GCS says that it ended the jobs of a node's drivers, because the node had died
// (gcs_job_manager.cc).
var withNode = lazyregexp.New(`Node is dead, marking all jobs [^\n]*node_id=([0-9a-f]{56})`)

// plainDriverEnded adds the finding about a driver that was not submitted and ended unexpectedly. Ray records no exit
// code of it, only how its process ended as a worker, or that the GCS ended its job when its node had died.
func (b *builder) plainDriverEnded(j *job) {
	for _, d := range b.deaths {
		if d.driver && j.hasDriver(d.job) && !d.wasIntended() {
			f := b.jobFinding(DriverKilled, j, "The driver of job %s ended unexpectedly: %s", j.name(), d.exitText(""))
			f.addEvidence(d.evident)
		}
	}
	lost := b.lostNodes[j.Node]
	if lost == nil || j.End == 0 {
		return
	}
	for _, m := range b.logs.about("gcs_server.out", withNode(), 1, j.Node.String()) {
		if after := j.End - m.at; after >= -int64(time.Second) && after <= silence {
			f := b.jobFinding(DriverKilled, j, "Job %s ended with the node of its driver, %s", j.name(),
				b.nodeName(j.Node))
			f.addEvidence(b.lineEvidence(m))
			f.causedBy(lost)
			lost.addName("job " + j.name())
			return
		}
	}
}

// driverLog returns what the driver of a submission printed. If its log is not stored, it returns the end of the log
// that Ray's message about the job quotes. The log is empty if there is none either.
func (b *builder) driverLog(j *job) *logText {
	node, stored := b.moment.LogNames().Jobs[j.SubmissionID]
	if _, end, found := strings.Cut(j.Message, logsInMessage); found && !stored {
		_, end, _ = strings.Cut(end, "\n")
		return &logText{text: end}
	}
	if !stored || j.SubmissionID == "" {
		return &logText{}
	}
	return b.logs.ofNode(node, moment.SubmissionLog(j.SubmissionID))
}

// jobFinding adds the finding about a job's own end. Its title is made as fmt.Sprintf does.
func (b *builder) jobFinding(kind string, j *job, title string, args ...any) *finding {
	f := b.findOrAdd(kind, j.SubmissionID+j.id.String())
	f.Title = fmt.Sprintf(title, args...)
	f.SubmissionID = j.SubmissionID
	f.ended = j
	entity := Entity{Type: "job", ID: j.SubmissionID, Name: j.name(),
		Link: b.link("#/jobs/%s", cmp.Or(rayid.Hex(j.id), url.PathEscape(j.SubmissionID)))}
	f.add(occurrence{at: j.End, job: j.id, node: j.Node, entity: entity})
	return f
}

// logsInMessage is the text after which Ray's message about a job continues with the end of the job's log.
const logsInMessage = ", last available logs"

// jobEvidence returns what Ray says of a job as evidence: its status, exit code and error, and a message.
func (b *builder) jobEvidence(j *job, message string) Evidence {
	text := fmt.Sprintf("job %s: %s", j.name(), j.Status)
	if j.ExitCode != nil {
		text += fmt.Sprintf(", exit code %v", j.ExitCode)
	}
	if j.ErrorType != "" {
		text += ", " + j.ErrorType
	}
	if message != "" {
		text += ": " + message
	}
	source := "log" // the status was derived from the job's logs
	if b.jobsSaved {
		source = "snapshot"
	}
	return Evidence{Source: source, NodeID: rayid.Hex(j.Node), Time: timestamp(j.End), Text: text,
		Link: b.link("#/jobs/%s", cmp.Or(rayid.Hex(j.id), url.PathEscape(j.SubmissionID)))}
}

// leaveOutLostJobs leaves out of b.jobs those of which nothing is stored but the log of their driver, unless it shows
// that they ran or ended in an exception: neither events nor the dashboard's list names them, so nothing says that they
// were pending. It does nothing while the session runs, because their records may still come.
func (b *builder) leaveOutLostJobs(known []moment.Job) {
	if b.isOpen() {
		return
	}
	recorded := map[string]bool{}
	for i := range known {
		if known[i].Saved != nil {
			recorded[known[i].SubmissionID] = true
		}
	}
	for i := range b.session.Actors {
		if id, ok := strings.CutPrefix(b.session.Actors[i].Name, moment.SupervisorActor); ok {
			recorded[id] = true
		}
	}
	logs := b.moment.LogNames().Jobs
	kept := b.jobs[:0]
	for _, j := range b.jobs {
		_, logged := logs[j.SubmissionID]
		if logged && !recorded[j.SubmissionID] && j.id.Nil() && !jobstatus.Ended(j.Status) {
			b.lostJobs = append(b.lostJobs, j.SubmissionID)
			switch {
			case j.Status != jobstatus.Pending:
			case len(b.lostJobs) > maxUnrecorded:
				file := moment.LogFile{Node: logs[j.SubmissionID], Path: moment.SubmissionLog(j.SubmissionID)}
				b.logs.unread[file] = true
				continue
			case endedInException(b.driverLog(&j)):
				j.Status = jobstatus.Failed
			default:
				continue
			}
		}
		kept = append(kept, j)
	}
	if b.jobs = kept; len(b.lostJobs) > 0 {
		b.noteMissing("The job's own record is not stored, only its driver's log: %s.", listNames(b.lostJobs))
	}
}

// endedInException reports whether a driver's log shows that an exception ended the driver, although nobody recorded
// its end: the exception is in the last line that the driver itself printed, and its traceback begins in the program's
// module, or is that of a rank of Train. What a function or a thread printed did not end the program.
func endedInException(log *logText) bool {
	trace, at := output.LastTraceback(log.text)
	if at < 0 {
		return false
	}
	trace = output.OwnLines(trace)
	raised, last := output.ExceptionOf(trace), ""
	for line := range strings.Lines(trace) {
		// a raylet's last lines, which Ray prints, are indented
		if strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' {
			last = line
		}
	}
	ofModule := strings.Contains(trace, " in <module>") || strings.HasSuffix(strings.TrimSpace(log.text[:at]), ofRanks)
	return raised.Type != "" && strings.Contains(last, raised.Type) && ofModule
}

// noteUnknown adds to b.missing what is not stored, if the session has ended and no job of it is known.
func (b *builder) noteUnknown() {
	if len(b.jobs) > 0 || b.isOpen() {
		return
	}
	if b.session.Start == 0 {
		b.noteMissing("No events are stored: of no job, task, actor or node.")
	} else {
		b.noteMissing("No events of jobs are stored, only others.")
	}
	if !b.jobsSaved {
		b.noteMissing("No snapshots of the dashboard's list of jobs are stored.")
	}
}

// unknownSummary returns a sentence that says why it is not known how a session's jobs ended.
func (b *builder) unknownSummary() string {
	switch {
	case b.moment.At != 0:
		return "No job was known at this moment."
	case len(b.lostJobs) > 0:
		return "How its jobs ended is not stored."
	case b.jobsSaved:
		return "No job is known: its dashboard listed none."
	case b.session.Tasks.Len()+len(b.session.Actors) > 0:
		return "Nothing of this session's jobs is stored but their tasks and actors, of which none failed."
	}
	return "Nothing of this session's jobs is stored."
}
