// Package state is Ray's State API (ray/dashboard/modules/state, ray/util/state): how a list is filtered, sorted, cut and written. It also
// has the lists that no other package has: placement groups, objects and runtime environments.
//
// A list has Columns and a function that gives its rows. To add a column, name it in the Columns of its entity and set it in its rows.
package state

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// RowSet is the rows of one entity, before a request filters, sorts and cuts them.
type RowSet struct {
	Rows []*pyjson.Object // with all columns; missing ones read as null
	// total is how many there were before Ray cut the list; 0 means len(Rows).
	total int
	// Check refuses filters that Ray's own store refuses; nil refuses none.
	Check func(tasktable.Query) *reply.Error
	// Selected says whether Ray's own store applies a filter: rows that it leaves out do not count as listed. Nil means that it applies none.
	Selected func(tasktable.Filter) bool
	// Compare orders rows; nil means by the first column.
	Compare        func(a, b *pyjson.Object) int
	PartialFailure any
	warnings       []string
	// DetailColumns are shown with detail=1; nil means the entity's columns.
	DetailColumns []Column
	// Difference is how the columns of this session's Ray differ.
	Difference Difference
}

// List makes the handler of a State API list (handle_list_api in ray/dashboard/state_api_utils.py).
func List(columns []Column, rowsOf func(*request.Request) (RowSet, error)) request.Handler {
	return func(w http.ResponseWriter, r *request.Request) error {
		q, refused := ParseListQuery(r)
		if refused != nil {
			return WriteError(w, refused)
		}
		set, err := rowsOf(r)
		if err != nil {
			return err
		}
		picked, refused := set.Query(columns, q)
		if refused != nil {
			return WriteError(w, refused)
		}
		if picked.Rows, err = request.RedactRows(r, picked.Rows); err != nil {
			return err
		}
		return Write(w, r, picked.reply(set.columns(columns, q.Detail)))
	}
}

// Selection is what a query selected from a RowSet.
type Selection struct {
	set                              RowSet
	total, afterTruncation, filtered int
	Rows                             []*pyjson.Object
}

// Query filters, sorts and cuts the rows as do_filter and its callers do.
func (set RowSet) Query(columns []Column, q tasktable.Query) (Selection, *reply.Error) {
	if set.Check != nil {
		if refused := set.Check(q); refused != nil {
			return Selection{}, refused
		}
	}
	filters, refused := convertFilters(columns, q.Filters)
	if refused != nil {
		return Selection{}, refused
	}
	var matching []*pyjson.Object
	listed := 0
	for _, row := range set.Rows {
		if set.leavesOut(row, filters) {
			continue
		}
		listed++
		ok, refused := matches(columns, row, filters)
		if refused != nil {
			return Selection{}, refused
		}
		if ok {
			matching = append(matching, row)
		}
	}
	compare := set.Compare
	if compare == nil {
		compare = func(a, b *pyjson.Object) int {
			return strings.Compare(a.String(columns[0].Name), b.String(columns[0].Name))
		}
	}
	slices.SortStableFunc(matching, compare)
	return Selection{
		set: set, total: cmp.Or(set.total, len(set.Rows)), afterTruncation: listed, filtered: len(matching),
		Rows: matching[:min(len(matching), q.Limit)],
	}, nil
}

// writeRows writes a list of rows, with the columns shown.
func writeRows(s *reply.Stream, columns []Column, rows []*pyjson.Object) {
	s.List(len(rows), func(i int) {
		s.Buf = append(s.Buf, '{')
		first := true
		for _, c := range columns {
			s.Separate(&first)
			s.Buf = append(pyjson.AppendString(s.Buf, c.Name), ": "...)
			s.Value(rows[i].Get(c.Name))
		}
		s.Buf = append(s.Buf, '}')
	})
}

// Count adds one to a counter of an object.
func Count(counts *pyjson.Object, key string) {
	n, _ := counts.Get(key).(int)
	counts.Set(key, n+1)
}

// snapshotRows returns the rows of a saved list, and what the list said about itself; found is false if no list was saved, or
// none before the requested moment.
func snapshotRows(r *request.Request, path string, columns []Column) (set RowSet, found bool, err error) {
	list, taken, err := r.SavedList(r.Context(), path)
	if list == nil || err != nil || !r.Believes(taken) {
		return RowSet{}, false, err
	}
	set = RowSet{total: int(list.Int("total")), PartialFailure: list.Get("partial_failure_warning"), Difference: Differences(columns, list)}
	for _, v := range list.List("result") {
		if row, ok := v.(*pyjson.Object); ok {
			set.Rows = append(set.Rows, row)
		}
	}
	for _, v := range list.List("warnings") {
		if text, ok := v.(string); ok {
			set.warnings = append(set.warnings, text)
		}
	}
	return set, true, nil
}
