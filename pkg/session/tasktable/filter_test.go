package tasktable

import (
	"errors"
	"slices"
	"testing"
)

// Filters that fail answer as Ray does, which looks at one row after the other.
func TestNarrowFailsAtTheFirstRow(t *testing.T) {
	failAt := func(row int32) (predicate, error) {
		failed := errors.New("a filter's error")
		return eachRow(func(r Row) (bool, error) {
			if r.i == row {
				return false, failed
			}
			return true, nil
		}), failed
	}
	even := eachRow(func(r Row) (bool, error) { return r.i%2 == 0, nil })
	five, atFive := failAt(5)
	two, atTwo := failAt(2)
	for _, test := range []struct {
		name       string
		predicates []predicate
		kept       []uint8
		err        error
	}{
		{"none", []predicate{even}, []uint8{0, 2, 4, 6}, nil},
		{"at 5", []predicate{five, even}, []uint8{0, 2, 4}, atFive},
		{"at 5, which another filter leaves out", []predicate{even, five}, []uint8{0, 2, 4, 6}, nil},
		{"at 5 by the first filter, at 2 by the second", []predicate{five, two}, []uint8{0, 1}, atTwo},
		{"at 2 by the first filter", []predicate{two, five}, []uint8{0, 1}, atTwo},
	} {
		kept, err := narrow(test.predicates, Row{}, []uint8{0, 1, 2, 3, 4, 5, 6})
		if !slices.Equal(kept, test.kept) || err != test.err {
			t.Errorf("%s: %v, %v; want %v, %v", test.name, kept, err, test.kept, test.err)
		}
	}
}
