package state

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// leavesOut says whether Ray's own store would leave the row out of its list.
func (set RowSet) leavesOut(row *pyjson.Object, filters []typedFilter) bool {
	if set.Selected == nil {
		return false
	}
	for _, f := range filters {
		if set.Selected(f.Filter) {
			if ok, _ := f.match(row); !ok {
				return true
			}
		}
	}
	return false
}

// typedFilter is a filter whose value has the type of its column: string, int64 or bool.
type typedFilter struct {
	tasktable.Filter
	value any
}

// convertFilters converts filter values to the type of their column, where Ray does (convert_filters_type).
func convertFilters(columns []Column, filters []tasktable.Filter) ([]typedFilter, *reply.Error) {
	typed := make([]typedFilter, len(filters))
	for i, f := range filters {
		typed[i] = typedFilter{f, f.Value}
		j := slices.IndexFunc(columns, func(c Column) bool { return c.Name == f.Key })
		if j < 0 || !f.Source {
			continue
		}
		switch columns[j].kind {
		case IntKind:
			n, err := request.Int(f.Value)
			if err != nil {
				return nil, reply.BadRequest("Invalid filter `--filter %s %s` for a int type column. Please provide an integer filter `--filter %s [int]`", f.Key, f.Value, f.Key)
			}
			typed[i].value = n
		case BoolKind:
			b, err := request.Bool(f.Value)
			if err != nil {
				return nil, reply.BadRequest("Invalid filter `--filter %s %s` for a boolean type column. Please provide "+
					"`--filter %s [True|true|1]` for True or `--filter %s [False|false|0]` for False.", f.Key, f.Value, f.Key, f.Key)
			}
			typed[i].value = b
		}
	}
	return typed, nil
}

// matches says whether a row passes all filters. Ray checks a filter's column only when it gets to it.
func matches(columns []Column, row *pyjson.Object, filters []typedFilter) (bool, *reply.Error) {
	for _, f := range filters {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.filterable && c.Name == f.Key })
		if i < 0 {
			return false, UnknownColumn(columns, f.Key)
		}
		if row.Get(f.Key) == nil && !columns[i].nullable {
			return false, nil
		}
		if ok, refused := f.match(row); !ok || refused != nil {
			return false, refused
		}
	}
	return true, nil
}

// UnknownColumn is Ray's refusal of a filter; it lists a Python set, whose order means nothing, sorted.
func UnknownColumn(columns []Column, key string) *reply.Error {
	var names []string
	for _, c := range columns {
		if c.filterable {
			names = append(names, "'"+c.Name+"'")
		}
	}
	slices.Sort(names)
	return reply.BadRequest("The given filter column %s is not supported. Enter filters with –-filter key=value or –-filter key!=value "+
		"Supported filter columns: {%s}", key, strings.Join(names, ", "))
}

// match compares one column with the filter's value. Strings match regardless of case. A string is converted to the type of what it is
// compared with for "=" but not for "!=", where values of different types always differ: that is what Ray does.
func (f typedFilter) match(row *pyjson.Object) (bool, *reply.Error) {
	datum, equal := row.Get(f.Key), false
	switch value := f.value.(type) {
	case string:
		switch datum := datum.(type) {
		case string:
			equal = strings.EqualFold(datum, value)
		case bool:
			if f.Not {
				break
			}
			b, refused := request.Bool(value)
			if refused != nil {
				return false, refused
			}
			equal = datum == b
		default:
			n, isInt := asInt(datum)
			if f.Not || !isInt {
				break
			}
			want, refused := request.Int(value)
			if refused != nil {
				return false, reply.BadRequest("Failed to convert a value %s of type <class 'str'> to <class 'int'>", value)
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

// asInt returns a value's number if Python would hold it as an int.
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
