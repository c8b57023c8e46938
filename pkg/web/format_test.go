package web

import (
	"slices"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestFormats(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		says.Equal(t, formatCount(n), want, "%d", n)
	}
	for v, want := range map[float64]string{0: "0", 6.94e-05: "0.000069", 0.00123: "0.00123", 0.5: "0.5", 12.345: "12.3",
		999.4: "999", 1234.5: "1,235"} {
		says.Equal(t, amountText(v), want, "%g", v)
	}
	says.True(t, percent(1, 0) == 0 && percent(1, 4) == 25 && percent(9, 4) == 100, "percent")
}

func TestPager(t *testing.T) {
	for _, tc := range []struct {
		p    Pager
		want []int
		prev int
		next int
	}{
		{Pager{Page: 1, Pages: 1}, []int{1}, 0, 0},
		{Pager{Page: 1, Pages: 9}, []int{1, 2, 3, 0, 9}, 0, 2},
		{Pager{Page: 5, Pages: 9}, []int{1, 0, 3, 4, 5, 6, 7, 0, 9}, 4, 6},
		{Pager{Page: 9, Pages: 9}, []int{1, 0, 7, 8, 9}, 8, 0},
	} {
		if got := tc.p.Numbers(); !slices.Equal(got, tc.want) || tc.p.Previous() != tc.prev || tc.p.Next() != tc.next {
			t.Errorf("%+v: %v, %d, %d", tc.p, got, tc.p.Previous(), tc.p.Next())
		}
	}
}

// TestAround: a page of the time around a failure has the failure, also one after the end, by a clock that was ahead.
func TestAround(t *testing.T) {
	ended := time.Unix(10_000, 0)
	h := Head{Start: time.Unix(1000, 0), End: ended}
	for ago, want := range map[time.Duration]string{
		time.Hour: "logs?from=6100000&to=6700000", time.Minute: "logs?from=9640000&to=10000000",
		-2 * time.Minute: "logs?from=9820000&to=10420000",
	} {
		says.Equal(t, h.Around("logs", ended.Add(-ago)), want, "%s before the end", ago)
	}
}

// TestMomentTime: a page knows its moment in every form that an address may have it in.
func TestMomentTime(t *testing.T) {
	want := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC)
	for _, moment := range []string{"2026-11-20T23:20:00Z", "1795216800000", "2026-11-20%2023:20Z",
		"2026-11-21T00:20:00%2B01:00"} {
		says.True(t, Head{Moment: moment}.MomentTime().Equal(want), "%s", moment)
	}
	says.True(t, Head{}.MomentTime().IsZero(), "the end")
}

func TestAxisStep(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 1: 1, 3: 1, 5: 1, 6: 2, 10: 2, 11: 5, 26: 10, 2600: 1000, 51: 20} {
		says.Equal(t, countStep(most), want, "of %v", most)
	}
	got := axisStep(0.3)
	says.True(t, got >= 0.0999 && got <= 0.1001, "of 0.3: %v", got)
}

// TestTimeStep: an axis of times has round ones.
func TestTimeStep(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 2: 0.5, 40: 10, 100: 30, 3000: 600, 100000: 6 * 3600,
		150000: 12 * 3600, 900000: 5 * 86400} {
		says.Equal(t, timeStep(most), want, "of %v s", most)
	}
}

// TestBarChart: the tallest bar and the limit fit below the highest line, parts lie on each other, and the bars fill
// the width.
func TestBarChart(t *testing.T) {
	bars := []ChartBar{{Parts: []BarPart{{Value: 2}, {Value: 5}}}, {}, {Parts: []BarPart{{Value: 1}}}}
	c := barChart("x", bars, func(int) string { return "day" }, 8, countStep, amountText)
	if len(c.Lines) != 5 || c.Lines[4].Text != "8" || c.Lines[4].At != chartTop || c.Lines[0].At != chartBottom ||
		c.Limit == nil || c.Limit.At != chartTop {
		t.Errorf("axis %+v, limit %+v", c.Lines, c.Limit)
	}
	low, high := c.Bars[0].Parts[0], c.Bars[0].Parts[1]
	says.True(t, low.Y+low.Height == chartBottom && high.Y+high.Height == low.Y && low.Height*5 == high.Height*2,
		"parts %+v %+v", low, high)
	if last := c.Bars[2]; last.X+last.Width < 99.9 || last.X+last.Width > 100.1 || !last.TextEnds || len(c.Ticks) != 3 {
		t.Errorf("last bar %+v, ticks %+v", last, c.Ticks)
	}
}
