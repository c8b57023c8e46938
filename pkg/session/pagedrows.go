package session

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// RowSource reads the task table of an index, GroupRows rows at a time. It may be used by several goroutines.
type RowSource interface {
	// Columns reads some columns of group g, or all.
	Columns(g int, part Part) (*TaskColumns, error)
}

// Part is a part of the task table's columns. Each has those of the one before it.
type Part uint8

const (
	ScanPart Part = iota // ScanColumns
	KinPart              // and what lineage looks at: IDs, the first KinCells of CellColumns and the first of TimeColumns
	AllParts
)

// KinCells is how many of CellColumns belong to KinPart.
const KinCells = 3

// maxPagedBytes bounds the cells of an index that a session holds in memory. Scan columns stay: they are 15 bytes a row.
const maxPagedBytes = 64 << 20

// pagedRows are the rows of an index. They are read when they are looked at, and forgotten when others need their place.
type pagedRows struct {
	source RowSource
	rows   int
	first  []rayid.Task // the first task of each group
	limits limits
	// damaged is told that rows are damaged.
	damaged func(reason error)
	groups  []pagedGroup

	mu   sync.Mutex
	held int64 // bytes of cells
	hand int   // where forgetting goes on, round and round
	scan int64 // bytes of scan columns
	err  error
}

// pagedGroup is GroupRows rows. Pages once given stay valid, whatever is forgotten.
type pagedGroup struct {
	reading sync.Mutex
	scan    atomic.Pointer[[]taskPage] // without cells
	full    atomic.Pointer[[]taskPage]
	bytes   int64 // of the cells; guarded by pagedRows.mu
	used    atomic.Bool
}

func newPagedRows(source RowSource, rows int, first []rayid.Task, l limits) *pagedRows {
	return &pagedRows{source: source, rows: rows, first: first, limits: l, groups: make([]pagedGroup, len(first))}
}

// failedPage is what stands for rows that cannot be read: no list shows them.
var failedPage = newTaskPage()

// page gives page k, with cells if those are asked for. What cannot be read is an empty page, and the reason stays in failure.
func (r *pagedRows) page(k int, cells bool) *taskPage {
	g := &r.groups[k/groupPages]
	if full := g.full.Load(); full != nil {
		if !g.used.Load() {
			g.used.Store(true)
		}
		return &(*full)[k%groupPages]
	}
	if !cells {
		if scan := g.scan.Load(); scan != nil {
			return &(*scan)[k%groupPages]
		}
	}
	pages, err := r.read(k/groupPages, cells)
	if err != nil {
		r.fail(err)
		return failedPage
	}
	return &pages[k%groupPages]
}

func (r *pagedRows) fail(err error) {
	r.mu.Lock()
	first := r.err == nil
	if first {
		r.err = err
	}
	r.mu.Unlock()
	if first && errors.Is(err, ErrDamaged) {
		r.damaged(err)
	}
}

// failure is the first error that reading met.
func (r *pagedRows) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// readScans reads the scan columns of groups [from, to) that are not there, several at a time.
func (r *pagedRows) readScans(from, to int) error {
	var wait errgroup.Group
	wait.SetLimit(2 * runtime.GOMAXPROCS(0)) // half of them wait for the store
	for g := from; g < to; g++ {
		if r.groups[g].scan.Load() == nil {
			wait.Go(func() error {
				_, err := r.read(g, false)
				return err
			})
		}
	}
	err := wait.Wait()
	if err != nil {
		r.fail(err)
	}
	return err
}

// rowsOf is how many rows group n has.
func (r *pagedRows) rowsOf(n int) int { return min(GroupRows, r.rows-n*GroupRows) }

// read reads group n; at the same time nobody else does.
func (r *pagedRows) read(n int, cells bool) ([]taskPage, error) {
	g := &r.groups[n]
	g.reading.Lock()
	defer g.reading.Unlock()
	if known := g.full.Load(); known != nil {
		return *known, nil
	}
	if known := g.scan.Load(); known != nil && !cells {
		return *known, nil
	}
	part := ScanPart
	if cells {
		part = AllParts
	}
	pages, err := r.fetch(n, part)
	if err != nil {
		return nil, err
	}
	if !cells {
		g.scan.Store(&pages)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.scan += int64(len(pages)) * int64(unsafe.Sizeof(taskPage{}))
		return pages, nil
	}
	g.full.Store(&pages)
	g.used.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	g.bytes = int64(len(pages))*pageMemory + pages[0].arenas.memory()
	r.held += g.bytes
	r.forget(n)
	return pages, nil
}

// fetch reads group n from the source; of all parts there are either the scan columns or all.
func (r *pagedRows) fetch(n int, part Part) ([]taskPage, error) {
	columns, err := r.source.Columns(n, part)
	if err != nil {
		return nil, err
	}
	rows := r.rowsOf(n)
	for _, c := range slices.Concat(columns.Scan, columns.Cells) {
		if len(c) != rows {
			return nil, fmt.Errorf("%w: a column of %d values, want %d", ErrDamaged, len(c), rows)
		}
	}
	pages := make([]taskPage, (rows+pageRows-1)/pageRows)
	if err := r.limits.fill(pages, scanColumns, columns.Scan); err != nil || part == ScanPart {
		return pages, err
	}
	return pages, r.limits.fillCells(pages, columns)
}

// forget lets cells go that were not used since it last came by, until the rest is within the bound; not those of group keep. The
// caller holds r.mu.
func (r *pagedRows) forget(keep int) {
	for range 2 * len(r.groups) {
		if r.held <= maxPagedBytes {
			return
		}
		n := r.hand
		r.hand = (r.hand + 1) % len(r.groups)
		g := &r.groups[n]
		if n == keep || g.full.Load() == nil || g.used.Swap(false) {
			continue
		}
		g.full.Store(nil)
		r.held -= g.bytes
		g.bytes = 0
	}
}

func (r *pagedRows) memory() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held + r.scan + int64(len(r.groups))*int64(unsafe.Sizeof(pagedGroup{}))
}

// span gives the rows among which the boundary lies that find looks for: before it are tasks below id, or, with after, up to it.
func (r *pagedRows) span(id *rayid.Task, after bool) (from, to int) {
	limit := 0
	if after {
		limit = 1
	}
	n, _ := slices.BinarySearchFunc(r.first, limit, func(first rayid.Task, limit int) int {
		if bytes.Compare(first[:], id[:]) < limit {
			return -1
		}
		return 1
	})
	// The groups before n begin before the boundary, so it is in the last of them or at the start of n.
	return max(0, n-1) * GroupRows, min(n*GroupRows, r.rows)
}
