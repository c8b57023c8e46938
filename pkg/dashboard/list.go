package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// column is one column of a State API entity (ray/util/state/common.py).
type column struct {
	name       string
	filterable bool
	detail     bool // only with detail=1
	// kind is what filter values of the column are converted to first; Ray does so only where the column cannot be null.
	kind kind
	// newer marks a column that not all supported versions of Ray have: it is left out where the saved rows lack it.
	newer bool
}

type kind uint8

const (
	anyKind kind = iota
	intKind
	boolKind
)

// rowSet is what a State API list works on.
type rowSet struct {
	rows []*pyjson.Object // with all columns; missing ones read as null
	// total is how many there were before Ray cut the list; 0 means len(rows).
	total int
	// check refuses filters that Ray's own store refuses; nil refuses none.
	check func(session.Query) *apiError
	// selected says whether Ray's own store takes a filter: what it leaves out does not count as listed. Nil means it takes none.
	selected func(session.Filter) bool
	// compare orders rows; nil means by the first column.
	compare        func(a, b *pyjson.Object) int
	partialFailure any
	warnings       []string
	// detailColumns are shown with detail=1, if they are others than the entity's.
	detailColumns []column
	// fit is how this session's Ray had other columns than are known here.
	fit columnFit
}

// list makes the handler of a State API list (handle_list_api in ray/dashboard/state_api_utils.py).
func (d *Dashboard) list(columns []column, rowsOf func(*Request) (rowSet, error)) handler {
	return func(w http.ResponseWriter, r *Request) error {
		q, refused := d.parseListQuery(r)
		if refused != nil {
			writeStateError(w, refused)
			return nil
		}
		set, err := rowsOf(r)
		if err != nil {
			return err
		}
		picked, refused := set.query(columns, q)
		if refused != nil {
			writeStateError(w, refused)
			return nil
		}
		if picked.rows, err = redactRows(r, picked.rows); err != nil {
			return err
		}
		writeList(w, r, picked.reply(set.columns(columns, q.Detail)))
		return nil
	}
}

// selection is what a query picked of a rowSet.
type selection struct {
	set                              rowSet
	total, afterTruncation, filtered int
	rows                             []*pyjson.Object
}

// query filters, sorts and cuts the rows as do_filter and its callers do.
func (set rowSet) query(columns []column, q session.Query) (selection, *apiError) {
	if set.check != nil {
		if refused := set.check(q); refused != nil {
			return selection{}, refused
		}
	}
	filters, refused := convertFilters(columns, q.Filters)
	if refused != nil {
		return selection{}, refused
	}
	var matching []*pyjson.Object
	listed := 0
	for _, row := range set.rows {
		if set.leavesOut(columns, row, filters) {
			continue
		}
		listed++
		ok, refused := matches(columns, row, filters)
		if refused != nil {
			return selection{}, refused
		}
		if ok {
			matching = append(matching, row)
		}
	}
	compare := set.compare
	if compare == nil {
		compare = func(a, b *pyjson.Object) int {
			return strings.Compare(a.String(columns[0].name), b.String(columns[0].name))
		}
	}
	slices.SortStableFunc(matching, compare)
	return selection{
		set: set, total: cmp.Or(set.total, len(set.rows)), afterTruncation: listed, filtered: len(matching),
		rows: matching[:min(len(matching), q.Limit)],
	}, nil
}

// columns are those that an answer shows, of an entity's.
func (set rowSet) columns(all []column, detail bool) []column {
	if detail && set.detailColumns != nil {
		return set.detailColumns
	}
	shown := make([]column, 0, len(all))
	for _, c := range all {
		if (detail || !c.detail) && !set.fit.lacks[c.name] {
			shown = append(shown, c)
		}
	}
	if detail {
		shown = append(shown, set.fit.added...)
	}
	return shown
}

func (s selection) reply(columns []column) listReply {
	return listReply{
		total: s.total, afterTruncation: s.afterTruncation, filtered: s.filtered,
		rows:           func(b []byte) []byte { return appendRows(b, columns, s.rows) },
		partialFailure: s.set.partialFailure, warnings: s.set.warnings,
	}
}

