package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Ray's State API (ray/dashboard/modules/state, ray/util/state): how a list is filtered, sorted, cut and written. An
// entity is a table of its fields and a function that gives its rows. To add a column, add a field.

// column is one column of a State API entity (ray/util/state/common.py).
type column struct {
	name       string
	filterable bool // filters may name it
	onlyDetail bool // shown with detail=1 alone
	// kind is what filter values of the column are converted to first; Ray does so only where the column cannot be
	// null.
	kind kind
	// nullable columns may be null in Ray's own rows, and then differ from every value. Elsewhere a null stands for a
	// field that Ray's row does not have: no filter keeps such a row.
	nullable bool
	// newer marks a column that not all supported versions of Ray have: it is left out if the saved rows do not have
	// it.
	newer bool
}

type kind uint8

// Kinds of columns that convert filter values; the zero kind takes them as they are.
const (
	anyKind kind = iota
	intKind
	boolKind
)

func shownOnly(name string) column  { return column{name: name} }
func filterable(name string) column { return column{name: name, filterable: true} }
func detailOnly(name string) column { return column{name: name, onlyDetail: true} }

func filterableDetail(name string) column {
	return column{name: name, filterable: true, onlyDetail: true}
}

func (c column) ofKind(k kind) column { c.kind = k; return c }
func (c column) orNull() column       { c.nullable = true; return c }
func (c column) notIn255() column     { c.newer = true; return c }

// field is a column of the rows of a kind of things.
type field[T any] struct {
	column
	value func(*T) any // nil: null
	use   use
}

// use says what a field's value is for if there is a saved row.
type use uint8

const (
	keepsSaved    use = iota // nothing: the saved one stays
	fillsNull                // replaces null
	followsEvents            // replaces the saved one, if events are newer: the field depends on the thing's state
)

// rowOf returns the row of a thing: a copy of the saved one with the fields that its events decide, the saved one
// itself if there are none, or a new one if saved is nil. newer says that the events are newer than the saved row.
func rowOf[T any](fields []field[T], thing *T, saved *pyjson.Object, newer bool) *pyjson.Object {
	row := saved
	for _, f := range fields {
		stays := f.use == keepsSaved || f.use == fillsNull && saved.Get(f.name) != nil ||
			f.use == followsEvents && !newer
		if saved != nil && stays {
			continue
		}
		if row == saved {
			row = saved.Clone() // an empty one if saved is nil
		}
		var value any
		if f.value != nil {
			value = f.value(thing)
		}
		row.Set(f.name, value)
	}
	return row
}

func columnsOf[T any](fields []field[T]) []column {
	all := make([]column, len(fields))
	for i, f := range fields {
		all[i] = f.column
	}
	return all
}

// rowSet is the rows of one entity, before a request filters, sorts and cuts them.
type rowSet struct {
	columns []column
	// saved is the path of the saved lists that show which columns this session's Ray had; "" if none does.
	saved string
	// detailColumns are shown with detail=1; nil means columns.
	detailColumns []column
	rows          []*pyjson.Object // with all columns; missing ones read as null
	// total is how many there were before Ray cut the list; 0 means len(rows).
	total int
	// checks refuse values of filters that Ray's own store refuses, by column.
	checks map[string]func(value string) error
	// drops says whether Ray's own store applies a filter and leaves a row out for it, which then does not count as
	// listed. Nil means that it applies none.
	drops func(typedFilter, *pyjson.Object) bool
	// compare orders rows; nil means by the first column.
	compare        func(a, b *pyjson.Object) int
	partialFailure any // "" or nil: Ray gives either, by entity
	warnings       []string
	// How the columns of this session's Ray differ: newer ones that it did not have, and those of a Ray that is not
	// known.
	lacks map[string]bool
	added []column
}

