package chunks

import (
	"errors"
	"fmt"
	"os"
)

var (
	// ErrDamaged says that a chunk's content cannot be read.
	ErrDamaged = errors.New("damaged")
	// ErrChanged says that an object was replaced since it was listed.
	ErrChanged = errors.New("the object's size has changed since it was listed")
)

// Changed says whether the cause of an error is that an object was replaced or removed since it was listed.
func Changed(err error) bool { return errors.Is(err, ErrChanged) || errors.Is(err, os.ErrNotExist) }

// Gap is an error of Reader.Read: bytes of the stream are missing before the next ones.
type Gap struct {
	Key string // of the chunk that could not be read, else of the stream
	// From and To are the missing bytes [From, To). To is From if nothing follows in the stream.
	From, To int64
	// Err says what is wrong with the chunk: ErrDamaged, ErrChanged or os.ErrNotExist. It is nil if no chunk holds the
	// bytes.
	Err error
}

// What describes the error, without the key.
func (g *Gap) What() string {
	switch {
	case g.Err == nil:
		return fmt.Sprintf("bytes %d to %d are missing", g.From, g.To-1)
	case errors.Is(g.Err, os.ErrNotExist):
		return "was listed but is gone"
	case errors.Is(g.Err, ErrChanged):
		return "was replaced while it was read"
	}
	return "is " + g.Err.Error()
}

func (g *Gap) Error() string {
	if g.Err == nil {
		return fmt.Sprintf("bytes %d to %d of %s are missing", g.From, g.To-1, g.Key)
	}
	return g.Key + " " + g.What()
}

func (g *Gap) Unwrap() error { return g.Err }
