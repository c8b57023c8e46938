package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

const (
	jsonType = "application/json; charset=utf-8"
	textType = "text/plain; charset=utf-8"
)

// write sends a whole answer.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// The client going away is no error of ours.
	_, _ = w.Write(body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	write(w, status, jsonType, pyjson.Append(nil, v))
}

func writeText(w http.ResponseWriter, status int, text string) {
	write(w, status, textType, []byte(text))
}

// writeReply sends data in the envelope of Ray's dashboard (rest_response in ray/dashboard/routes.py).
func writeReply(w http.ResponseWriter, status int, msg string, data *pyjson.Object) {
	if data == nil {
		data = pyjson.Obj()
	}
	writeJSON(w, status, pyjson.Obj("result", status == http.StatusOK, "msg", msg, "data", data))
}

// writeStateReply sends the result of a State API request (do_reply in ray/dashboard/state_api_utils.py).
func writeStateReply(w http.ResponseWriter, result any) {
	writeReply(w, http.StatusOK, "", pyjson.Obj("result", result))
}

// writeStateError sends a State API error.
func writeStateError(w http.ResponseWriter, err *apiError) {
	writeReply(w, err.status, err.text, pyjson.Obj("result", nil))
}

// listReply is a State API list's answer (ListApiResponse in ray/util/state/common.py).
type listReply struct {
	total, afterTruncation, filtered int
	// rows writes the rows, as a JSON list.
	rows func(b []byte) []byte
	// partialFailure is "" or nil: Ray gives either, by entity.
	partialFailure any
	warnings       []string
}

func (l listReply) object() *pyjson.Object {
	o := pyjson.Obj("total", l.total, "num_after_truncation", l.afterTruncation, "num_filtered", l.filtered)
	o.Set("result", pyjson.Raw(l.rows(nil)))
	o.Set("partial_failure_warning", l.partialFailure)
	o.Set("warnings", orNull(l.warnings))
	return o
}

// orNull is the texts, or null where there are none.
func orNull(texts []string) any {
	if len(texts) == 0 {
		return nil
	}
	return texts
}

// writeList sends a State API list or summary.
func writeList(w http.ResponseWriter, r *Request, l listReply) {
	l.warnings = append(damage(r.Session), l.warnings...)
	writeStateReply(w, l.object())
}

// writeSummary sends a State API summary (SummaryApiResponse in ray/util/state/common.py).
func writeSummary(w http.ResponseWriter, r *Request, s selection, summary *pyjson.Object) {
	l := s.reply(nil)
	l.rows = func(b []byte) []byte {
		return pyjson.Append(b, pyjson.Obj("node_id_to_summary", pyjson.Obj("cluster", summary)))
	}
	writeList(w, r, l)
}

// maxDamage is how many of a session's warnings each list shows.
const maxDamage = 10

// damage are the warnings about what is wrong with what is stored of a session; nil if nothing is. They are no partial_failure_warning, because
// Ray's Python API refuses a list that has one unless it is told not to.
func damage(s *session.Session) []string {
	all := s.Damage()
	switch {
	case len(all) == 0:
		return nil
	case len(all) <= maxDamage:
		return slices.Clone(all)
	}
	return append(slices.Clone(all[:maxDamage]), fmt.Sprintf("and %d more warnings, which the list of sessions shows", len(all)-maxDamage))
}
