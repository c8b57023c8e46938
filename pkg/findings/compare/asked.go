package compare

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/rayhistory/historyserver/internal/param"
)

// Asked is what a request or a command asks of a comparison, beside the sessions.
type Asked struct {
	// Job is the ID of a job or a submission, or what the runs of one job have in common: the RayJob's name, the
	// submission's name without the digits at its end, or the entrypoint. Then the session's latest such run is
	// compared. "" is the whole session.
	Job string
	// WithJob is the other job, named like Job; "" is the latest run of the same job before this one.
	WithJob string
	// Top is how many functions to show, at most MaxTop; 0 is DefaultTop.
	Top int
}

// Params are the parameters of a request for a comparison: "with" names the other session, ParseAsked reads the others.
var Params = []string{"with", "job", "with_job", "top"}

// ParseAsked reads the parameters of a request, except "with". An error is a *param.Error.
func ParseAsked(v url.Values) (Asked, error) {
	form := param.Form{Values: v}
	a := Asked{Job: form.Get("job"), WithJob: form.Get("with_job"), Top: int(form.Number("top", 1, MaxTop))}
	return a, form.Err
}

// Form returns the parameters from which ParseAsked reads the same Asked again.
func (a Asked) Form() url.Values {
	return url.Values{"job": {a.Job}, "with_job": {a.WithJob}, "top": {strconv.Itoa(cmp.Or(a.Top, DefaultTop))}}
}
