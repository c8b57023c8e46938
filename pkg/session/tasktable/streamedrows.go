package tasktable

// streamedRows reads the rows of an index group by group, with the columns of a part only, and caches none. It reads
// the next group in the background. Pages must be read in order.
type streamedRows struct {
	paged   *pagedRows
	part    Part
	end     int // the first group not to read
	group   int // that pages are of; -1 before the first
	pages   []page
	next    chan streamedGroup
	buffers [2]rowBuffer
}

// streamedGroup is a group that was read.
type streamedGroup struct {
	pages []page
	err   error
}

// streamed prepares to read the rows [from, to).
func (r *pagedRows) streamed(part Part, from, to int) *streamedRows {
	k := &streamedRows{paged: r, part: part, group: -1, end: (to + GroupRows - 1) / GroupRows}
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
		got.pages, got.err = k.paged.fetch(group, k.part, buffer)
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
