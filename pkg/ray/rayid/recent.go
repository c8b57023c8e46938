package rayid

// Recent parses IDs as ParseBytes does, and remembers the last one: events that follow each other are mostly of one job
// and one node.
type Recent[T ID] struct {
	text [2 * maxSize]byte // how it was written
	size int
	id   T
}

// maxSize is the most bytes that an ID has, which are twice as many hex digits.
const maxSize = 28

// Parse reads an identifier. It keeps nothing of s.
func (r *Recent[T]) Parse(s []byte) (T, error) {
	if len(s) > 0 && string(s) == string(r.text[:r.size]) {
		return r.id, nil
	}
	id, err := ParseBytes[T](s)
	if err == nil {
		r.size, r.id = copy(r.text[:], s), id
	}
	return id, err
}
