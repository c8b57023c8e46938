package tasktable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// RowSource reads a stored task table, GroupRows rows at a time. It is safe for concurrent use.
type RowSource interface {
	// Blocks reads the sections of part of group g. It may read more.
	Blocks(g int, part Part) ([]Block, error)
}

// maxPagedBytes bounds the cells of an index that a session holds in memory. Scan columns are never dropped: they take
// 15 bytes a row.
const maxPagedBytes = 64 << 20

// rows are the rows of a table, in groups. All are in memory, or they are read from a source on demand and cached; all
// cells but those read last are dropped when they take too much memory.
type rows struct {
	n      int
	groups []group
	first  []rayid.Task // the first task of each group
	source RowSource    // nil if all rows are in memory
	limits limits
	// failed is called with the first error of reading.
	failed  func(reason error)
	reading int64 // bytes that reading a group takes at most
	maxHeld int64 // bytes of cells that are kept; maxPagedBytes

	mu   sync.Mutex
	held int64 // bytes of cells
	scan int64 // bytes of scan columns
	err  error
}

// group is GroupRows rows, or fewer if it is the last one. Pages that were returned stay valid after their group is
// dropped.
type group struct {
	reading sync.Mutex
	scan    atomic.Pointer[[]*page] // without cells
	full    atomic.Pointer[[]*page]
}

// rowsInMemory are the first n rows of pages.
func rowsInMemory(pages []*page, n int) *rows {
	r := &rows{n: n, groups: make([]group, (n+GroupRows-1)/GroupRows), held: int64(len(pages)) * pageMemory}
	for g := range r.groups {
		own := pages[g*groupPages : min(len(pages), (g+1)*groupPages)]
		r.groups[g].full.Store(&own)
		r.first = append(r.first, own[0].id[0])
	}
	return r
}

// storedRows are the n rows of a source.
func storedRows(source RowSource, n int, first []rayid.Task, l limits) *rows {
	return &rows{n: n, groups: make([]group, len(first)), first: first, source: source, limits: l,
		failed: func(error) {}, maxHeld: maxPagedBytes}
}

// failedPage stands for rows that cannot be read. No list shows them, because they have no definition.
var failedPage = newPage()

// page returns page k with all its columns. If it cannot be read, it returns failedPage, and failure returns the
// reason.
func (r *rows) page(k int) *page {
	if full := r.groups[k/groupPages].full.Load(); full != nil {
		return (*full)[k%groupPages]
	}
	pages, err := r.readWhole(k / groupPages)
	if err != nil {
		r.keepError(err)
		return failedPage
	}
	return pages[k%groupPages]
}

func (r *rows) row(n int) (*page, int) { return r.page(n >> pageBits), n & (pageRows - 1) }

// keepError keeps and reports the first error.
func (r *rows) keepError(err error) {
	r.mu.Lock()
	first := r.err == nil
	if first {
		r.err = err
	}
	r.mu.Unlock()
	if first {
		r.failed(err)
	}
}

// failure returns the first error of reading.
func (r *rows) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// groupReader reads the pages of a group, which may be in the buffer.
type groupReader func(g int, into *rowBuffer) ([]*page, error)

// inOrder yields the pages of groups [from, to) as read returns them. Meanwhile it reads some groups ahead in the
// background, each into a buffer; pages in it are valid until the next group is asked for.
func inOrder(from, to, ahead int, read groupReader) iter.Seq2[[]*page, error] {
	type result struct {
		pages []*page
		err   error
	}
	return func(yield func([]*page, error) bool) {
		ahead = min(ahead, to-from)
		buffers, results := make([]rowBuffer, ahead+1), make([]chan result, ahead+1)
		begin := func(g int) {
			if g >= to {
				return
			}
			slot, done := g%len(buffers), make(chan result, 1) // if nobody takes the result, the goroutine still ends
			results[slot] = done
			go func() {
				pages, err := read(g, &buffers[slot])
				done <- result{pages, err}
			}()
		}
		for g := from; g < from+ahead; g++ {
			begin(g)
		}
		for g := from; g < to; g++ {
			begin(g + ahead)
			got := <-results[g%len(buffers)]
			if !yield(got.pages, got.err) {
				return
			}
		}
	}
}

// allCellsFit reports whether the cells of all rows may be kept.
func (r *rows) allCellsFit() bool { return int64(r.n)/pageRows*pageMemory <= r.maxHeld }

// rowsOfGroup is how many rows group n has.
func (r *rows) rowsOfGroup(n int) int { return min(GroupRows, r.n-n*GroupRows) }

// readScan reads the scan columns of group n, unless they are in memory by now. Only one goroutine at a time reads a
// group.
func (r *rows) readScan(n int) ([]*page, error) {
	g := &r.groups[n]
	g.reading.Lock()
	defer g.reading.Unlock()
	if known := cmp.Or(g.full.Load(), g.scan.Load()); known != nil {
		return *known, nil
	}
	pages, err := r.readGroup(n, ScanPart, new(rowBuffer))
	if err != nil {
		return nil, err
	}
	g.scan.Store(&pages)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scan += int64(len(pages)) * int64(unsafe.Sizeof(page{}))
	return pages, nil
}

// readWhole reads all columns of group n, unless they are in memory. If the groups in memory then take more than
// maxHeld, all others are dropped. Only one goroutine at a time reads a group.
func (r *rows) readWhole(n int) ([]*page, error) {
	g := &r.groups[n]
	g.reading.Lock()
	defer g.reading.Unlock()
	if known := g.full.Load(); known != nil {
		return *known, nil
	}
	pages, err := r.readGroup(n, AllParts, new(rowBuffer))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes := int64(len(pages))*pageMemory + pages[0].arenas.memory()
	if r.held += bytes; r.held > r.maxHeld {
		for n := range r.groups {
			r.groups[n].full.Store(nil)
		}
		r.held = bytes
	}
	g.full.Store(&pages)
	return pages, nil
}

// readGroup reads group n from the source. The pages are valid until the buffer is used again. A panic is reported as
// damage.
func (r *rows) readGroup(n int, part Part, into *rowBuffer) (pages []*page, err error) {
	err = guard.CatchPanic(fmt.Sprintf("group %d of the index's rows", n), func() error {
		blocks, err := r.source.Blocks(n, part)
		if err != nil {
			return err
		}
		pages, err = r.limits.decode(blocks, r.rowsOfGroup(n), part, into)
		if err == nil && part&idPart != 0 && pages[0].id[0] != r.first[n] {
			err = fmt.Errorf("%w: group %d begins with another task", ErrDamaged, n)
		}
		return err
	})
	if _, ok := errors.AsType[*guard.Panic](err); ok {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return pages, err
}

// memory is what the groups take that are in memory or being read.
func (r *rows) memory() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held + r.scan + r.reading + int64(len(r.groups))*int64(unsafe.Sizeof(group{}))
}

// searchRange narrows Table.find's binary search for the first row that compares to id as limit or more: that row is
// from, or to, or between them.
func (r *rows) searchRange(id *rayid.Task, limit int) (from, to int) {
	n, _ := slices.BinarySearchFunc(r.first, limit, func(first rayid.Task, limit int) int {
		if bytes.Compare(first[:], id[:]) < limit {
			return -1
		}
		return 1
	})
	// The groups before n begin before the boundary, so it is in the last of them or at the start of n.
	return max(0, n-1) * GroupRows, min(n*GroupRows, r.n)
}
