package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// badRuns holds the states of Data and Train runs that failed.
var badRuns = map[string]bool{"FAILED": true, "ERRORED": true, "ABORTED": true}

// readLibraries finds the runs of Data and Train that failed, from the last saved answers, and completes the findings
// about Data's operators from Data's own logs.
func (b *builder) readLibraries() {
	for i := range b.jobs {
		id := b.jobs[i].id
		if id.Nil() {
			continue
		}
		datasets, err := b.moment.Datasets(b.ctx, id)
		if b.stopOn(err) {
			return
		}
		b.runsFailed(Data, "Dataset", datasets)
	}
	for _, f := range b.findings {
		b.readDataLog(f)
		b.ignoredByData(f)
	}
	runs, err := b.moment.TrainRuns(b.ctx)
	if b.stopOn(err) {
		return
	}
	b.runsFailed(Train, "Train run", runs)
}

// runsFailed adds findings about those of the runs that failed. thing is what people call such a run.
func (b *builder) runsFailed(kind, thing string, runs []moment.Run) {
	for _, run := range runs {
		if badRuns[run.Status] {
			b.runFailed(kind, thing, run.Name, run.Status, run.Detail, run.Job, run.Ended, Evidence{Source: "snapshot"})
		}
	}
}

// runFailed adds the finding about a run that failed, and links it to the failures in the run: those whose exception,
// message or actor is named in detail, Ray's text about it. thing is what people call such a run. at is when the run
// ended, or else when its failure was saved (Unix ns), and e is completed with the text and the time.
func (b *builder) runFailed(kind, thing, name, status, detail string, job rayid.Job, at int64, e Evidence) {
	f := b.findOrAdd(kind, name+job.String())
	f.raised = output.ExceptionOf(detail)
	f.Title = fmt.Sprintf("%s %s %s", thing, name, strings.ToLower(status))
	if reason := cmp.Or(f.raised.String(), output.FirstSentence(detail)); reason != "" {
		f.Title += ": " + reason
	}
	if r := firstRankFailure(detail, b.loggedBy(job, name, at)); r.rank != "" {
		if r.raised.Type != "" {
			f.raised = r.raised
		}
		f.Title = fmt.Sprintf("%s %s %s: %s", thing, name, strings.ToLower(status), r.reason())
	}
	e.Time, e.Text = timestamp(at), fmt.Sprintf("%s %s is %s. %s", thing, name, status, detail)
	if f.Count == 0 { // the saved runs and the controller's log tell of the same
		f.count(at)
	}
	f.describe(occurrence{job: job, name: name, entity: b.jobEntity(job, name), evidence: []Evidence{e}})
	for _, m := range rankedWorker().FindAllStringSubmatch(detail, maxEntities) {
		id, err := rayid.Parse[rayid.Actor](m[1])
		if died := b.actors[id]; err == nil && died != nil && died.Kind == ActorDied {
			died.Title = strings.Replace(died.Title, "Actor RayTrainWorker",
				fmt.Sprintf("Rank %s of Train run %s (actor RayTrainWorker)", m[2], name), 1)
		}
	}
	killed := func(e Entity) bool { return e.Type == "actor" && strings.Contains(detail, e.ID) }
	for _, other := range b.findings {
		if other == f || job.Nil() || other.job != job || other.unrecovered == 0 || other.Kind == Data ||
			other.Kind == Train {
			continue
		}
		if other.raised.Same(f.raised) ||
			other.raised.Message != "" && strings.Contains(detail, other.raised.Message) ||
			kind == Data && detail == "" && isOfData(other) ||
			slices.ContainsFunc(other.Entities, killed) {
			f.causedBy(other)
		}
	}
	if kind == Data && len(f.because) == 0 { // the driver ended before Ray knew of the task's failure
		for log := range b.logs.ofNodes(pathIs("ray-data/ray-data-" + name + ".log")) {
			if m := aborted().FindStringSubmatch(log.text); m != nil { // those before may have been ignored
				f.Title += ": an " + m[1]
			}
		}
	}
}

// aborted matches what Data logs of the exception of a task that made it give up a dataset.
var aborted = lazyregexp.New(`(exception was raised from a task of operator "[^"\n]{1,200}")\. ` +
	`Dataset execution will now abort`)

// readDataLog takes the exception of a finding about an operator of Ray Data from Data's own log, if Ray's events have
// only the exception that Data raised over it: of a long message Ray keeps only the end, and Data logs all of it. If
// several datasets have such an operator, the log whose time is nearest to the finding's counts.
func (b *builder) readDataLog(f *finding) {
	if !wrappers[f.raised.Type] || !isOfData(f) {
		return
	}
	nearest, shown := int64(math.MaxInt64), Evidence{} // nearest: between the record and the failure, ns
	var raised output.Exception
	for log := range b.logs.ofNodes(isDataLog) {
		for _, name := range f.operators() {
			before, ofOperator, found := strings.Cut(log.text, `from a task of operator "`+name+`"`)
			if !found {
				continue
			}
			ofOperator, _, _ = strings.Cut(ofOperator, " from a task of operator ")
			from, to := log.lineBounds(len(before))
			logged := b.logs.timeOf(log.text[from:to])
			distance := max(logged-f.first, f.first-logged)
			cause := output.CopiedCause(ofOperator, f.raised.Type)
			if cause.Type == "" || distance >= nearest {
				continue
			}
			at := strings.Index(log.text, ofOperator)
			nearest, raised, shown = distance, cause, b.evidence(log, at, at+min(len(ofOperator), output.MaxText))
		}
	}
	f.takeException(raised)
	f.addEvidence(shown)
}

