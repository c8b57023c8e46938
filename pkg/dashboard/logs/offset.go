package logs

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/cluster"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Offset returns where the first line of a log begins that is not before a moment (Unix nanoseconds), by the times in the lines.
func Offset(r *request.Request, f *sessionlogs.File, at int64) (int64, error) {
	zone, err := cluster.Zone(r)
	if err != nil {
		return 0, err
	}
	search := lineSearch{ctx: r.Context(), f: f, at: at - 1, zone: zone, budget: maxSearched}
	cut, err := search.cut(0)
	return cut.end, err
}
