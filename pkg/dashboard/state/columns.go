package state

import (
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Column is one column of a State API entity (ray/util/state/common.py).
type Column struct {
	Name       string
	filterable bool
	// OnlyDetail columns are shown with detail=1 alone.
	OnlyDetail bool
	// kind is what filter values of the column are converted to first; Ray does so only where the column cannot be null.
	kind kind
	// nullable columns may be null in Ray's own rows, and then differ from every value. Elsewhere a null stands for a field that Ray's row
	// does not have: no filter keeps such a row.
	nullable bool
	// newer marks a column that not all supported versions of Ray have: it is left out if the saved rows do not have it.
	newer bool
}

type kind uint8

// Kinds of columns that convert filter values; the zero kind takes them as they are.
const (
	anyKind kind = iota
	IntKind
	BoolKind
)

// Shown is a column that is always shown and that filters may not name.
func Shown(name string) Column { return Column{Name: name} }

// Filterable is a column that is always shown and that filters may name.
func Filterable(name string) Column { return Column{Name: name, filterable: true} }

// Detail is a column that is shown with detail=1 alone and that filters may not name.
func Detail(name string) Column { return Column{Name: name, OnlyDetail: true} }

// FilterableDetail is a column that is shown with detail=1 alone and that filters may name.
func FilterableDetail(name string) Column {
	return Column{Name: name, filterable: true, OnlyDetail: true}
}

// Of sets the column's kind.
func (c Column) Of(k kind) Column { c.kind = k; return c }

// Nullable makes the column nullable.
func (c Column) Nullable() Column { c.nullable = true; return c }

func (c Column) notIn255() Column { c.newer = true; return c }

// Difference is how the columns of one session's Ray differ from those known here.
type Difference struct {
	lacks map[string]bool // newer columns that it did not have
	added []Column        // those of a Ray that is not known; shown with detail
}

// Differences compares columns with those of a saved list's rows, which were requested with detail. Without rows nothing differs.
func Differences(columns []Column, list *pyjson.Object) Difference {
	d := Difference{lacks: map[string]bool{}}
	rows := list.List("result")
	if len(rows) == 0 {
		return d
	}
	row, _ := rows[0].(*pyjson.Object)
	for _, c := range columns {
		if _, has := row.Lookup(c.Name); c.newer && !has {
			d.lacks[c.Name] = true
		}
	}
	for name := range row.All() {
		if !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == name }) {
			d.added = append(d.added, Detail(name))
		}
	}
	return d
}

// columns returns the columns that an answer shows.
func (set RowSet) columns(all []Column, detail bool) []Column {
	if detail && set.DetailColumns != nil {
		return set.DetailColumns
	}
	shown := make([]Column, 0, len(all))
	for _, c := range all {
		if (detail || !c.OnlyDetail) && !set.Difference.lacks[c.Name] {
			shown = append(shown, c)
		}
	}
	if detail {
		shown = append(shown, set.Difference.added...)
	}
	return shown
}
