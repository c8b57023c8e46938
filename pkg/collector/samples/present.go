package samples

import "iter"

// Present keeps which series targets have, and their values, from the calls to a Visitor.
type Present struct {
	of     [][]int   // the series of each target: those that it has, and those told since the last read
	series []current // by number
}

type current struct {
	value   float64
	present bool
	listed  bool // in of
}

// Start begins a new table.
func (p *Present) Start(targets int) {
	p.series, p.of = p.series[:0], make([][]int, targets)
}

// Add adds a series with the number that the visitor gave it, 0 or above. The numbers of a table are new.
func (p *Present) Add(target, number int) {
	for len(p.series) <= number {
		p.series = append(p.series, current{})
	}
	p.list(target, number)
}

func (p *Present) list(target, number int) {
	if s := &p.series[number]; !s.listed {
		s.listed = true
		p.of[target] = append(p.of[target], number)
	}
}

// Read applies the changes of a read, and returns the numbers and values of all series that its target has then.
func (p *Present) Read(r *Read) iter.Seq2[int, float64] {
	if r.Failed {
		for _, n := range p.of[r.Target] {
			p.series[n].present = false
		}
	}
	for i, n := range r.Series {
		p.series[n].value, p.series[n].present = r.Values[i], true
		p.list(r.Target, n)
	}
	for _, n := range r.Ended {
		p.series[n].present = false
	}
	// Only series that are present stay in the list: a read takes time by how many there are, not by how many there
	// were.
	has := p.of[r.Target][:0]
	for _, n := range p.of[r.Target] {
		if s := &p.series[n]; s.present {
			has = append(has, n)
		} else {
			s.listed = false
		}
	}
	p.of[r.Target] = has
	return func(yield func(int, float64) bool) {
		for _, n := range has {
			if !yield(n, p.series[n].value) {
				return
			}
		}
	}
}
