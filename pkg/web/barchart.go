package web

import "math"

// BarChart is a chart of bars with axes. What lies along the width is in percent of it, heights are in pixels.
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

	X, Width         float64 // with what is left free beside it
	PartX, PartWidth float64
	TextX            float64
	TextEnds         bool // at TextX; otherwise it begins there
}

// BarPart is a part of a bar, of a class of the style sheet.
type BarPart struct {
	Class     string
	Value     float64
	Y, Height float64
}

// AxisLabel is a text at an axis, and where.
type AxisLabel struct {
	Text  string
	At    float64
	Minor bool // left out where there is little room
}

const (
	chartTop, chartBottom = 24.0, 160.0 // above is room for the text of a bar
	maxTicks              = 8
)

// barChart places bars whose texts, links and values are set. tick is what stands below a bar, write how a value is
// written at the axis, step how far its lines are apart, by the greatest value; a limit of 0 is none.
func barChart(label string, bars []ChartBar, tick func(int) string, limit float64, step func(most float64) float64,
	write func(float64) string) BarChart {
	c := BarChart{Label: label, Bars: bars}
	most := limit
	for _, bar := range bars {
		sum := 0.0
		for _, part := range bar.Parts {
			sum += part.Value
		}
		most = max(most, sum)
	}
	every := step(most)
	top := every * max(1, math.Ceil(most/every))
	height := func(v float64) float64 { return tenth(v / top * (chartBottom - chartTop)) }
	for v := 0.0; v <= top+every/2; v += every {
		c.Lines = append(c.Lines, AxisLabel{Text: write(v), At: chartBottom - height(v)})
	}
	if limit > 0 {
		c.Limit = &AxisLabel{Text: write(limit), At: chartBottom - height(limit)}
	}
	width := 100 / float64(len(bars))
	ticked := (len(bars) + maxTicks - 1) / maxTicks
	for n := range bars {
		bar := &bars[n]
		bar.X, bar.Width, bar.TextEnds = hundredth(float64(n)*width), hundredth(width), n > len(bars)/2
		bar.PartX, bar.PartWidth = hundredth((float64(n)+.1)*width), hundredth(.8*width)
		if bar.TextX = bar.X; bar.TextEnds {
			bar.TextX = hundredth(bar.X + bar.Width)
		}
		y := chartBottom
		for i := range bar.Parts {
			part := &bar.Parts[i]
			part.Height = height(part.Value)
			y -= part.Height
			part.Y = tenth(y)
		}
		if n%ticked == 0 {
			c.Ticks = append(c.Ticks, AxisLabel{Text: tick(n), At: bar.X, Minor: n/ticked%2 == 1})
		}
	}
	return c
}

// axisStep returns 1, 2 or 5 times a power of ten, of which at most five make the greatest value.
func axisStep(most float64) float64 {
	if !(most > 0) {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*scale*5 >= most {
			return factor * scale
		}
	}
	return 10 * scale
}

// countStep is likewise a step of whole numbers.
func countStep(most float64) float64 { return max(1, axisStep(most)) }

// timeStep is likewise a step of seconds that people read well, such as 30 s, 15 min or 6 h.
func timeStep(most float64) float64 {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	if most < 5 {
		return axisStep(most)
	}
	for _, step := range []float64{1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute,
		30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour} {
		if step*5 >= most {
			return step
		}
	}
	return day * countStep(most/day)
}

func tenth(v float64) float64     { return math.Round(10*v) / 10 }
func hundredth(v float64) float64 { return math.Round(100*v) / 100 }