var isDataLog = pathBegins("ray-data/ray-data")

// ignoredByData makes a finding about an operator of Ray Data a warning if Data ignored its failures, as the program
// had allowed with max_errored_blocks (streaming_executor_state.py).
func (b *builder) ignoredByData(f *finding) {
	if !isOfData(f) || f.Kind == Data {
		return
	}
	ignored, aborted := false, false
	for log := range b.logs.ofNodes(isDataLog) {
		for _, name := range f.operators() {
			said := `from a task of operator "` + name + `". `
			ignored = ignored || strings.Contains(log.text, said+"Ignoring this exception")
			aborted = aborted || strings.Contains(log.text, said+"Dataset execution will now abort")
		}
	}
	if f.ignored = ignored && !aborted; f.ignored {
		f.Severity = Warning
		f.appendTitle("; Ray Data ignored it, as max_errored_blocks allows")
	}
}

// isOfData reports whether a finding is about tasks of Ray Data's operators, as the tasks' names tell.
func isOfData(f *finding) bool { return slices.ContainsFunc(f.names, operator().MatchString) }

// operators returns the names that Ray Data logs of the operators that a finding is about: "MapBatches(f)", also of the
// calls of a pool's actors, "MapWorker(MapBatches(f)).submit".
func (f *finding) operators() (names []string) {
	for _, name := range f.names {
		if m := poolCall().FindStringSubmatch(name); m != nil {
			name = m[1]
		}
		names = append(names, name)
	}
	return names
}

var poolCall = lazyregexp.New(`^MapWorker\((.+)\)\.\w+$`)

var operator = lazyregexp.New(`Map|Read|Write|Filter|shuffle|sort|Aggregate|Limit|Split`)

// runNamed matches what each line of a Train controller's log says of its job and its run.
var runNamed = lazyregexp.New(`"job_id": "([0-9a-f]{8})"[^\n]*?"run_name": "([^"\\\n]{1,200})"`)

// failurePolicy begins the message in which Train's controller logs what it does after a failure, such as starting the
// workers again.
const failurePolicy = "[FailurePolicy]"

// controlLoop begins the message of the record before, if the controller itself raised an exception: the policy's
// message has only what that says.
const controlLoop = "Error in control loop iteration"

var aboutFailure = lazyregexp.New(`(?m)^.*(?:\[FailurePolicy\]|` + controlLoop + `).*$`)

// readTrain finds failures in Train runs, also those after which FailureConfig(max_failures=…) had the workers started
// again, in the logs of the runs' controllers.
func (b *builder) readTrain() {
	for log := range b.logs.ofNodes(pathBegins("train/ray-train-app-controller-")) {
		if m := runNamed().FindStringSubmatch(log.text); m != nil {
			if job, err := rayid.Parse[rayid.Job](m[1]); err == nil {
				b.trainRuns[job] = m[2]
			}
		}
		raised := ""
		for m, record := range b.trainRecords(log, aboutFailure()) {
			raised = b.trainRetried(m, record, raised)
		}
	}
}

// trainRetried adds the failure of which one record of a controller's log tells, if it says that the workers were
// started again, or that the run failed; m is its line. raised is the traceback of what the controller itself raised
// before this record; "" if nothing. It returns that traceback as it is for the next record.
func (b *builder) trainRetried(m match, line trainRecord, raised string) string {
	policy, _, _ := strings.Cut(line.Message, "\n")
	switch {
	case strings.HasPrefix(policy, controlLoop):
		return line.Trace
	case !strings.HasPrefix(policy, failurePolicy):
		return raised
	case strings.Contains(policy, "RAISE"):
		_, said, _ := strings.Cut(line.Message, "\nError: ")
		said = cmp.Or(raised, said)
		b.runFailed(Train, "Train run", line.Run, "failed", said, line.Job, line.Time, b.lineEvidence(m))
		return ""
	case !strings.Contains(policy, "RETRY"):
		return raised
	}
	said := cmp.Or(raised, line.Message)
	exception := output.ExceptionOf(said)
	if r := firstRankFailure(said, b.loggedBy(line.Job, line.Run, line.Time)); r.raised.Type != "" {
		exception = r.raised
	}
	f := b.findOrAdd(Train, "restarted "+line.Run+line.Job.String()+exception.Type+output.Normalised(exception.Message))
	f.raised = exception
	f.Title = fmt.Sprintf("Train run %s was restarted after its workers failed: %s",
		output.Clip(line.Run, output.MaxTitle), cmp.Or(exception.String(), output.FirstSentence(line.Message)))
	e := b.lineEvidence(m)
	e.Time, e.Text = timestamp(line.Time), line.Message
	f.add(occurrence{at: line.Time, recovered: true, job: line.Job, name: line.Run,
		entity: b.jobEntity(line.Job, line.Run), evidence: []Evidence{e}})
	return ""
}

// rankedWorker matches what Train tells of a worker whose process ended: its actor and its rank.
var rankedWorker = lazyregexp.New(`actor=Actor\(\w{1,100}, ([0-9a-f]{32})\)[^\x00]{0,600}?world_rank=(\d{1,6})`)