// adaptColumns adapts the columns to those that this session's Ray had, by the first row of a saved list, which was
// requested with all columns: newer ones that it lacks are left out, and others that it has are added. Without a row
// they stay.
func (set *rowSet) adaptColumns(list *pyjson.Object) {
	rows := moment.Objects(list.List("result"))
	if len(rows) == 0 {
		return
	}
	set.lacks = map[string]bool{}
	for _, c := range set.columns {
		_, has := rows[0].Lookup(c.name)
		set.lacks[c.name] = c.newer && !has
	}
	for name := range rows[0].All() {
		if !slices.ContainsFunc(set.columns, func(c column) bool { return c.name == name }) {
			set.added = append(set.added, detailOnly(name))
		}
	}
}

// savedRows returns the rows of a saved list, and what the list said about itself; found is false if no list was saved,
// or none before the requested moment.
func savedRows(r *Request, path string, columns []column) (set rowSet, found bool, err error) {
	set.columns = columns
	list, taken, err := r.SavedList(r.Context(), path)
	if list == nil || err != nil || !r.InTime(taken) {
		return set, false, err
	}
	set.rows, set.total, set.partialFailure = moment.Objects(list.List("result")), int(list.Int("total")),
		list.Get("partial_failure_warning")
	for _, v := range list.List("warnings") {
		if text, ok := v.(string); ok {
			set.warnings = append(set.warnings, text)
		}
	}
	set.saved = path
	return set, true, nil
}

// addOthers adds the rows of a saved list that are left in saved, by ID: those of things that nothing else tells of.
// When they began is not known, so they are there only at the end.
func (set *rowSet) addOthers(r *Request, list *pyjson.Object, saved map[string]*pyjson.Object) {
	if r.At != 0 {
		return
	}
	for _, row := range moment.Objects(list.List("result")) {
		if id := row.String(set.columns[0].name); id != "" && saved[id] == row {
			set.rows = append(set.rows, row)
		}
	}
}

// rowsOf returns the rows of one entity.
type rowsOf func(*Request) (rowSet, error)

// selectRows reads the rows and selects those that a request asks for, with the columns that this session's Ray had.
// parse reads the request's query; a wrong query is refused before rows are read.
func (read rowsOf) selectRows(r *Request, parse func(*Request) (tasktable.Query, error)) (selection, error) {
	q, err := parse(r)
	if err != nil {
		return selection{}, err
	}
	set, err := read(r)
	if err != nil {
		return selection{}, err
	}
	list, _, err := r.SavedList(r.Context(), set.saved)
	if err != nil {
		return selection{}, err
	}
	set.adaptColumns(list)
	return set.filterSortCut(q)
}

// listHandler answers with a State API list (handle_list_api in ray/dashboard/state_api_utils.py).
func (read rowsOf) listHandler(w http.ResponseWriter, r *Request) error {
	picked, err := read.selectRows(r, parseListQuery)
	if err != nil {
		return err
	}
	if picked.redact, err = mustRedact(r); err != nil {
		return err
	}
	return writeState(w, r, picked.reply())
}

// summaryHandler makes the handler of a State API summary (SummaryApiResponse in ray/util/state/common.py).
func (read rowsOf) summaryHandler(summarize func([]*pyjson.Object) *pyjson.Object) handler {
	return func(w http.ResponseWriter, r *Request) error {
		picked, err := read.selectRows(r, parseSummaryQuery)
		if err != nil {
			return err
		}
		l := picked.reply()
		l.rows = pyjson.Obj("node_id_to_summary", pyjson.Obj("cluster", summarize(picked.rows)))
		return writeState(w, r, l)
	}
}

// selection is what a query selected from a rowSet.
type selection struct {
	set      rowSet
	columns  []column         // that are shown
	listed   int              // how many rows Ray's own store would have listed, see rowSet.drops
	matching int              // how many of these pass all filters
	rows     []*pyjson.Object // the first of these, at most the query's limit
	redact   bool             // secrets are masked when they are written
}

