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

// cells add up attempts by pixel.
type cells struct {
	busy   []float32 // the share of the pixel's time that attempts take which begin or end in it
	whole  []int32   // by how many more attempts than the pixel before it is taken whole
	tasks  []uint32  // that begin in it
	failed []uint32
	// group is a group that takes more of the pixel than all others together, if there is one, and lead by how much
	// (Boyer and Moore's vote).
	group []int16
	lead  []float32
}

func newCells(pixels int) *cells {
	return &cells{busy: make([]float32, pixels), whole: make([]int32, pixels+1), tasks: make([]uint32, pixels),
		failed: make([]uint32, pixels), group: make([]int16, pixels), lead: make([]float32, pixels)}
}

// minShare is what an attempt takes of a pixel's votes at least: one that took no time is seen, too.
const minShare = 0.001

// add adds an attempt, however long it is, in the same time.
func (c *cells) add(a attempt) {
	last := len(c.busy) - 1
	first, end := max(0, int(a.start)), min(last, int(a.end))
	if first > last || end < 0 {
		return
	}
	if a.start >= 0 {
		c.tasks[first]++
	}
	if a.failed && int(a.end) <= last {
		c.failed[end]++
	}
	share := func(x int) float32 {
		return float32(math.Min(a.end, float64(x+1)) - math.Max(a.start, float64(x)))
	}
	c.take(first, share(first), a.group)
	if end == first {
		return
	}
	c.take(end, share(end), a.group)
	c.whole[first+1]++
	c.whole[end]--
}

func (c *cells) take(x int, share float32, group int) {
	share = max(0, share)
	c.busy[x] += share
	share = max(share, minShare)
	switch {
	case c.lead[x] == 0 || int(c.group[x]) == group:
		c.group[x] = int16(group)
		c.lead[x] += share
	case c.lead[x] < share:
		c.group[x], c.lead[x] = int16(group), share-c.lead[x]
	default:
		c.lead[x] -= share
	}
}

// list are the cells in which something ran, each of some pixels or of more that are alike.
func (c *cells) list(numbers []int, width int) []Cell {
	list := []Cell{}
	running, pixels := int32(0), len(c.busy)
	for x := 0; x < pixels; x += width {
		cell := Cell{X: x, W: min(width, pixels-x)}
		var lead float32
		group := -1
		for i := x; i < x+cell.W; i++ {
			running += c.whole[i]
			cell.Busy += float64(c.busy[i]) + float64(running)
			cell.Tasks += int(c.tasks[i])
			cell.Failed += int(c.failed[i])
			if c.lead[i] > lead {
				lead, group = c.lead[i], int(c.group[i])
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
		case touches:
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
