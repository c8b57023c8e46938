package findings

import (
	"context"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// badRuns are the states of Data and Train runs that failed.
var badRuns = map[string]bool{"FAILED": true, "ERRORED": true, "ABORTED": true}

// readLibraries finds the runs of Data and Train that failed, from the last saved answers.
func (b *builder) readLibraries(ctx context.Context) error {
	r := b.r.With(ctx)
	for i := range b.jobs {
		id := b.jobs[i].id
		if id.Nil() || i >= maxJobs {
			continue
		}
		value, taken, err := request.Saved(r, "/api/data/datasets/"+id.String())
		if err != nil {
			return err
		}
		saved, _ := value.(*pyjson.Object)
		for _, v := range saved.List("datasets") {
			if d, ok := v.(*pyjson.Object); ok && badRuns[d.String("state")] {
				b.runFailed(Data, "Dataset", orElse(d.String("name"), d.String("dataset")), d.String("state"), "", id, taken)
			}
		}
	}
	for _, url := range []string{"/api/train/v2/runs", "/api/train/v2/runs/v1"} {
		value, taken, err := request.Saved(r, url)
		if err != nil {
			return err
		}
		saved, _ := value.(*pyjson.Object)
		for _, v := range saved.List("train_runs") {
			run, ok := v.(*pyjson.Object)
			status := run.String("status")
			if status == "" {
				status = run.String("run_status")
			}
			if !ok || !badRuns[status] {
				continue
			}
			job, _ := rayid.Parse[rayid.Job](run.String("job_id")) // none: not known
			b.runFailed(Train, "Train run", orElse(run.String("name"), run.String("id")), status, orElse(run.String("status_detail"), run.String("run_status_detail")), job, taken)
		}
	}
	return nil
}

// runFailed adds the finding about a run that failed, and links it to what failed in it.
func (b *builder) runFailed(kind, what, name, status, detail string, job rayid.Job, taken int64) {
	f := b.find(kind, name+job.String())
	f.what = exceptionOf(detail)
	f.Title = fmt.Sprintf("%s %s %s", what, name, strings.ToLower(status))
	if reason := orElse(f.what.String(), firstSentence(detail)); reason != "" {
		f.Title += ": " + reason
	}
	f.named(name)
	f.of(job)
	f.happened(taken, false)
	if !job.Nil() {
		f.about(b.jobEntity(job, name))
	}
	f.show(Evidence{Source: "snapshot", Time: stamp(taken), Text: fmt.Sprintf("%s %s is %s. %s", what, name, status, detail)})
	for _, other := range b.all {
		if other == f || job.Nil() || other.job != job || other.lasting == 0 || other.Kind == Data || other.Kind == Train {
			continue
		}
		if other.what.same(f.what) || other.what.Message != "" && strings.Contains(detail, other.what.Message) || kind == Data && detail == "" && isOfData(other) {
			f.causedBy(other)
		}
	}
}

// isOfData says that what failed are tasks of Ray Data's operators, by their names.
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
