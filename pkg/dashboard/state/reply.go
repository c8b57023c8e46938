package state

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// WriteResult sends the result of a State API request (do_reply in ray/dashboard/state_api_utils.py).
func WriteResult(w http.ResponseWriter, result any) error {
	return reply.Envelope(w, http.StatusOK, "", pyjson.Obj("result", result))
}

// WriteError sends a State API error.
func WriteError(w http.ResponseWriter, err *reply.Error) error {
	return reply.Envelope(w, err.Status, err.Text, pyjson.Obj("result", nil))
}

// Reply is a State API list's answer (ListApiResponse in ray/util/state/common.py).
type Reply struct {
	Total, AfterTruncation, Filtered int
	Rows                             any // a list, for a summary an object; or streamed
	// partialFailure is "" or nil: Ray gives either, by entity.
	PartialFailure any
	Warnings       []string
}

func (l Reply) object() *pyjson.Object {
	o := pyjson.Obj("total", l.Total, "num_after_truncation", l.AfterTruncation, "num_filtered", l.Filtered)
	o.Set("result", l.Rows)
	o.Set("partial_failure_warning", l.PartialFailure)
	o.Set("warnings", reply.OrNull(l.Warnings))
	return o
}

// Write sends a State API list or summary.
func Write(w http.ResponseWriter, r *request.Request, l Reply) error {
	l.Warnings = append(Warnings(r.Session), l.Warnings...)
	return WriteResult(w, l.object())
}

// WriteSummary sends a State API summary (SummaryApiResponse in ray/util/state/common.py).
func WriteSummary(w http.ResponseWriter, r *request.Request, s Selection, summary *pyjson.Object) error {
	l := s.reply(nil)
	l.Rows = pyjson.Obj("node_id_to_summary", pyjson.Obj("cluster", summary))
	return Write(w, r, l)
}

// maxWarnings is how many of a session's warnings each list shows.
const maxWarnings = 10

// Warnings returns the warnings about a session's stored data; nil if there are none. They are not sent as partial_failure_warning, because Ray's
// Python API refuses a list that has one unless it is told not to.
func Warnings(s *session.Session) []string {
	all := s.Damage()
	switch {
	case len(all) == 0:
		return nil
	case len(all) <= maxWarnings:
		return slices.Clone(all)
	}
	return append(slices.Clone(all[:maxWarnings]), fmt.Sprintf("and %d more warnings, which the list of sessions shows", len(all)-maxWarnings))
}

func (s Selection) reply(columns []Column) Reply {
	return Reply{
		Total: s.total, AfterTruncation: s.afterTruncation, Filtered: s.filtered,
		Rows:           reply.Streamed(func(out *reply.Stream) { writeRows(out, columns, s.Rows) }),
		PartialFailure: s.set.PartialFailure, Warnings: s.set.warnings,
	}
}
