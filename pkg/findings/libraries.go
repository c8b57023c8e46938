package findings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// badRuns holds the states of Data and Train runs that failed.
var badRuns = map[string]bool{"FAILED": true, "ERRORED": true, "ABORTED": true}

// readLibraries finds the runs of Data and Train that failed. It reads the last saved answers.
func (b *builder) readLibraries() {
	for i := range b.jobs {
		id := b.jobs[i].id
		if id.Nil() {
			continue
		}
		datasets, err := b.r.Datasets(b.ctx, id)
		if b.fail(err) {
			return
		}
		b.runsFailed(Data, "Dataset", datasets)
	}
	runs, err := b.r.TrainRuns(b.ctx)
	b.runsFailed(Train, "Train run", runs)
	b.fail(err)
}

func (b *builder) runsFailed(kind, what string, runs []moment.Run) {
	for _, run := range runs {
		if badRuns[run.Status] {
			b.runFailed(kind, what, run.Name, run.Status, run.Detail, run.Job, run.Ended, Evidence{Source: "snapshot"})
		}
	}
}

// runFailed adds the finding about a run that failed, and links it to the failures in the run: those whose exception, message or actor its
// details name. at is when the run ended or, if that is not known, when its failure was saved (Unix ns).
func (b *builder) runFailed(kind, what, name, status, detail string, job rayid.Job, at int64, e Evidence) {
	f := b.find(kind, name+job.String())
	f.what = output.ExceptionOf(detail)
	f.Title = fmt.Sprintf("%s %s %s", what, name, strings.ToLower(status))
	if reason := cmp.Or(f.what.String(), output.FirstSentence(detail)); reason != "" {
		f.Title += ": " + reason
	}
	if rankSaid().MatchString(detail) {
		f.Title = fmt.Sprintf("%s %s %s: %s", what, name, strings.ToLower(status), rankReason(detail))
	}
	e.Time, e.Text = stamp(at), fmt.Sprintf("%s %s is %s. %s", what, name, status, detail)
	if f.Count == 0 { // the saved runs and the controller's log tell of the same
		f.count(at, false)
	}
	f.describe(occurrence{job: job, name: name, entity: b.jobEntity(job, name), evidence: []Evidence{e}})
	b.nameRanks(name, detail)
	killed := func(e Entity) bool { return e.Type == "actor" && strings.Contains(detail, e.ID) }
	for _, other := range b.all {
		if other == f || job.Nil() || other.job != job || other.lasting == 0 || other.Kind == Data || other.Kind == Train {
			continue
		}
		if other.what.Same(f.what) || other.what.Message != "" && strings.Contains(detail, other.what.Message) || kind == Data && detail == "" && isOfData(other) ||
			slices.ContainsFunc(other.Entities, killed) {
			f.causedBy(other)
		}
	}
}

// isOfData reports whether a finding is about tasks of Ray Data's operators. It looks at the tasks' names.
func isOfData(f *finding) bool {
	for _, name := range f.names {
		for _, operator := range []string{"Map", "Read", "Write", "Filter", "shuffle", "sort", "Aggregate", "Limit", "Split"} {
			if strings.Contains(name, operator) {
				return true
			}
		}
	}
	return false
}

// runNamed matches what each line of a Train controller's log says of its job and its run.
var runNamed = lazyregexp.New(`"job_id": "([0-9a-f]{8})"[^\n]*?"run_name": "([^"\\\n]{1,200})"`)

// maxControllers limits the logs of Train's controllers that one report reads.
const maxControllers = 20

// failurePolicy begins the message in which Train's controller logs what it does after a failure, such as starting the workers again.
const failurePolicy = "[FailurePolicy]"

var aboutFailure = lazyregexp.New(`(?m)^.*\[FailurePolicy\].*$`)

// readTrain finds failures in Train runs after which FailureConfig(max_failures=…) had the workers started again. It reads the logs of the runs'
// controllers.
func (b *builder) readTrain() {
	files := b.nodeFiles(maxControllers, func(path string) bool { return strings.HasPrefix(path, "train/ray-train-app-controller-") })
	for _, file := range files {
		log := b.read(file)
		if m := runNamed().FindStringSubmatch(log.text); m != nil {
			if job, err := rayid.Parse[rayid.Job](m[1]); err == nil {
				b.trainRuns[job] = m[2]
			}
		}
		for _, m := range b.matches(log, aboutFailure()) {
			b.trainRetried(m)
		}
	}
}

// trainRetried reads one line of a controller's log. If the line is about a failure after which the run's workers were started again, it adds
// that failure.
func (b *builder) trainRetried(m match) {
	var line struct {
		Message string `json:"message"`
		Run     string `json:"run_name"`
		Job     string `json:"job_id"`
		Time    int64  `json:"timestamp_ns"`
	}
	if json.Unmarshal([]byte(m.groups[0]), &line) != nil || line.Time > b.end {
		return
	}
	job, _ := rayid.Parse[rayid.Job](line.Job) // nil if it is not known
	policy, _, _ := strings.Cut(line.Message, "\n")
	switch {
	case !strings.HasPrefix(policy, failurePolicy):
		return
	case strings.Contains(policy, "RAISE"):
		_, said, _ := strings.Cut(line.Message, "\nError: ")
		b.runFailed(Train, "Train run", line.Run, "failed", said, job, line.Time, b.evidence(m.log, m.from, m.to))
		return
	case !strings.Contains(policy, "RETRY"):
		return
	}
	what := output.ExceptionOf(line.Message)
	f := b.find(Train, "restarted "+line.Run+job.String()+what.Type+output.Normalised(what.Message))
	f.what = what
	f.Title = fmt.Sprintf("Train run %s was restarted after its workers failed: %s", output.Clip(line.Run, output.MaxTitle), cmp.Or(what.String(), output.FirstSentence(line.Message)))
	e := b.evidence(m.log, m.from, m.to)
	e.Time, e.Text = stamp(line.Time), line.Message
	f.add(occurrence{at: line.Time, recovered: true, job: job, name: line.Run, entity: b.jobEntity(job, line.Run), evidence: []Evidence{e}})
}
