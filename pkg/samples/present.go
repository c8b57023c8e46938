package samples

import "iter"

// Present keeps which series targets have, and their values, from the calls to a Visitor.
type Present struct {
	of     [][]int   // the series of each target, in the order they were told
	series []current // by number
}

type current struct {
	value   float64
	present bool
}

// Start begins a new table.
func (p *Present) Start(targets int) {
	clear(p.series)
	p.of = make([][]int, targets)
}

// Add adds a series with the number that the visitor gave it, 0 or above.
func (p *Present) Add(target, number int) {
	for len(p.series) <= number {
		p.series = append(p.series, current{})
	}
	p.of[target] = append(p.of[target], number)
}

// Read applies the changes of a read, and returns the numbers and values of all series that its target has then.
func (p *Present) Read(r *Read) iter.Seq2[int, float64] {
	if r.Failed {
		for _, n := range p.of[r.Target] {
			p.series[n].present = false
		}
	}
	for i, n := range r.Series {
		p.series[n] = current{r.Values[i], true}
	}
	for _, n := range r.Gone {
		p.series[n].present = false
	}
	return func(yield func(int, float64) bool) {
		for _, n := range p.of[r.Target] {
			if s := p.series[n]; s.present && !yield(n, s.value) {
				return
			}
		}
	}
}
