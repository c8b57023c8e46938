package bars

import (
	"math"
)

// attempt is an attempt of a task, in pixels.
type attempt struct {
	start, end float64
	group      int
	failed     bool
}

// cells add up attempts by pixel. The last one is past the right edge: only its field whole is used.
type cells []pixel

type pixel struct {
	busy   float32 // the share of the pixel's time that attempts take which begin or end in it
	whole  int32   // by how many more attempts than the pixel before it is taken whole
	tasks  uint32  // that begin in it
	failed uint32
	// group is a group that takes more of the pixel than all others together, if there is one, and lead by how much
	// (Boyer and Moore's vote).
	lead  float32
	group int16
}

func newCells(pixels int) cells { return make(cells, pixels+1) }

// minShare is what an attempt takes of a pixel's votes at least: one that took no time is seen, too.
const minShare = 0.001

// add adds an attempt whose start and end are counted in pixels. It takes the same time however long the attempt is: of
// the pixels between its first and last one only the first and the one behind them are changed, see whole.
func (c cells) add(a attempt) {
	last := len(c) - 2 // the last pixel that is shown
	first, end := max(0, int(a.start)), min(last, int(a.end))
	if first > last || end < 0 {
		return
	}
	if a.start >= 0 { // it began within the drawing
		c[first].tasks++
	}
	if a.failed && int(a.end) <= last { // it ended within it
		c[end].failed++
	}
	share := func(x int) float32 {
		return float32(math.Min(a.end, float64(x+1)) - math.Max(a.start, float64(x)))
	}
	c[first].addShare(share(first), a.group)
	if end == first {
		return
	}
	c[end].addShare(share(end), a.group)
	c[first+1].whole++
	c[end].whole--
}

// addShare adds an attempt of a group that takes a share of the pixel's time, 0 to 1. The pixel gets the colour of the
// group that takes more of it than all others together, if there is one. Boyer and Moore's majority vote finds that
// group with one number, the lead, instead of one for each group: other groups reduce it.
func (p *pixel) addShare(share float32, group int) {
	p.busy += share
	share = max(share, minShare)
	switch {
	case p.lead == 0 || int(p.group) == group:
		p.group = int16(group)
		p.lead += share
	case p.lead < share:
		p.group, p.lead = int16(group), share-p.lead
	default:
		p.lead -= share
	}
}

// list returns the cells in which something ran, each made of so many pixels as width says; neighbours that are alike
// are one cell. numbers has the number that each group has in the answer.
func (c cells) list(numbers []int, width int) []Cell {
	list := []Cell{}
	running := int32(0) // attempts that take the whole pixel
	pixels := len(c) - 1
	for x := 0; x < pixels; x += width {
		cell := Cell{X: x, W: min(width, pixels-x)}
		var lead float32
		group := -1
		for _, p := range c[x : x+cell.W] {
			running += p.whole
			cell.Busy += float64(p.busy) + float64(running)
			cell.Tasks += int(p.tasks)
			cell.Failed += int(p.failed)
			if p.lead > lead {
				lead, group = p.lead, int(p.group)
			}
		}
		if cell.Busy == 0 && cell.Tasks == 0 && cell.Failed == 0 {
			continue
		}
		cell.Busy = math.Round(100*cell.Busy/float64(cell.W)) / 100
		before := len(list) - 1
		touches := before >= 0 && list[before].X+list[before].W == x
		switch {
		case group >= 0:
			cell.Group = numbers[group]
		case touches: // only attempts run here that began before and end later
			cell.Group = list[before].Group
		}
		if touches && cell.Tasks == 0 && cell.Failed == 0 && list[before].Busy == cell.Busy &&
			list[before].Group == cell.Group {
			list[before].W += cell.W
			continue
		}
		list = append(list, cell)
	}
	return list
}
