package tasktable

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// predicate narrows rows of a page, by their numbers in it, to those it keeps, in place. r is any row of the page. With
// an error come the rows before the one that caused it.
type predicate func(r Row, rows []uint8) (kept []uint8, err error)

// eachRow makes a predicate of keep, which says whether one row passes. The predicate uses the memory of the rows'
// list.
func eachRow(keep func(Row) (bool, error)) predicate {
	return func(r Row, rows []uint8) ([]uint8, error) {
		kept := rows[:0]
		for _, i := range rows {
			r.i = int32(i)
			ok, err := keep(r)
			if err != nil {
				return kept, err
			}
			if ok {
				kept = append(kept, i)
			}
		}
		return kept, nil
	}
}

// narrow returns the rows that all predicates keep. The error is that of the first row with one, as if rows were looked
// at one by one: after an error the other predicates get only the rows before.
func narrow(predicates []predicate, r Row, rows []uint8) (kept []uint8, err error) {
	for _, keep := range predicates {
		var failed error
		if rows, failed = keep(r, rows); failed != nil {
			err = failed
		}
	}
	return rows, err
}

// predicatesOf turns filters into functions of rows: byStore for those that Ray's own store applies before it counts
// (get_all_task_info in ray/util/state/state_manager.py), byAPI for those that its State API applies (do_filter in
// ray/dashboard/state_api_utils.py).
func predicatesOf(filters []Filter) (byStore, byAPI []predicate, err error) {
	for _, f := range filters {
		column, known := filterColumns[f.Key]
		switch {
		case !known:
			byAPI = append(byAPI, eachRow(func(Row) (bool, error) { return false, &UnknownColumnError{f.Key} }))
		case column.id != nil:
			keep, err := idPredicate(f, column)
			if err != nil {
				return nil, nil, err
			}
			if f.SentLowerCase && column.storeFilters {
				byStore = append(byStore, keep)
			} else {
				byAPI = append(byAPI, keep)
			}
		case column.text != nil:
			if f.SentLowerCase && column.storeText != nil {
				byStore = append(byStore, textPredicate(f, column.storeText))
			}
			byAPI = append(byAPI, textPredicate(f, column.text)) // it may be another text, so Ray filters twice
		default:
			keep, err := column.other(f)
			if err != nil {
				return nil, nil, err
			}
			byAPI = append(byAPI, keep)
		}
	}
	return byStore, byAPI, nil
}

// filterColumn is a column of the State API's tasks that filters may name (TaskState in ray/util/state/common.py). One
// of id, text and other is set.
type filterColumn struct {
	// id gives an identifier's bytes, nil for null; width is how many there are. storeFilters says that Ray's own
	// store filters by it.
	id           func(Row) []byte
	width        int
	storeFilters bool
	// text gives a string; storeText gives what Ray's own store filters by, if it does.
	text, storeText *textColumn
	// other makes the predicate of a column of another type.
	other func(Filter) (predicate, error)
	// part is the part of a stored table that has the column.
	part Part
}

var filterColumns = map[string]filterColumn{
	"task_id": {id: func(r Row) []byte { return r.p.id[r.i][:] }, width: rayid.TaskSize, storeFilters: true,
		part: AllParts},
	"job_id": {id: func(r Row) []byte { return r.p.job[r.i][:] }, width: rayid.JobSize, storeFilters: true,
		part: ScanPart},
	"actor_id":           {id: Row.Actor, width: rayid.ActorSize, storeFilters: true, part: LineagePart},
	"parent_task_id":     {id: Row.Parent, width: rayid.TaskSize, part: LineagePart},
	"node_id":            {id: Row.Node, width: rayid.NodeSize, part: AllParts},
	"worker_id":          {id: Row.Worker, width: rayid.WorkerSize, part: AllParts},
	"placement_group_id": {id: Row.PlacementGroup, width: rayid.PlacementGroupSize, part: ScanPart},
	"name": {text: &textColumn{read: Row.Name, textKey: nameKey},
		storeText: &textColumn{read: Row.GivenName, textKey: definitionKey}, part: ScanPart},
	"state":              {text: stateText, storeText: stateText, part: ScanPart},
	"type":               {text: &textColumn{read: Row.Type, textKey: definitionKey}, part: ScanPart},
	"func_or_class_name": {text: &textColumn{read: Row.Function, textKey: definitionKey}, part: ScanPart},
	"language":           {text: &textColumn{read: Row.Language, textKey: definitionKey}, part: ScanPart},
	"error_type": {text: &textColumn{read: Row.errorType, optional: true, textKey: func(Row) int { return noKey }},
		part: AllParts},
	"attempt_number":     {other: attemptPredicate, part: LineagePart},
	"worker_pid":         {other: pidPredicate, part: AllParts},
	"is_debugger_paused": {other: pausedPredicate, part: AllParts},
}

// FilterColumns returns the names of the columns that filters may name, in no order.
func FilterColumns() []string { return slices.Collect(maps.Keys(filterColumns)) }

// textColumn reads a string of a row.
type textColumn struct {
	read func(Row) []byte
	// optional says that nil is a column that the row does not have at all, which no filter keeps.
	optional bool
	// textKey returns a small number that is equal for rows with the same string, so that each string is compared only
	// once; noKey if the row has none.
	textKey func(Row) int
}

var stateText = &textColumn{
	read: func(r Row) []byte { return []byte(r.State()) },
	textKey: func(r Row) int {
		s, _ := r.state()
		return int(s)
	},
}

// noKey says that a row has no textKey: its text is compared by itself.
const noKey = -1

func definitionKey(r Row) int { return int(r.p.def[r.i]) }

