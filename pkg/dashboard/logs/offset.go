package logs

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Offset returns where the first line of a log begins that is not before a moment (Unix nanoseconds), by the times in the lines.
func Offset(r *request.Request, f *sessionlogs.File, at int64) (int64, error) {
	clock, err := Clock(r)
	if err != nil {
		return 0, err
	}
	search := lineSearch{ctx: r.Context(), f: f, at: at - 1, clock: clock, budget: maxSearched}
	cut, err := search.cut(0)
	return cut.end, err
}

// Clock returns what completes the times in a session's logs: the zone of the cluster, and the time in which the session ran.
func Clock(r *request.Request) (logline.Clock, error) {
	zone, err := r.Zone(r.Context())
	clock := logline.Clock{Zone: zone}
	if start, ok := layout.NamedStart(r.Session.Ref.Name); ok { // in the head's zone, which is seldom another one than UTC
		clock.From = start.UnixNano()
	}
	if last := r.Session.LastStored(); !last.IsZero() {
		clock.To = last.UnixNano()
	}
	return clock, err
}
