package tasktable

import (
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// lineageRows reads the rows of an index group by group, with the columns of LineagePart only, and caches none. It reads the next group in the
// background. Rows must be read in order.
type lineageRows struct {
	paged   *pagedRows
	end     int // the first group not to read
	group   int // that pages are of; -1 before the first
	pages   []page
	next    chan lineageGroup
	buffers [2]lineageBuffer
}

// lineageGroup is a group that was read.
type lineageGroup struct {
	pages []page
	err   error
}

// lineageBuffer is the memory for a group's pages.
type lineageBuffer struct {
	pages []page
	cells []pageCells
}

// lineageRows prepares to read the rows [from, to).
func (r *pagedRows) lineageRows(from, to int) *lineageRows {
	k := &lineageRows{paged: r, group: -1, end: (to + GroupRows - 1) / GroupRows}
	for i := range k.buffers {
		k.buffers[i] = lineageBuffer{make([]page, groupPages), make([]pageCells, groupPages)}
	}
	if from < to {
		k.begin(from / GroupRows)
	}
	return k
}

// begin reads a group in the background. If nobody takes the result, its goroutine still ends.
func (k *lineageRows) begin(group int) {
	done := make(chan lineageGroup, 1)
	k.next = done
	buffer := &k.buffers[group%2]
	go func() {
		var got lineageGroup
		got.err = guarded(group, func() (err error) {
			got.pages, err = k.paged.readLineage(group, buffer)
			return err
		})
		done <- got
	}()
}

// row returns row n. The page is valid until a row of another group is read.
func (k *lineageRows) row(n int) (*page, int) {
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

// readLineage reads the columns of LineagePart of a group.
func (r *pagedRows) readLineage(group int, into *lineageBuffer) ([]page, error) {
	columns, err := r.source.Columns(group, LineagePart)
	if err != nil {
		return nil, err
	}
	rows := r.rowsOf(group)
	if len(columns.Scan) == 0 || len(columns.Cells) < LineageCells || len(columns.Times) < 1 || len(columns.IDs) != rows*rayid.TaskSize || len(columns.Times[0]) != rows {
		return nil, fmt.Errorf("%w: columns are missing", ErrDamaged)
	}
	for _, c := range slices.Concat(columns.Scan, columns.Cells[:LineageCells]) {
		if len(c) != rows {
			return nil, fmt.Errorf("%w: a column of %d values, want %d", ErrDamaged, len(c), rows)
		}
	}
	pages := into.pages[:(rows+pageRows-1)/pageRows]
	for p := range pages {
		cells := &into.cells[p]
		pages[p].pageCells = cells
		for i := 0; i < pageRows && p*pageRows+i < rows; i++ {
			cells.id[i] = rayid.Task(columns.IDs[(p*pageRows+i)*rayid.TaskSize:])
		}
		copy(cells.times[0][:], chunkOf(columns.Times[0], p))
	}
	if err := r.limits.fill(pages, scanColumns, columns.Scan); err != nil {
		return nil, err
	}
	return pages, r.limits.fill(pages, cellColumns[:LineageCells], columns.Cells[:LineageCells])
}