// filterSortCut filters, sorts and cuts the rows as Ray does (do_filter in ray/dashboard/state_api_utils.py, and its
// callers): by set.compare or, without it, by the first column, to q.Limit rows. Rows that Ray's own store leaves out
// do not count as listed.
func (set rowSet) filterSortCut(q tasktable.Query) (selection, error) {
	filters, err := set.convertFilters(q.Filters)
	if err != nil {
		return selection{}, err
	}
	var matching []*pyjson.Object
	listed := 0
	for _, row := range set.rows {
		drops := func(f typedFilter) bool { return set.drops(f, row) }
		if set.drops != nil && slices.ContainsFunc(filters, drops) {
			continue
		}
		listed++
		ok, err := set.passesAll(row, filters)
		if err != nil {
			return selection{}, err
		}
		if ok {
			matching = append(matching, row)
		}
	}
	compare, first := set.compare, set.columns[0].name
	if compare == nil {
		compare = func(a, b *pyjson.Object) int { return strings.Compare(a.String(first), b.String(first)) }
	}
	slices.SortStableFunc(matching, compare)
	return selection{set: set, columns: set.shownColumns(q.Detail), listed: listed, matching: len(matching),
		rows: matching[:min(len(matching), q.Limit)]}, nil
}

// shownColumns returns the columns that an answer shows, with detail=1 or without.
func (set rowSet) shownColumns(detail bool) []column {
	if detail && set.detailColumns != nil {
		return set.detailColumns
	}
	all := slices.DeleteFunc(slices.Clone(set.columns),
		func(c column) bool { return c.onlyDetail && !detail || set.lacks[c.name] })
	if detail {
		all = append(all, set.added...)
	}
	return all
}

// reply returns the answer with the selected rows, which are written when it is sent.
func (s selection) reply() stateReply {
	return stateReply{
		total: cmp.Or(s.set.total, len(s.set.rows)), listed: s.listed, matching: s.matching, rows: streamed(s.write),
		partialFailure: s.set.partialFailure, warnings: s.set.warnings,
	}
}

func (s selection) write(out *stream) {
	out.list(len(s.rows), func(i int) {
		out.object(func(yield func(string, any) bool) {
			for _, c := range s.columns {
				value := s.rows[i].Get(c.name)
				if s.redact {
					value = maskedMember(c.name, value)
				}
				if !yield(c.name, value) {
					return
				}
			}
		})
	})
}

// stateReply is a State API list's answer (ListApiResponse in ray/util/state/common.py).
type stateReply struct {
	total, listed, matching int // rows that there were, that Ray's store listed, and that passed the filters
	rows                    any // a list, for a summary an object; or streamed
	partialFailure          any // "" or nil, see rowSet
	warnings                []string
}

func (l stateReply) object() *pyjson.Object {
	var warnings any // null if there are none
	if len(l.warnings) > 0 {
		warnings = l.warnings
	}
	return pyjson.Obj("total", l.total, "num_after_truncation", l.listed, "num_filtered", l.matching, "result", l.rows,
		"partial_failure_warning", l.partialFailure, "warnings", warnings)
}

// writeState sends a State API list or summary (do_reply in ray/dashboard/state_api_utils.py).
func writeState(w http.ResponseWriter, r *Request, l stateReply) error {
	l.warnings = append(damageOf(r.Session), l.warnings...)
	return writeOK(w, "", "result", l.object())
}

// maxWarnings is how many of a session's warnings each list shows.
const maxWarnings = 10

// damageOf returns the warnings about a session's stored data; nil if there are none. They are not sent as
// partial_failure_warning, because Ray's Python API refuses a list that has one unless it is told not to.
func damageOf(s *session.Session) []string {
	all := s.Damage()
	if len(all) <= maxWarnings {
		return all
	}
	return append(all[:maxWarnings], fmt.Sprintf("and %d more warnings, which the list of sessions shows",
		len(all)-maxWarnings))
}

// countIn adds one to a counter of an object.
func countIn(counts *pyjson.Object, key string) {
	n, _ := counts.Get(key).(int)
	counts.Set(key, n+1)
}
