package tasktable

import (
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// streamedRows reads the rows of an index group by group, with the columns of LineagePart or RunPart only, and caches
// none. It reads the next group in the background. Pages must be read in order.
type streamedRows struct {
	paged   *pagedRows
	part    Part
	end     int // the first group not to read
	group   int // that pages are of; -1 before the first
	pages   []page
	next    chan streamedGroup
	buffers [2]streamedBuffer
}

// streamedGroup is a group that was read.
type streamedGroup struct {
	pages []page
	err   error
}

// streamedBuffer is the memory for a group's pages.
type streamedBuffer struct {
	pages []page
	cells []pageCells
}

// streamed prepares to read the rows [from, to).
func (r *pagedRows) streamed(part Part, from, to int) *streamedRows {
	k := &streamedRows{paged: r, part: part, group: -1, end: (to + GroupRows - 1) / GroupRows}
	for i := range k.buffers {
		k.buffers[i] = streamedBuffer{make([]page, groupPages), make([]pageCells, groupPages)}
	}
	if from < to {
		k.begin(from / GroupRows)
	}
	return k
}

// begin reads a group in the background. If nobody takes the result, its goroutine still ends.
func (k *streamedRows) begin(group int) {
	done := make(chan streamedGroup, 1)
	k.next = done
	buffer := &k.buffers[group%2]
	go func() {
		var got streamedGroup
		got.err = guarded(group, func() (err error) {
			got.pages, err = k.paged.readPart(k.part, group, buffer)
			return err
		})
		done <- got
	}()
}

// page returns page n. It is valid until a page of another group is read.
func (k *streamedRows) page(n int) *page {
	if group := n / groupPages; group != k.group {
		got := <-k.next
		if k.group, k.pages = group, got.pages; got.err != nil {
			k.paged.fail(got.err)
		}
		if group+1 < k.end {
			k.begin(group + 1)
		}
	}
	if k.pages == nil {
		return failedPage
	}
	return &k.pages[n%groupPages]
}

// readPart reads the columns of LineagePart or RunPart of a group.
func (r *pagedRows) readPart(part Part, group int, into *streamedBuffer) ([]page, error) {
	columns, err := r.source.Columns(group, part)
	if err != nil {
		return nil, err
	}
	rows := r.rowsOf(group)
	if len(columns.Scan) == 0 || len(columns.Cells) < LineageCells || len(columns.Times) < part.Times() ||
		len(columns.IDs) != rows*rayid.TaskSize {
		return nil, fmt.Errorf("%w: columns are missing", ErrDamaged)
	}
	for _, c := range slices.Concat(columns.Scan, columns.Cells[:LineageCells]) {
		if len(c) != rows {
			return nil, fmt.Errorf("%w: a column of %d values, want %d", ErrDamaged, len(c), rows)
		}
	}
	for _, c := range columns.Times {
		if len(c) != rows {
			return nil, fmt.Errorf("%w: a column of %d times, want %d", ErrDamaged, len(c), rows)
		}
	}
	pages := into.pages[:(rows+pageRows-1)/pageRows]
	for p := range pages {
		cells := &into.cells[p]
		pages[p].pageCells = cells
		for i := 0; i < pageRows && p*pageRows+i < rows; i++ {
			cells.id[i] = rayid.Task(columns.IDs[(p*pageRows+i)*rayid.TaskSize:])
		}
		for c := range part.Times() {
			copy(cells.times[c][:], chunkOf(columns.Times[c], p))
		}
	}
	if err := r.limits.fill(pages, scanColumns, columns.Scan); err != nil {
		return nil, err
	}
	return pages, r.limits.fill(pages, cellColumns[:LineageCells], columns.Cells[:LineageCells])
}
