package tasktable

import (
	"cmp"
	"encoding/hex"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// Filter keeps the rows whose column Key is (or, with Not, is not) Value, regardless of case.
type Filter struct {
	Key   string // in lower case, whatever case the request has it in
	Not   bool
	Value string
	// SentLowerCase says that the request has the key in lower case. Only such keys are known to Ray's own store, which
	// applies what filters it can before it counts what there is, and to Ray's conversion of values.
	SentLowerCase bool
}

// Query asks for rows of a table.
type Query struct {
	Filters []Filter
	Limit   int
	// Detail asks for all columns.
	Detail bool
	// ExcludeDriver leaves out the rows of drivers (tasks only).
	ExcludeDriver bool
	// At is the moment to show, Unix nanoseconds; 0 is the session's end.
	At int64
	// Stop, if set, is called every stopEvery rows; its error ends the query.
	Stop func() error
}

// stopEvery is the number of rows between two calls of Stop.
const stopEvery = 1 << 12

// checkStop asks q.Stop, once in stopEvery rows, whether the query is to end.
func (q Query) checkStop(row int) error {
	if q.Stop == nil || row%stopEvery != 0 {
		return nil
	}
	return q.Stop()
}

// Selection is the rows that a query selected.
type Selection struct {
	// Rows are the rows to show, at most the query's limit, in the order Ray lists them.
	Rows []int32
	// Listed counts the rows that Ray's own store would have handed to its State API, Matching those of them that all
	// filters keep.
	Listed, Matching int

	t  *Table
	at int64
}

// Row returns the i-th row of the selection. An error says that the row cannot be read any more; the caller should
// stop.
func (s *Selection) Row(i int) (Row, error) {
	r := s.t.Row(int(s.Rows[i]), s.at)
	if r.p == failedPage {
		return Row{}, s.t.Err()
	}
	return r, nil
}

// FilterError is a filter that Ray refuses, with Ray's message.
type FilterError struct{ Text string }

func (e *FilterError) Error() string { return e.Text }

// UnknownColumnError is a filter on a column that tasks do not have, or cannot be filtered by.
type UnknownColumnError struct{ Column string }

func (e *UnknownColumnError) Error() string { return "tasks cannot be filtered by " + e.Column }

// Select selects rows. Errors are *FilterError, *UnknownColumnError, or come from the query's Stop or from the store.
// Like Ray, it refuses an unknown column only if some row reaches that filter.
func (t *Table) Select(q Query) (*Selection, error) {
	s := &Selection{t: t, at: q.At}
	var err error
	s.Listed, err = visitRows(t, q, ScanPart, func(n int, _ Row) {
		s.Matching++
		if len(s.Rows) < q.Limit {
			s.Rows = append(s.Rows, int32(n))
		}
	})
	return s, err
}

// visitRows calls visit for every row that q's filters keep, in the order in which Ray lists them, and ignores q's
// limit. n is the row's number. listed counts the rows that Ray's own store would have listed. Rows that are not in
// memory have only the columns of part and those that a filter needs.
func visitRows[R row](t *Table, q Query, part Part, visit func(n int, r R)) (listed int, err error) {
	s := scan{hidden: t.hiddenDefinitions(q.ExcludeDriver)}
	if s.byStore, s.byAPI, err = predicatesOf(q.Filters); err != nil {
		return 0, err
	}
	s.from, s.to, s.oneTask = t.candidateRows(q.Filters)
	if s.oneTask {
		part = AllParts // few rows, and pages that are read whole can be visited backwards
	}
	visited := 0 // pages
	for k, page := range t.pages(q, part, s.from, s.to, s.oneTask) {
		if err := q.checkStop(visited << pageBits); err != nil {
			return s.listed, err
		}
		visited++
		if page == failedPage {
			return s.listed, t.Err()
		}
		if err := visitPage(&s, k, Row{t: t, p: page, at: cmp.Or(q.At, int64(math.MaxInt64))}, visit); err != nil {
			return s.listed, err
		}
	}
	return s.listed, t.Err()
}

// scan is one query's way through the pages of a table.
type scan struct {
	byStore, byAPI []predicate // see predicatesOf
	hidden         []bool      // by definition
	from, to       int         // rows
	oneTask        bool        // they are the attempts of one task
	listed         int         // so far
}

// visitPage calls visit for the rows of page k that pass; r is any row of that page. Each filter goes through all rows
// of the page that are left, which is several times faster than all filters for one row after the other.
func visitPage[R row](s *scan, k int, r Row, visit func(n int, r R)) error {
	var buffer [pageRows]uint8
	rows := buffer[:0]
	for i := max(0, s.from-k<<pageBits); i < min(pageRows, s.to-k<<pageBits); i++ {
		if r.i = int32(i); !s.hidden[r.p.def[i]] && r.hadBegun() {
			rows = append(rows, uint8(i))
		}
	}
	if s.oneTask {
		// asked for one task, Ray gives its attempts in no order; recorded answers begin with the first
		slices.Reverse(rows)
	}
	rows, err := narrow(s.byStore, r, rows)
	if err != nil {
		return err
	}
	s.listed += len(rows)
	if rows, err = narrow(s.byAPI, r, rows); err != nil {
		return err
	}
	for _, i := range rows {
		r.i = int32(i)
		visit(k<<pageBits+int(i), R(r))
	}
	return nil
}

// readAhead is how many groups are decoded in the background, besides the one that a query goes through. Each takes
// some 3.5 MB.
const readAhead = 2

// pages yields the pages of rows [from, to) with their numbers, and reads no more columns than part and the query's
// filters need. backwards is only for pages that are read whole (part is AllParts). A page that cannot be read ends it:
// it yields failedPage.
func (t *Table) pages(q Query, part Part, from, to int, backwards bool) iter.Seq2[int, *page] {
	filtered := ScanPart
	for _, f := range q.Filters {
		filtered |= filterColumns[f.Key].part
	}
	first, end := from>>pageBits, (to+pageRows-1)>>pageBits
	if from == to {
		end = first
	}
	// Whole pages are cached, and scan columns alone; other parts are read for this query only. Before the end, a row's
	// state needs the times of all states.
	needsAll := q.At != 0 || part == AllParts || filtered == AllParts
	keepsAll := part == ScanPart && filtered != ScanPart && t.allCellsFit() // read once, also for the next query
	switch {
	case t.source == nil || needsAll || keepsAll:
		return t.wholePages(first, end, backwards)
	case part == ScanPart && filtered == ScanPart:
		ahead := 2 * runtime.GOMAXPROCS(0) // half of them wait for the store
		return t.readPages(first, end, ahead, func(g int, _ *rowBuffer) ([]*page, error) { return t.readScan(g) })
	}
	return t.readPages(first, end, readAhead, func(g int, into *rowBuffer) ([]*page, error) {
		return t.readGroup(g, part|filtered, into)
	})
}

// wholePages yields the pages [first, end) with all columns, and their numbers.
func (t *Table) wholePages(first, end int, backwards bool) iter.Seq2[int, *page] {
	return func(yield func(int, *page) bool) {
		for k := range end - first {
			n := first + k
			if backwards {
				n = end - 1 - k
			}
			if !yield(n, t.page(n)) {
				return
			}
		}
	}
}

// readPages yields all pages of the groups that have the pages [first, end), with their numbers, as read returns them.
// Meanwhile it reads as many groups as ahead says in the background.
func (t *Table) readPages(first, end, ahead int, read groupReader) iter.Seq2[int, *page] {
	return func(yield func(int, *page) bool) {
		k := first / groupPages * groupPages
		for pages, err := range inOrder(first/groupPages, (end+groupPages-1)/groupPages, ahead, read) {
			if err != nil {
				t.keepError(err)
				yield(k, failedPage)
				return
			}
			for _, p := range pages {
				if !yield(k, p) {
					return
				}
				k++
			}
		}
	}
}

// candidateRows returns the rows [from, to) that may pass the filters: those of one task if the filters ask for one,
// none if that has no valid ID, otherwise all.
func (t *Table) candidateRows(filters []Filter) (from, to int, oneTask bool) {
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

// hiddenDefinitions says for each definition, by its number, whether its tasks are left out: those of drivers with
// hideDrivers. Number 0, no definition, always is: Ray does not show such tasks.
func (t *Table) hiddenDefinitions(hideDrivers bool) []bool {
	hidden := make([]bool, t.defs.Len())
	hidden[0] = true
	if !hideDrivers {
		return hidden
	}
	lastKind, isDriver := stringtable.ID(0), false // isDriver is lastKind's; there are only four kinds
	for i := 1; i < len(hidden); i++ {
		if kind := t.defs.At(i).Kind; kind != lastKind {
			lastKind, isDriver = kind, string(t.strings.Get(kind)) == eventjson.TypeDriver
		}
		hidden[i] = isDriver
	}
	return hidden
}

// Each calls visit for every row that q's filters keep, in the table's order, with its number; the limit is not used.
// It reads the columns that the methods of the row's type need.
func Each[R row](t *Table, q Query, visit func(n int, r R)) error {
	var part Part = AllParts
	switch any(*new(R)).(type) {
	case RunRow:
		part = runPart
	case PlacedRow:
		part = placedPart
	}
	_, err := visitRows(t, q, part, visit)
	return err
}

// Children returns the numbers of the rows that some tasks submitted, by the tasks' IDs, which are binary: the first
// limit of each. stop is as in Query.
func (t *Table) Children(parents []string, limit int, stop func() error) (map[string][]int, error) {
	children := make(map[string][]int, len(parents))
	for _, id := range parents {
		children[id] = nil
	}
	_, err := visitRows(t, Query{Stop: stop}, LineagePart, func(n int, r Row) {
		id := r.Parent()
		if of, wanted := children[string(id)]; wanted && len(of) < limit {
			children[string(id)] = append(of, n)
		}
	})
	return children, err
}

// IDs returns the tasks of some rows, in the same order. The rows' numbers must be in ascending order.
func (t *Table) IDs(rows []int) ([]rayid.Task, error) {
	ids := make([]rayid.Task, 0, len(rows))
	if len(rows) == 0 {
		return ids, nil
	}
	group := func(g int) []int { // the rows of a group that are asked for
		from, _ := slices.BinarySearch(rows, g*GroupRows)
		to, _ := slices.BinarySearch(rows, (g+1)*GroupRows)
		return rows[from:to]
	}
	first, last := rows[0]/GroupRows, rows[len(rows)-1]/GroupRows
	g := first
	for pages, err := range inOrder(first, last+1, readAhead, func(g int, into *rowBuffer) ([]*page, error) {
		switch full := t.groups[g].full.Load(); {
		case full != nil:
			return *full, nil
		case len(group(g)) == 0:
			return nil, nil
		}
		return t.readGroup(g, idPart, into)
	}) {
		if err != nil {
			t.keepError(err)
			return nil, err
		}
		for _, n := range group(g) {
			ids = append(ids, pages[n%GroupRows>>pageBits].id[n&(pageRows-1)])
		}
		g++
	}
	return ids, nil
}

// String is one of the table's strings, by the number that Place returns.
func (t *Table) String(id stringtable.ID) []byte { return t.strings.Get(id) }