// nameKey returns noKey for rows of actors with a repr name, because it changes the names of their methods.
func nameKey(r Row) int {
	if r.p.reprName[r.i] != 0 {
		return noKey
	}
	return definitionKey(r)
}

// errorType is nil if there is no error, and empty if the error has no type.
func (r Row) errorType() []byte {
	kind, _, ok := r.Failure()
	if ok && kind == nil {
		kind = []byte{}
	}
	return kind
}

// idPredicate compares binary IDs. Ray's own store, if it applies the filter (Filter.SentLowerCase), refuses a value
// that is no ID; elsewhere such a value matches no row.
func idPredicate(f Filter, column filterColumn) (predicate, error) {
	want, err := hex.DecodeString(f.Value)
	if f.SentLowerCase && column.storeFilters {
		if refused := checkID(f.Value, want, err, column.width); refused != nil {
			return nil, refused
		}
	}
	if err != nil || len(want) != column.width {
		want = nil
	}
	return eachRow(func(r Row) (bool, error) {
		equal := want != nil && bytes.Equal(column.id(r), want)
		return equal != f.Not, nil
	}), nil
}

// checkID refuses a value that is no ID, with the messages of Python's binascii and of Ray's BaseID.
func checkID(value string, id []byte, err error, width int) error {
	switch {
	case strings.ContainsFunc(value, func(r rune) bool { return r >= 0x80 }):
		return &FilterError{"string argument should contain only ASCII characters"}
	case len(value)%2 == 1:
		return &FilterError{"Odd-length string"}
	case err != nil:
		return &FilterError{"Non-hexadecimal digit found"}
	case len(id) != width:
		return &FilterError{fmt.Sprintf("ID string needs to have length %d, got %d", width, len(id))}
	}
	return nil
}

// textPredicate compares a column's texts with a value, without regard to case. Rows with the same textKey have the
// same text, which is compared only once.
func textPredicate(f Filter, column *textColumn) predicate {
	want := []byte(f.Value)
	keeps := func(r Row) bool {
		value := column.read(r)
		return (value != nil || !column.optional) && bytes.EqualFold(value, want) != f.Not
	}
	const yes, no = 1, 2
	var results []byte // yes, no or not compared yet (0), by the number that column.textKey returns
	return func(r Row, rows []uint8) ([]uint8, error) {
		kept := rows[:0]
		for _, i := range rows {
			r.i = int32(i)
			key := column.textKey(r)
			if key == noKey {
				if keeps(r) {
					kept = append(kept, i)
				}
				continue
			}
			if key >= len(results) {
				results = append(results, make([]byte, key+1-len(results))...)
			}
			if results[key] == 0 {
				results[key] = no
				if keeps(r) {
					results[key] = yes
				}
			}
			if results[key] == yes {
				kept = append(kept, i)
			}
		}
		return kept, nil
	}
}

// ParseInt reads s as Python's int() does: signs, spaces around and underscores between digits are allowed.
func ParseInt(s string) (n int64, ok bool) {
	digits := strings.TrimSpace(s)
	if strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), 10, 64)
	return n, err == nil
}

// attemptPredicate filters by attempt_number. It is never null, so Ray converts the filter's value to a number first,
// but only if it knows the key: if it is sent in lower case (Filter.SentLowerCase). Else texts are compared.
func attemptPredicate(f Filter) (predicate, error) {
	attempt := func(r Row) (int64, bool) { return int64(r.Attempt()), true }
	if !f.SentLowerCase {
		return numberPredicate(f, attempt), nil
	}
	want, ok := ParseInt(f.Value)
	if !ok {
		return nil, &FilterError{fmt.Sprintf(
			"Invalid filter `--filter %s %s` for a int type column. Please provide an integer filter `--filter %s "+
				"[int]`",
			f.Key, f.Value, f.Key)}
	}
	return eachRow(func(r Row) (bool, error) { return (int64(r.Attempt()) == want) != f.Not, nil }), nil
}

// pidPredicate: worker_pid may be null.
func pidPredicate(f Filter) (predicate, error) {
	return numberPredicate(f, func(r Row) (int64, bool) { return int64(r.PID()), r.PID() != 0 }), nil
}

// numberPredicate compares the numbers of a column with a filter's text, as Ray does. For "=" it converts the text when
// it meets the first number, and null passes never. For "!=" it never converts the text, which therefore differs from
// every number: all rows pass. number returns a row's number, with ok false for null.
func numberPredicate(f Filter, number func(Row) (n int64, ok bool)) predicate {
	want, valid := ParseInt(f.Value)
	return eachRow(func(r Row) (bool, error) {
		n, ok := number(r)
		switch {
		case f.Not:
			return true, nil
		case !ok:
			return false, nil
		case !valid:
			return false, &FilterError{fmt.Sprintf(
				"Failed to convert a value %s of type <class 'str'> to <class 'int'>", f.Value)}
		}
		return n == want, nil
	})
}

// pausedPredicate filters by is_debugger_paused, which may be null. As in numberPredicate, Ray converts the filter's
// text only for "=", when it meets the first value. For "!=" it compares the text with a bool: all rows pass.
func pausedPredicate(f Filter) (predicate, error) {
	return eachRow(func(r Row) (bool, error) {
		paused, ok := r.Paused()
		switch {
		case f.Not:
			return true, nil
		case !ok:
			return false, nil
		}
		switch f.Value {
		case "True", "true", "1":
			return paused, nil
		case "False", "false", "0":
			return !paused, nil
		}
		return false, &FilterError{fmt.Sprintf("Failed to convert a value %s of type <class 'str'> to <class 'bool'>",
			f.Value)}
	}), nil
}
