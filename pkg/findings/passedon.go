package findings

import (
	"slices"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// raisedIn reports whether a task with the finding's exception raised it itself: other tasks may have passed on what one of their arguments or a
// task that they called had raised.
func (f *finding) raisedIn(task string) bool { return f.what.Function == "" || f.what.Function == task }

// failedIn counts one failed attempt of a task. An exception that the task only passed on is not another failure.
func (f *finding) failedIn(task string, at int64, recovered bool) {
	f.happened(at, recovered)
	if !f.raisedIn(task) {
		f.Count--
	}
}

// rootIn puts the first task that raised the exception itself, and what Ray tells of it, before those that passed it on.
func (f *finding) rootIn(task string, e Entity, evident Evidence) {
	if f.rooted || f.what.Function != task {
		return
	}
	f.rooted = true
	evident.Text = output.Excerpt(evident.Text)
	others := slices.DeleteFunc(f.Evidence, func(shown Evidence) bool { return shown.Text == evident.Text })
	f.Evidence = append([]Evidence{evident}, others[:min(len(others), maxEvidence-1)]...)
	f.about(e)
	if i := slices.IndexFunc(f.Entities, func(other Entity) bool { return other.ID == e.ID }); i > 0 {
		f.Entities = slices.Concat([]Entity{e}, f.Entities[:i], f.Entities[i+1:])
	}
}