// leavesOut says whether Ray's own store would leave the row out of what it lists.
func (set rowSet) leavesOut(columns []column, row *pyjson.Object, filters []typedFilter) bool {
	if set.selected == nil {
		return false
	}
	for _, f := range filters {
		if set.selected(f.Filter) {
			if ok, _ := f.match(row); !ok {
				return true
			}
		}
	}
	return false
}

func appendRows(b []byte, columns []column, rows []*pyjson.Object) []byte {
	b = append(b, '[')
	for i, row := range rows {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '{')
		for j, c := range columns {
			if j > 0 {
				b = append(b, ", "...)
			}
			b = pyjson.AppendString(b, c.name)
			b = append(b, ": "...)
			b = pyjson.Append(b, row.Get(c.name))
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// typedFilter is a filter whose value has the type of its column: string, int64 or bool.
type typedFilter struct {
	session.Filter
	value any
}

// convertFilters gives filter values the type of their column, where Ray does (convert_filters_type).
func convertFilters(columns []column, filters []session.Filter) ([]typedFilter, *apiError) {
	typed := make([]typedFilter, len(filters))
	for i, f := range filters {
		typed[i] = typedFilter{f, f.Value}
		j := slices.IndexFunc(columns, func(c column) bool { return c.name == f.Key })
		if j < 0 {
			continue
		}
		switch columns[j].kind {
		case intKind:
			n, err := pythonInt(f.Value)
			if err != nil {
				return nil, badRequest("Invalid filter `--filter %s %s` for a int type column. Please provide an integer filter `--filter %s [int]`", f.Key, f.Value, f.Key)
			}
			typed[i].value = n
		case boolKind:
			b, err := pythonBool(f.Value)
			if err != nil {
				return nil, badRequest("Invalid filter `--filter %s %s` for a boolean type column. Please provide "+
					"`--filter %s [True|true|1]` for True or `--filter %s [False|false|0]` for False.", f.Key, f.Value, f.Key, f.Key)
			}
			typed[i].value = b
		}
	}
	return typed, nil
}

// matches says whether a row passes all filters. Ray checks a filter's column only when it gets to it.
func matches(columns []column, row *pyjson.Object, filters []typedFilter) (bool, *apiError) {
	for _, f := range filters {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.filterable && c.name == f.Key }) {
			return false, unknownColumn(columns, f.Key)
		}
		if ok, refused := f.match(row); !ok || refused != nil {
			return false, refused
		}
	}
	return true, nil
}

// unknownColumn is Ray's refusal of a filter; it lists a Python set, whose order means nothing, sorted.
func unknownColumn(columns []column, key string) *apiError {
	var names []string
	for _, c := range columns {
		if c.filterable {
			names = append(names, "'"+c.name+"'")
		}
	}
	slices.Sort(names)
	return badRequest("The given filter column %s is not supported. Enter filters with –-filter key=value or –-filter key!=value "+
		"Supported filter columns: {%s}", key, strings.Join(names, ", "))
}

// match compares one column with the filter's value. Strings match regardless of case. A string is converted to the type of what it is
// compared with for "=" but not for "!=", where values of different types always differ: that is what Ray does.
func (f typedFilter) match(row *pyjson.Object) (bool, *apiError) {
	datum, found := row.Lookup(f.Key)
	if !found {
		return false, nil
	}
	equal := false
	switch value := f.value.(type) {
	case string:
		switch datum := datum.(type) {
		case string:
			equal = strings.EqualFold(datum, value)
		case bool:
			if f.Not {
				break
			}
			b, refused := pythonBool(value)
			if refused != nil {
				return false, refused
			}
			equal = datum == b
		default:
			n, isInt := asInt(datum)
			if f.Not || !isInt {
				break
			}
			want, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return false, badRequest("Failed to convert a value %s of type <class 'str'> to <class 'int'>", value)
			}
			equal = n == want
		}
	case int64:
		n, isInt := asInt(datum)
		equal = isInt && n == value
	case bool:
		equal = datum == value
	}
	return equal != f.Not, nil
}

// asInt gives a value's number if Python would hold it as an int.
func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case pyjson.Number:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint32:
		return int64(v), true
	}
	return 0, false
}
