package metrics

import "slices"

// Held counts the memory of what one query found and holds until it ends, in all sessions that it reads. They may take
// together what one session may take alone. Not safe for concurrent use.
type Held struct {
	// Copies is for a query of several sessions: it holds copies of the series, so that only the session that is being
	// read is in memory.
	Copies bool

	bytes int64
}

// Add counts what the caller holds of a database's answer.
func (h *Held) Add(d *Database, bytes int64) error {
	return d.hold(h, func(free *allowance) error { return free.take(bytes) })
}

// hold calls find with the memory that the query may still take, and counts what find took of it. A quarter of what the
// database keeps counts as well: a running query may be the last user of a database that Databases has forgotten, and
// with four such queries this keeps the sum within twice the memory for metrics.
func (d *Database) hold(held *Held, find func(*allowance) error) error {
	left := max(0, d.maxBytes-held.bytes-d.Bytes()/4)
	free := newAllowance(left)
	if err := find(free); err != nil {
		return err
	}
	held.bytes += left - free.left.Load()
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

// heldBytes returns what the series takes besides times and changes.
func (s *Series) heldBytes() int64 {
	return foundBytes + int64(s.labels.ByteSize()) + foundPartBytes*int64(len(s.parts))
}

// copier copies series out of blocks. The copies share the times of a target, as in the blocks.
type copier struct {
	free  *allowance
	times map[*int64][]int64 // copies, by the first of the block's
}

func (c *copier) copy(s *Series) error {
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
