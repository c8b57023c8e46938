package dashboard

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// parseListQuery reads the parameters of a State API list as ray/dashboard/state_api_utils.py does (options_from_req).
// Its errors are Ray's, but for the wrapping that pydantic puts around one of them.
func parseListQuery(r *Request) (tasktable.Query, error) {
	q := tasktable.Query{Limit: layout.DefaultRows, ExcludeDriver: true, At: r.At, Stop: r.Stop}
	limit, err := intOr(r, "limit", layout.DefaultRows)
	switch {
	case err != nil:
		return q, err
	case limit > int64(r.MaxLimit) && r.Query().Has("limit"): // the default is never refused
		return q, badRequest("Given limit %d exceeds the supported limit %d. Use a lower limit, or set the "+
			"`RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger value.", limit, r.MaxLimit)
	case limit < 0:
		return q, badRequest("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
	}
	q.Limit = int(limit)
	if err = parseFilters(r, &q); err != nil {
		return q, err
	}
	if q.Detail, err = boolOr(r, "detail", false); err != nil {
		return q, err
	}
	q.ExcludeDriver, err = boolOr(r, "exclude_driver", true)
	return q, err
}

// parseSummaryQuery reads the parameters of a State API summary (summary_options_from_req). Ray summarises at most as
// many rows as a list may have, without drivers.
func parseSummaryQuery(r *Request) (tasktable.Query, error) {
	q := tasktable.Query{Limit: r.MaxLimit, ExcludeDriver: true, At: r.At, Stop: r.Stop}
	return q, parseFilters(r, &q)
}

// maxFilters is how many filters a request may have. Each takes memory and time for all rows; Ray refuses none.
const maxFilters = 100

// parseFilters sets q.Filters: it pairs filter_keys, filter_predicates and filter_values in order. A filter without a
// predicate is dropped, as by Ray. Keys are lower-cased; Ray's own store, and the conversion of values, know only those
// that were sent so (Filter.SentLowerCase). It also checks timeout, which has no effect.
func parseFilters(r *Request, q *tasktable.Query) error {
	if _, err := intOr(r, "timeout", 0); err != nil {
		return err
	}
	query := r.Query()
	keys, predicates, values := query["filter_keys"], query["filter_predicates"], query["filter_values"]
	if len(keys) != len(values) {
		return badRequest("%d filter_keys and %d filter_values are given. Give one value for each key.", len(keys),
			len(values))
	}
	if len(keys) > maxFilters {
		return badRequest("%d filters are given. A request may have %d.", len(keys), maxFilters)
	}
	q.Filters = make([]tasktable.Filter, min(len(keys), len(predicates)))
	for i := range q.Filters {
		if predicates[i] != "=" && predicates[i] != "!=" {
			return badRequest("Unsupported filter predicate %s is given. Available predicates: =, !=.", predicates[i])
		}
		key := strings.ToLower(keys[i])
		q.Filters[i] = tasktable.Filter{Key: key, Not: predicates[i] == "!=", Value: values[i],
			SentLowerCase: key == keys[i]}
	}
	return nil
}

// typedFilter is a filter whose value has the type of its column: string, int64 or bool.
type typedFilter struct {
	tasktable.Filter
	value any
}

// convertFilters returns the filters with their values converted to the type of their column, as Ray does
// (convert_filters_type). It refuses values that cannot be converted, and those that Ray's own store refuses. Both only
// concern keys that were sent in lower case (Filter.SentLowerCase).
func (set rowSet) convertFilters(filters []tasktable.Filter) ([]typedFilter, error) {
	for _, f := range filters {
		if check := set.checks[f.Key]; check != nil && f.SentLowerCase && !f.Not {
			if err := check(f.Value); err != nil {
				return nil, err
			}
		}
	}
	typed := make([]typedFilter, len(filters))
	for i, f := range filters {
		typed[i] = typedFilter{f, f.Value}
		j := slices.IndexFunc(set.columns, func(c column) bool { return c.name == f.Key })
		if j < 0 || !f.SentLowerCase {
			continue
		}
		switch set.columns[j].kind {
		case intKind:
			n, err := parseInt(f.Value)
			if err != nil {
				return nil, badRequest("Invalid filter `--filter %s %s` for a int type column. Please provide an "+
					"integer filter `--filter %s [int]`", f.Key, f.Value, f.Key)
			}
			typed[i].value = n
		case boolKind:
			b, err := parseBool(f.Value)
			if err != nil {
				return nil, badRequest("Invalid filter `--filter %s %s` for a boolean type column. Please provide "+
					"`--filter %s [True|true|1]` for True or `--filter %s [False|false|0]` for False.", f.Key, f.Value,
					f.Key, f.Key)
			}
			typed[i].value = b
		}
	}
	return typed, nil
}

// hexID refuses what Ray's ID types refuse.
func hexID(size int) func(string) error {
	return func(value string) error { return checkHex(value, size) }
}

// oneOf refuses a state that the things of a kind do not have.
func oneOf(kind string, states ...string) func(string) error {
	return func(value string) error {
		if value = strings.ToUpper(value); !slices.Contains(states, value) {
			return badRequest("Invalid %s state for filtering: %s", kind, value)
		}
		return nil
	}
}

// excludes says that a row does not match the filter.
func (f typedFilter) excludes(row *pyjson.Object) bool {
	ok, _ := f.passes(row)
	return !ok
}

// passesAll says whether a row passes all filters. The error is Ray's refusal of a filter, which Ray checks only when
// it comes to it: a filter behind one that the row does not pass is not checked.
func (set rowSet) passesAll(row *pyjson.Object, filters []typedFilter) (bool, error) {
	for _, f := range filters {
		i := slices.IndexFunc(set.columns, func(c column) bool { return c.filterable && c.name == f.Key })
		if i < 0 {
			return false, unknownColumn(set.filterColumns(), f.Key)
		}
		if row.Get(f.Key) == nil && !set.columns[i].nullable {
			return false, nil
		}
		if ok, err := f.passes(row); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (set rowSet) filterColumns() (names []string) {
	for _, c := range set.columns {
		if c.filterable {
			names = append(names, c.name)
		}
	}
	return names
}

// unknownColumn is Ray's refusal of a filter by a column that there is not. It lists the columns that there are; Ray
// lists a Python set, in no order, so here they are sorted.
func unknownColumn(columns []string, key string) error {
	slices.Sort(columns)
	return badRequest("The given filter column %s is not supported. Enter filters with –-filter key=value or "+
		"–-filter key!=value Supported filter columns: {'%s'}", key, strings.Join(columns, "', '"))
}

// passes says whether a row passes the filter: whether its column is equal to the filter's value or, with Not, is not.
// Strings match regardless of case. For "=" a string is converted to the type of what it is compared with, which may
// fail; for "!=" it is not, so values of different types always differ. That is what Ray does.
func (f typedFilter) passes(row *pyjson.Object) (bool, error) {
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
			b, err := parseBool(value)
			if err != nil {
				return false, err
			}
			equal = datum == b
		default:
			n, isInt := asInt(datum)
			if f.Not || !isInt {
				break
			}
			want, err := parseInt(value)
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
