package session

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Selection is what a query picked of the task table.
type Selection struct {
	// Rows are the rows to show, at most the query's limit, in the order Ray lists them.
	Rows []int32
	// Listed counts the rows that Ray's own store would have handed to its State API, Matching those of them that all filters keep.
	Listed, Matching int

	t  *Tasks
	at int64
}

// Row gives the i-th row selected.
func (s *Selection) Row(i int) Row { return s.t.Row(int(s.Rows[i]), s.at) }

// FilterError is a filter that Ray refuses; its text is Ray's.
type FilterError struct{ Text string }

func (e *FilterError) Error() string { return e.Text }

// UnknownColumnError is a filter on a column that tasks do not have, or cannot be filtered by.
type UnknownColumnError struct{ Column string }

func (e *UnknownColumnError) Error() string { return "tasks cannot be filtered by " + e.Column }

// Select picks rows. Errors are *FilterError or *UnknownColumnError. An unknown column is refused, as by Ray, only if a row gets as far
// as that filter.
func (t *Tasks) Select(q Query) (*Selection, error) {
	s := &Selection{t: t, at: q.At}
	var err error
	s.Listed, err = t.each(q, ScanPart, func(n int, _ Row) {
		s.Matching++
		if len(s.Rows) < q.Limit {
			s.Rows = append(s.Rows, int32(n))
		}
	})
	return s, err
}

// each calls visit for every row that q's filters keep, whatever its limit, and counts those that Ray's own store would have listed. Rows
// of an index have the columns of part only, unless a filter looks at others.
func (t *Tasks) each(q Query, part Part, visit func(n int, r Row)) (listed int, err error) {
	source, rest, err := predicates(q.Filters)
	if err != nil {
		return 0, err
	}
	at := q.At
	if at == 0 {
		at = math.MaxInt64
	}
	hidden := t.hiddenDefinitions(q.ExcludeDriver)
	from, to, one := t.candidates(q.Filters)
	if one {
		part = AllParts
	}
	row, err := t.rowsFor(q, part, from, to)
	if err != nil {
		return 0, err
	}
	for k := range to - from {
		n := from + k
		if one {
			n = to - 1 - k // asked for one task, Ray gives its attempts in no order; recorded answers begin with the first
		}
		p, i := row(n)
		if hidden[p.def[i]] {
			continue
		}
		r := Row{t: t, p: p, i: int32(i), at: at}
		if !r.Existed() {
			continue
		}
		ok, err := all(source, r)
		if err != nil {
			return listed, err
		}
		if !ok {
			continue
		}
		listed++
		if ok, err = all(rest, r); err != nil {
			return listed, err
		}
		if ok {
			visit(n, r)
		}
	}
	return listed, t.Err()
}

// rowsFor gives how the rows [from, to) are read for a query that looks at them in order: no more columns than it needs.
func (t *Tasks) rowsFor(q Query, part Part, from, to int) (row func(n int) (*taskPage, int), err error) {
	if t.paged == nil || from == to || part == AllParts || q.At != 0 || slices.ContainsFunc(q.Filters, func(f Filter) bool { return !taskColumns[f.Key].scanned }) {
		return t.row, nil
	}
	if part == KinPart {
		return t.paged.kin(from, to).row, nil
	}
	return t.scanRow, t.paged.readScans(from/GroupRows, (to-1)/GroupRows+1)
}

// candidates narrows the rows to look at: one task's own, if it is asked for.
func (t *Tasks) candidates(filters []Filter) (from, to int, one bool) {
	for _, f := range filters {
		if f.Key != "task_id" || f.Not {
			continue
		}
		if id, err := hex.DecodeString(f.Value); err == nil && len(id) == rayid.TaskSize {
			from, to = t.find(rayid.Task(id))
			return from, to, true
		}
		return 0, 0, true
	}
	return 0, t.n, false
}

// hiddenDefinitions says of each definition whether its tasks are left out; of none, because Ray shows no task without definition.
func (t *Tasks) hiddenDefinitions(drivers bool) []bool {
	hidden := make([]bool, t.defs.n)
	for i := range hidden {
		hidden[i] = i == 0 || drivers && bytes.Equal(t.texts.get(t.defs.at(i).kind), driverTask)
	}
	return hidden
}

type predicate func(Row) (bool, error)

func all(predicates []predicate, r Row) (bool, error) {
	for _, keep := range predicates {
		if ok, err := keep(r); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}
