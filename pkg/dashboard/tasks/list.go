// Package tasks answers requests about tasks: the State API's list of attempts, its summaries, and the timeline.
package tasks

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// List is the State API's list of task attempts (list_tasks in ray/dashboard/state_aggregator.py). Rows go to the client as they
// are written.
func List(w http.ResponseWriter, r *request.Request) error {
	q, refused := state.ParseListQuery(r)
	if refused != nil {
		return state.WriteError(w, refused)
	}
	picked, err := r.Session.Tasks.Select(q)
	if err != nil {
		return refusedFilter(w, err)
	}
	redact, err := request.Redacts(r)
	if err != nil {
		return err
	}
	e := encoder{detail: q.Detail, redact: redact}
	out := reply.NewStream(w, http.StatusOK, reply.JSONType)
	out.Buf = fmt.Appendf(out.Buf, `{"result": true, "msg": "", "data": {"result": {"total": %d, "num_after_truncation": %d, "num_filtered": %d, "result": [`,
		picked.Listed, picked.Listed, picked.Matching)
	for i := range picked.Rows {
		row, err := picked.Row(i)
		if err != nil {
			return cut(out, r, err)
		}
		if i > 0 {
			out.Buf = append(out.Buf, ", "...)
		}
		out.Buf = e.append(out.Buf, row)
		if !out.FlushFull() {
			return nil
		}
	}
	out.Buf = append(out.Buf, `], "partial_failure_warning": "", "warnings": `...)
	out.Buf = append(pyjson.Append(out.Buf, reply.OrNull(state.Warnings(r.Session))), "}}}"...)
	out.Close()
	return nil
}

// refusedFilter answers if tasks cannot be filtered as requested; other errors are returned.
func refusedFilter(w http.ResponseWriter, err error) error {
	var unknown *tasktable.UnknownColumnError
	var filter *tasktable.FilterError
	switch {
	case errors.As(err, &unknown):
		return state.WriteError(w, state.UnknownColumn(filterColumns(), unknown.Column))
	case errors.As(err, &filter):
		return state.WriteError(w, reply.BadRequest("%s", err))
	}
	return err
}

// cut ends an answer that cannot be completed, see reply.Stream.Cut.
func cut(out *reply.Stream, r *request.Request, err error) error {
	if out.Begun {
		r.Log.WithError(err).WithField("url", r.URL.String()).Error("cut an answer: read stored session")
	}
	return out.Cut(err)
}

func filterColumns() []state.Column {
	all := make([]state.Column, len(columns))
	for i, c := range columns {
		all[i] = c.Column
	}
	return all
}
