package findings

import (
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Names that people gave, for the names of what Ray's libraries run.

var (
	// rankSaid begins what Train tells of the worker of one rank that failed.
	rankSaid = lazyregexp.New(`(?m)^\[Rank (\d{1,6}) Error Snippet\]:`)
	// trialFrame matches the frame of Tune that calls a user's function, and the one below it.
	trialFrame = lazyregexp.New(`function_trainable\.py", line \d+, in _trainable_func\n(?:    [^\n]*\n)*  File "[^"\n]*", line \d+, in (\w{1,100})`)
)

// controllerRun and trialRun are the tasks that run a Train run, and a trial of Tune that is a function.
const controllerRun, trialRun = "TrainController.run", "ImplicitFunc.train"

// known returns the name of a task as people know it. job is the task's.
func (b *builder) known(name string, job rayid.Job) string {
	if m := replicaCall().FindStringSubmatch(name); m != nil {
		return fmt.Sprintf("deployment %s of application %s", m[2], m[1])
	}
	switch class, _, _ := strings.Cut(name, "."); {
	case class == "ProxyActor":
		return "Serve's proxy"
	case class == "ServeController":
		return "Serve's controller"
	case name == controllerRun && b.trainRuns[job] != "":
		return "Train run " + b.trainRuns[job]
	case name == controllerRun:
		return "a Train run"
	case name == trialRun:
		return "a Tune trial"
	}
	return name
}

// trialOf returns the function of the user that a trial of Tune runs, from the text of its failure; "" if it is no such text.
func trialOf(text string) string {
	if m := trialFrame().FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// raiser says who raised the exception that ended a driver: the driver itself, or what it had waited for.
func (b *builder) raiser(j *job, e *driverEnd) string {
	const before = 1 << 10 // bytes before the traceback in which Train names the rank
	if m := rankSaid().FindAllStringSubmatch(e.log.text[max(0, e.at-before):min(len(e.log.text), e.at+len(e.trace))], -1); m != nil {
		rank := "the Train worker of rank " + m[0][1]
		if run := b.trainRuns[j.id]; run != "" {
			return fmt.Sprintf("rank %s of Train run %s", m[0][1], run)
		}
		return rank
	}
	if trial := trialOf(e.trace); trial != "" {
		return "a Tune trial of " + trial
	}
	function := e.what.Function
	if function == "" || e.what.Type == "TaskCancelledError" || !strings.Contains(e.trace, "ray::") {
		return "its driver"
	}
	return b.known(output.Clip(function, output.MaxMessage), j.id)
}
