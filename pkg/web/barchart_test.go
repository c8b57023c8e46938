package web

import "testing"

func TestAxisStep(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 1: 1, 3: 1, 5: 1, 6: 2, 10: 2, 11: 5, 26: 10, 2600: 1000, 51: 20} {
		if got := countStep(most); got != want {
			t.Errorf("of %v: %v", most, got)
		}
	}
	if got := axisStep(0.3); got < 0.0999 || got > 0.1001 {
		t.Errorf("of 0.3: %v", got)
	}
}

// TestTimeStep: an axis of times has round ones.
func TestTimeStep(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 2: 0.5, 40: 10, 100: 30, 3000: 600, 100000: 6 * 3600,
		150000: 12 * 3600, 900000: 5 * 86400} {
		if got := timeStep(most); got != want {
			t.Errorf("of %v s: %v", most, got)
		}
	}
}

// TestBarChart: the tallest bar and the limit fit below the highest line, parts lie on each other, and the bars fill
// the width.
func TestBarChart(t *testing.T) {
	bars := []ChartBar{{Parts: []BarPart{{Value: 2}, {Value: 5}}}, {}, {Parts: []BarPart{{Value: 1}}}}
	c := barChart("x", bars, func(int) string { return "day" }, 8, countStep, amount)
	if len(c.Lines) != 5 || c.Lines[4].Text != "8" || c.Lines[4].At != chartTop || c.Lines[0].At != chartBottom ||
		c.Limit == nil || c.Limit.At != chartTop {
		t.Errorf("axis %+v, limit %+v", c.Lines, c.Limit)
	}
	low, high := c.Bars[0].Parts[0], c.Bars[0].Parts[1]
	if low.Y+low.Height != chartBottom || high.Y+high.Height != low.Y || low.Height*5 != high.Height*2 {
		t.Errorf("parts %+v %+v", low, high)
	}
	if last := c.Bars[2]; last.X+last.Width < 99.9 || last.X+last.Width > 100.1 || !last.TextEnds || len(c.Ticks) != 3 {
		t.Errorf("last bar %+v, ticks %+v", last, c.Ticks)
	}
}
