package verify

import (
	"context"
	"errors"
	"io"

	"github.com/rayhistory/historyserver/pkg/inventory"
)

// stream reads a whole out of its chunks, every byte once. Damage is told; after it a line end is given, so that what follows is not
// taken for the rest of a line that was cut.
type stream struct {
	ctx      context.Context
	verifier *verifier
	whole    *inventory.Whole
	chunks   []inventory.Chunk // those not begun

	at      int64 // of the next byte in the whole
	current inventory.Chunk
	body    io.ReadCloser
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.body == nil {
			if len(s.chunks) == 0 {
				return 0, io.EOF
			}
			gap, err := s.open()
			switch {
			case err != nil:
				return 0, err
			case gap:
				return s.lineEnd(p), nil
			case s.body == nil:
				continue
			}
		}
		n, err := s.body.Read(p)
		s.at += int64(n)
		switch {
		case n > 0:
			return n, nil // an error comes again
		case errors.Is(err, io.EOF):
			s.close()
		case err != nil:
			gap, err := s.blame(err)
			if gap {
				n = s.lineEnd(p)
			}
			return n, err
		}
	}
}

func (s *stream) lineEnd(p []byte) int {
	p[0] = '\n'
	return 1
}

// open begins the next chunk at the byte that is wanted next; gap says that something before it is missing.
func (s *stream) open() (gap bool, err error) {
	s.current, s.chunks = s.chunks[0], s.chunks[1:]
	if s.current.Offset > s.at {
		s.verifier.damaged(s.whole.Key, "bytes %d to %d are missing", s.at, s.current.Offset-1)
		s.at, gap = s.current.Offset, true
	}
	body, err := inventory.Open(s.ctx, s.verifier.store, s.current)
	if err != nil {
		return s.blame(err)
	}
	s.body = body
	_, err = io.CopyN(io.Discard, body, s.at-s.current.Offset)
	switch {
	case errors.Is(err, io.EOF): // all of it was read before
		s.close()
	case err != nil:
		return s.blame(err)
	}
	return gap, nil
}

// blame tells of damage; errors of the store stay errors. What comes before the next chunk is not missed again.
func (s *stream) blame(err error) (gap bool, _ error) {
	switch {
	case inventory.Changed(err):
		s.verifier.damaged(s.current.Object.Key, "was changed or removed while it was read: verify again")
	case errors.Is(err, inventory.ErrDamaged):
		s.verifier.damaged(s.current.Object.Key, "is damaged at byte %d of its content: %v", s.at-s.current.Offset, err)
	default:
		return false, err
	}
	s.close()
	if len(s.chunks) > 0 {
		s.at = max(s.at, s.chunks[0].Offset)
	}
	return true, nil
}

// close ends the current chunk.
func (s *stream) close() {
	if s.current.Object.Key != "" {
		s.verifier.p.Did(1, s.current.Object.Size)
	}
	s.current = inventory.Chunk{}
	if s.body != nil {
		_ = s.body.Close()
		s.body = nil
	}
}
