package metrics

import (
	"slices"
	"sync/atomic"
)

// QueryMemory counts the memory of the series that one query has found, in all sessions that it reads, until it ends.
// Together they may take as much as one session may take alone. Not safe for concurrent use.
type QueryMemory struct {
	// Copies is for a query of several sessions: it holds copies of the series, so that only the session that is being
	// read is in memory.
	Copies bool

	bytes int64
}

// Add counts what the caller has made of a database's answer and uses until the query ends.
func (h *QueryMemory) Add(d *Database, bytes int64) error {
	return d.withQueryMemory(h, func(free *allowance) error { return free.take(bytes) })
}

// withQueryMemory calls find with the memory that the query may still take, and counts what find took of it. A quarter
// of what the database keeps counts as well: a running query may be the last user of a database that Databases has
// forgotten, and with four such queries this keeps the sum within twice the memory for metrics.
func (d *Database) withQueryMemory(memory *QueryMemory, find func(*allowance) error) error {
	left := max(0, d.maxBytes-memory.bytes-d.Bytes()/4)
	free := newAllowance(left)
	if err := find(free); err != nil {
		return err
	}
	memory.bytes += left - free.left.Load()
	return nil
}

const (
	// foundBytes and foundPartBytes are about what a found series takes besides its labels, and each of its parts
	// besides times and changes.
	foundBytes     = 160
	foundPartBytes = 96
	// blockChangeBytes is what a change takes in a block.
	blockChangeBytes = 10
)

// memoryBytes returns what the series takes besides times and changes.
func (s *Series) memoryBytes() int64 {
	return foundBytes + int64(s.labels.ByteSize()) + foundPartBytes*int64(len(s.parts))
}

// copier copies series out of blocks, so that a block's memory can be freed while a query still uses its series. The
// copies share the times of a target, as in the blocks.
type copier struct {
	free  *allowance
	times map[*int64][]int64 // copies, by the address of the first time: a target has one array in a block
}

// copySeries replaces what a series' parts refer to by copies, which take memory from c.free. Parts with the same times
// share one copy of them. A part has one time at least. After an error, which is ErrTooMuch, s must not be used.
func (c *copier) copySeries(s *Series) error {
	for i := range s.parts {
		p := &s.parts[i]
		times, copied := c.times[&p.times[0]]
		bytes := blockChangeBytes * int64(len(p.at))
		if !copied {
			bytes += timeBytes * int64(len(p.times))
		}
		if err := c.free.take(bytes); err != nil {
			return err
		}
		if !copied {
			times = slices.Clone(p.times)
			c.times[&p.times[0]] = times
		}
		p.times, p.at, p.values = times, slices.Clone(p.at), slices.Clone(p.values)
	}
	return nil
}

// allowance is memory that may still be taken, in bytes. Safe for concurrent use.
type allowance struct{ left atomic.Int64 }

func newAllowance(bytes int64) *allowance {
	a := &allowance{}
	a.left.Store(bytes)
	return a
}

// take takes memory. If there is not enough, nothing is taken, and the error is ErrTooMuch.
func (a *allowance) take(bytes int64) error {
	if bytes < 0 || a.left.Add(-bytes) < 0 {
		a.left.Add(max(0, bytes))
		return ErrTooMuch
	}
	return nil
}

func (a *allowance) giveBack(bytes int64) { a.left.Add(bytes) }
