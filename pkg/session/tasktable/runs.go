package tasktable

import (
	"container/heap"
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/rayhistory/historyserver/internal/guard"
)

// A run is a File with what was known of attempts when memory was full, in the order of a table. Several runs may have
// rows of the same attempt. At the end they are merged to one File, by the rules by which events are merged.

// maxRuns is how many runs are merged at a time. A block of each is in memory then.
const maxRuns = 64

// spill writes the rows to a new run and removes them from memory, a shard at a time. If there are maxRuns then, they
// are merged to one.
func (t *Builder) spill(ctx context.Context) error {
	run, err := newFile()
	if err != nil {
		return err
	}
	table := t.withoutRows()
	for i := range t.shards {
		rows := table.takeShard(t, i)
		for _, n := range rows.order() {
			p, at := rows.row(int(n))
			if err := run.add(table.rowOf(p, at)); err != nil {
				return err
			}
		}
		rows.free()
	}
	if err := run.complete(); err != nil {
		return err
	}
	if t.runs = append(t.runs, run); len(t.runs) < maxRuns {
		return nil
	}
	merged, err := t.merge(ctx, Ends{}) // no ends yet: final states are set when the load ends
	if err != nil {
		return err
	}
	t.runs = []*File{merged}
	return nil
}

// takeShard removes the rows of a shard. They refer to the table's strings and to its arenas of this shard from now on.
func (t *Table) takeShard(from *Builder, i int) shardRows {
	s := &from.shards[i]
	s.mu.Lock()
	rows := s.shardRows
	s.shardRows = shardRows{paused: rows.paused}
	s.mu.Unlock()
	t.strings = from.Strings.View() // the rows may have newer strings than the table
	t.arenas[i] = rows.arenas
	return rows
}

// free gives up pages of rows that were copied.
func (s *shardRows) free() {
	for _, p := range s.pages {
		p.free()
	}
	s.pages = nil
}

// Table makes a table of all rows. They are in memory if there is no run, else in a File.
func (t *Builder) Table(ctx context.Context, ends Ends) (*Table, error) {
	if len(t.runs) == 0 {
		out := t.Freeze()
		out.Finish(ends)
		return out, nil
	}
	if err := t.spill(ctx); err != nil {
		return nil, err
	}
	file, err := t.merge(ctx, ends)
	if err != nil {
		return nil, err
	}
	t.runs = nil
	out := t.Freeze() // no rows are in memory any more
	out.ends, out.logStartsMissing = ends, file.logStartsMissing
	out.rows = storedRows(file, file.rows, file.first, out.limits())
	return out, nil
}

// merging is held while runs are merged, which takes memory that no load accounts for.
var merging = semaphore.NewWeighted(1)

// merge writes the rows of all runs, each of which is in order, to one File in this order: each attempt once, with all
// that the runs have of it, and with the final state that it has if jobs and workers ended as ends says.
func (t *Builder) merge(ctx context.Context, ends Ends) (*File, error) {
	if err := merging.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer merging.Release(1)
	file, err := newFile()
	if err != nil {
		return nil, err
	}
	out := merger{Builder: t, file: file, table: t.withoutRows()}
	out.table.ends = ends
	var runs runHeap
	for _, run := range t.runs {
		c := &cursor{file: run, limits: out.table.limits()}
		if ok, err := c.next(); err != nil {
			return nil, err
		} else if ok {
			runs = append(runs, c)
		}
	}
	heap.Init(&runs)
	for len(runs) > 0 {
		c := runs[0]
		p, i := c.row()
		if err := out.add(ctx, p, i); err != nil {
			return nil, err
		}
		ok, err := c.next()
		switch {
		case err != nil:
			return nil, err
		case ok:
			heap.Fix(&runs, 0)
		default:
			heap.Pop(&runs)
		}
	}
	if err := out.flush(ctx); err != nil {
		return nil, err
	}
	return file, file.complete()
}

// merger merges rows that come in order, and writes them to a file.
type merger struct {
	*Builder
	file  *File
	table *Table // without rows
	rows  shard  // merged and not written yet, in order
}

// add adds row j of page q, which it may change: to the attempt's row if that was added last, since rows come in order,
// otherwise as a new one. When there are enough rows for a block, they are written first.
func (m *merger) add(ctx context.Context, q *page, j int) error {
	s := &m.rows
	if s.n > 0 {
		if p, i := s.row(s.n - 1); p.id[i] == q.id[j] && p.attempt[i] == q.attempt[j] {
			m.mergeRow(s, p, i, q, j)
			return nil
		}
	}
	if s.n == blockRows || s.arenas.memory() >= blockBytes {
		if err := m.flush(ctx); err != nil {
			return err
		}
	}
	p, i := s.add(&q.id[j], q.attempt[j])
	m.mergeRow(s, p, i, q, j)
	return nil
}

// flush writes the rows to the file, with whether a debugger paused them, and clears them.
func (m *merger) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := &m.rows
	for n := range s.n {
		p, i := s.row(n)
		p.arenas = &s.arenas
		if p.flags[i]&hasPaused != 0 {
			m.setPaused(p, i)
		}
		if err := m.file.add(m.table.rowOf(p, i)); err != nil {
			return err
		}
	}
	for _, p := range s.pages {
		p.clear()
	}
	s.n, s.arenas = 0, arenas{}
	return nil
}

// setPaused sets what the latest event says of an attempt, which may be in any run.
func (t *Builder) setPaused(p *page, i int) {
	s := &t.shards[shardOf(&p.id[i])]
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest, known := s.paused[attemptKey{p.id[i], p.attempt[i]}]; known {
		p.flags[i] &^= isPaused
		if latest.paused {
			p.flags[i] |= isPaused
		}
	}
}

// cursor reads the rows of a run one after the other.
type cursor struct {
	file   *File
	limits limits
	block  int // to be read next
	pages  []*page
	// Memory that is used again.
	stored  []byte
	buffer  rowBuffer
	n, rows int // of the block in pages
}

func (c *cursor) row() (*page, int) { return c.pages[c.n>>pageBits], c.n & (pageRows - 1) }

// next goes to the next row, at first to the first one, and reads the next block when needed; ok is false if there is
// no other row.
func (c *cursor) next() (ok bool, err error) {
	if c.n++; c.n < c.rows {
		return true, nil
	}
	if c.block == len(c.file.blocks) {
		return false, nil
	}
	c.n, c.rows, c.block = 0, c.file.blocks[c.block].rows, c.block+1
	return true, guard.CatchPanic("a temporary file of rows", func() error {
		b, stored, err := c.file.readBlock(c.block-1, AllParts, c.stored)
		if c.stored = stored; err == nil {
			c.pages, err = c.limits.decode([]Block{b}, c.rows, AllParts, &c.buffer)
		}
		return err
	})
}

// runHeap has the run with the first row on top.
type runHeap []*cursor

func (h runHeap) Len() int { return len(h) }

// Less orders runs by their next rows.
func (h runHeap) Less(a, b int) bool {
	p, i := h[a].row()
	q, j := h[b].row()
	return compareAttempts(&p.id[i], p.attempt[i], &q.id[j], q.attempt[j]) < 0
}

func (h runHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

func (h *runHeap) Push(c any) { *h = append(*h, c.(*cursor)) }

func (h *runHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
