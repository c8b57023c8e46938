// Package progress counts how much of a long task is done, and draws it on a terminal.
package progress

import "sync/atomic"

// Counter counts objects and their stored bytes. Totals grow while the work is found. Safe for concurrent use.
type Counter struct {
	ObjectsTotal, ObjectsDone atomic.Int64
	BytesTotal, BytesDone     atomic.Int64
}

// Expect adds to what there is to do.
func (c *Counter) Expect(objects int, bytes int64) {
	c.ObjectsTotal.Add(int64(objects))
	c.BytesTotal.Add(bytes)
}

// Did adds to what is done.
func (c *Counter) Did(objects int, bytes int64) {
	c.ObjectsDone.Add(int64(objects))
	c.BytesDone.Add(bytes)
}

// fraction is how much is done, 0 to 1: of the bytes if they are counted, else of the objects.
func (c *Counter) fraction() float64 {
	done, total := c.BytesDone.Load(), c.BytesTotal.Load()
	if total == 0 {
		done, total = c.ObjectsDone.Load(), c.ObjectsTotal.Load()
	}
	if total == 0 {
		return 0
	}
	return min(1, float64(done)/float64(total))
}
