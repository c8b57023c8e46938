package session

import (
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// kinRows reads the rows of an index one group after the other, no more columns than lineage looks at, and keeps none: the next group is
// read while one is looked at. Rows must be asked for in order.
type kinRows struct {
	paged   *pagedRows
	end     int // group that is not read any more
	group   int // that pages are of; -1 before the first
	pages   []taskPage
	next    chan kinGroup
	buffers [2]kinBuffer
}

// kinGroup is a group that was read.
type kinGroup struct {
	pages []taskPage
	err   error
}

// kinBuffer is what pages of a group lie in.
type kinBuffer struct {
	pages []taskPage
	cells []taskCells
}

// kin prepares to read the rows [from, to).
func (r *pagedRows) kin(from, to int) *kinRows {
	k := &kinRows{paged: r, group: -1, end: (to + GroupRows - 1) / GroupRows}
	for i := range k.buffers {
		k.buffers[i] = kinBuffer{make([]taskPage, groupPages), make([]taskCells, groupPages)}
	}
	if from < to {
		k.begin(from / GroupRows)
	}
	return k
}

// begin reads a group in the background; who does not take it leaves nothing behind.
func (k *kinRows) begin(group int) {
	done := make(chan kinGroup, 1)
	k.next = done
	buffer := &k.buffers[group%2]
	go func() {
		pages, err := k.paged.readKin(group, buffer)
		done <- kinGroup{pages, err}
	}()
}

// row gives row n. The page is valid until that of another group is asked for.
func (k *kinRows) row(n int) (*taskPage, int) {
	if group := n / GroupRows; group != k.group {
		got := <-k.next
		if k.group, k.pages = group, got.pages; got.err != nil {
			k.paged.fail(got.err)
		}
		if group+1 < k.end {
			k.begin(group + 1)
		}
	}
	if k.pages == nil {
		return failedPage, n & (pageRows - 1)
	}
	return &k.pages[n%GroupRows>>pageBits], n & (pageRows - 1)
}

// readKin reads the columns of a group that lineage looks at.
func (r *pagedRows) readKin(group int, into *kinBuffer) ([]taskPage, error) {
	columns, err := r.source.Columns(group, KinPart)
	if err != nil {
		return nil, err
	}
	rows := r.rowsOf(group)
	if len(columns.Cells) < KinCells || len(columns.Times) < 1 || len(columns.IDs) != rows*rayid.TaskSize || len(columns.Times[0]) != rows {
		return nil, fmt.Errorf("%w: columns are missing", ErrDamaged)
	}
	for _, c := range slices.Concat(columns.Scan, columns.Cells[:KinCells]) {
		if len(c) != rows {
			return nil, fmt.Errorf("%w: a column of %d values, want %d", ErrDamaged, len(c), rows)
		}
	}
	pages := into.pages[:(rows+pageRows-1)/pageRows]
	for p := range pages {
		cells := &into.cells[p]
		pages[p].taskCells = cells
		for i := 0; i < pageRows && p*pageRows+i < rows; i++ {
			cells.id[i] = rayid.Task(columns.IDs[(p*pageRows+i)*rayid.TaskSize:])
		}
		copy(cells.times[0][:], chunkOf(columns.Times[0], p))
	}
	if err := r.limits.fill(pages, scanColumns, columns.Scan); err != nil {
		return nil, err
	}
	return pages, r.limits.fill(pages, cellColumns[:KinCells], columns.Cells[:KinCells])
}
