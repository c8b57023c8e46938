package web

import "math"

// BarChart is a chart of bars with axes. Places and sizes along its width are in percent of the width, those along its
// height in pixels from the top.
type BarChart struct {
	Label string // what it shows, for those who do not see it
	Bars  []ChartBar
	Lines []AxisLabel // of the values
	Ticks []AxisLabel // below the bars
	Limit *AxisLabel  // a line across, such as a budget
}

// ChartBar is one bar, which leads to what it stands for.
type ChartBar struct {
	Text, Link string
	Marked     bool
	Parts      []BarPart // the lowest one first

	X, Width         float64 // of the bar with the gaps beside it
	PartX, PartWidth float64 // of the bar without them
	TextX            float64
	TextEnds         bool // the text ends at TextX; otherwise it begins there
}

// BarPart is a part of a bar. Class is its class in the style sheet.
type BarPart struct {
	Class     string
	Value     float64
	Y, Height float64
}

// AxisLabel is a text at an axis. At is its place along the axis.
type AxisLabel struct {
	Text  string
	At    float64
	Minor bool // narrow screens leave it out
}

const (
	chartTop, chartBottom = 24.0, 160.0 // of the bars; the text of a bar is above them
	maxTicks              = 8           // labels below the bars
	noLimit               = 0.0         // the limit of a chart that has none
)

// barChart completes bars whose texts, links and values are set: it computes places and sizes, and the labels of the
// axes. tick returns the label below a bar, by the bar's index. step returns the distance between the lines of values
// for the greatest value, write the label of a line. With a limit other than noLimit, a line across the chart shows it.
func barChart(label string, bars []ChartBar, tick func(int) string, limit float64, step func(greatest float64) float64,
	write func(float64) string) BarChart {
	c := BarChart{Label: label, Bars: bars}
	greatest := limit
	for _, bar := range bars {
		sum := 0.0
		for _, part := range bar.Parts {
			sum += part.Value
		}
		greatest = max(greatest, sum)
	}
	every := step(greatest)
	top := every * max(1, math.Ceil(greatest/every)) // the value of the highest line
	height := func(v float64) float64 { return roundTenth(v / top * (chartBottom - chartTop)) }
	for v := 0.0; v <= top+every/2; v += every { // sums of every may be a little above top
		c.Lines = append(c.Lines, AxisLabel{Text: write(v), At: chartBottom - height(v)})
	}
	if limit > noLimit {
		c.Limit = &AxisLabel{Text: write(limit), At: chartBottom - height(limit)}
	}
	const gap = .1                    // on either side of a bar, as a part of its width
	width := 100 / float64(len(bars)) // of a bar with its gaps
	barsPerTick := (len(bars) + maxTicks - 1) / maxTicks
	for n := range bars {
		bar := &bars[n]
		bar.X, bar.Width = roundHundredth(float64(n)*width), roundHundredth(width)
		bar.PartX, bar.PartWidth = roundHundredth((float64(n)+gap)*width), roundHundredth((1-2*gap)*width)
		bar.TextX = bar.X
		if n > len(bars)/2 { // a text that began here could be longer than the rest of the chart's width
			bar.TextX, bar.TextEnds = roundHundredth(bar.X+bar.Width), true
		}
		y := chartBottom
		for i := range bar.Parts {
			part := &bar.Parts[i]
			part.Height = height(part.Value)
			y -= part.Height
			part.Y = roundTenth(y)
		}
		if n%barsPerTick == 0 { // narrow screens leave out every other one
			c.Ticks = append(c.Ticks, AxisLabel{Text: tick(n), At: bar.X, Minor: n/barsPerTick%2 == 1})
		}
	}
	return c
}

// maxLines is how many lines above 0 an axis has at most.
const maxLines = 5

// axisStep returns the distance between the lines of an axis up to the greatest value: 1, 2 or 5 times a power of ten,
// so that there are at most maxLines. If the greatest value is not above 0, it is 1.
func axisStep(greatest float64) float64 {
	if !(greatest > 0) {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(greatest/maxLines)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*scale*maxLines >= greatest {
			return factor * scale
		}
	}
	return 10 * scale
}

// countStep is axisStep for an axis of whole numbers: at least 1.
func countStep(greatest float64) float64 { return max(1, axisStep(greatest)) }

// timeStep returns the distance between the lines of an axis of times up to the greatest one, both in seconds, so that
// there are at most maxLines: a time that people read easily, such as 30 s, 15 min or 6 h. It is a fraction of a second
// if whole seconds would give too few lines, and a number of whole days if 12 hours are too little.
func timeStep(greatest float64) float64 {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	if greatest < maxLines {
		return axisStep(greatest)
	}
	for _, step := range []float64{1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute,
		30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour} {
		if step*maxLines >= greatest {
			return step
		}
	}
	return day * countStep(greatest/day)
}

func roundTenth(v float64) float64     { return math.Round(10*v) / 10 }
func roundHundredth(v float64) float64 { return math.Round(100*v) / 100 }
