package inventory

import "sync/atomic"

// Progress tells how far a command is with a session. All of it may be read while the command runs.
type Progress struct {
	ObjectsTotal, ObjectsDone atomic.Int64
	BytesTotal, BytesDone     atomic.Int64 // as stored
}

// Expect adds to what there is to do.
func (p *Progress) Expect(objects int, bytes int64) {
	p.ObjectsTotal.Add(int64(objects))
	p.BytesTotal.Add(bytes)
}

// Did adds to what is done.
func (p *Progress) Did(objects int, bytes int64) {
	p.ObjectsDone.Add(int64(objects))
	p.BytesDone.Add(bytes)
}
