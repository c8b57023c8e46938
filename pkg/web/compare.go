package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Compare is the page with two sessions, or two runs of a job, side by side.
type Compare struct {
	Frame
	Form            url.Values            // what was requested
	Nothing         *compare.NothingError // says why there is no report
	*compare.Report                       // nil if there is none
	// Runs are the last sessions of the same RayJob, RayService or cluster, the newest last. CostOf has what they cost;
	// those whose cost is not known are missing.
	Runs   []Run
	CostOf map[layout.Session]float64
	Prices *fleet.Prices // nil: none are configured
}

func (Compare) template() string { return "compare.html" }

// Address is the address, relative to the page, of a page of a side's session, such as its findings.
func (p Compare) Address(s *compare.Side, rest string) string {
	return p.Base + strings.TrimPrefix(s.Link, "/") + rest
}

// Metrics is the address of the page with the session's metrics, and those of the other one drawn over them.
func (p Compare) Metrics() string {
	return MetricsTab + "?" + url.Values{"with": {p.With.Namespace + "/" + p.With.Cluster + "/" +
		p.With.Session}}.Encode()
}

// JSON is the address of the page's comparison as JSON.
func (p Compare) JSON() string {
	return strings.TrimSuffix("api/history/compare?"+setParams(p.Form, compare.Params).Encode(), "?")
}

// compareAddress is the address of the page that compares the page's session with a run.
func compareAddress(run Run) string {
	return "compare?" + url.Values{"with": {run.Ref.Namespace + "/" + run.Ref.Cluster + "/" + run.Ref.Name}}.Encode()
}

// Suggestion is a link to the comparison with a run that began at Start (RFC 3339).
type Suggestion struct {
	Chip
	Start string
}

// Suggested are the comparisons that people ask for first: with the run before, the last one before that succeeded, and
// the run after. p.Runs are in the order of their starts.
func (p Compare) Suggested() (chips []Suggestion) {
	add := func(name string, run Run) {
		if run.Ref.Name == catalog.Live {
			return // nothing of it is stored
		}
		chips = append(chips, Suggestion{Start: run.Start.UTC().Format(time.RFC3339), Chip: Chip{Name: name,
			Value: run.State(), Link: compareAddress(run), Chosen: p.Report != nil && p.isCompared(run)}})
	}
	this := slices.IndexFunc(p.Runs, func(run Run) bool { return run.Ref == p.Head.Ref })
	if this < 0 {
		return nil // it is older than the last runs
	}
	for i, run := range slices.Backward(p.Runs[:this]) {
		succeeded := run.State() == catalog.Succeeded
		if i == this-1 {
			add("the run before", run)
		} else if succeeded {
			add("the last that succeeded", run)
		}
		if succeeded {
			break
		}
	}
	if this+1 < len(p.Runs) {
		add("the run after", p.Runs[this+1])
	}
	return chips
}

func (p Compare) isCompared(run Run) bool {
	return slices.ContainsFunc(p.Sides(), func(s *compare.Side) bool {
		return s.Namespace == run.Ref.Namespace && s.Cluster == run.Ref.Cluster && s.Session == run.Ref.Name
	})
}

// Durations draws how long each of the last runs took, and marks those that are compared. It draws nothing if there is
// only one.
func (p Compare) Durations() BarChart {
	took := func(run Run) (float64, bool) { return run.Duration.Seconds(), true }
	return p.runChart("How long the last runs took", took, timeStep, human.Seconds)
}

// Costs draws what each of the last runs cost, and marks those that are compared. It draws nothing if no cost is known.
func (p Compare) Costs() BarChart {
	if len(p.CostOf) == 0 {
		return BarChart{}
	}
	cost := func(run Run) (float64, bool) {
		cost, ok := p.CostOf[run.Ref]
		return cost, ok
	}
	return p.runChart("What the last runs cost in "+p.Prices.Currency, cost, axisStep, amountText)
}

// runChart makes a chart with a bar for each of p.Runs, which are in the order of their starts; an empty one if there
// is only one run. A bar's height is its value, 0 if that is not known. Its link leads to the comparison of the page's
// session with the run, that of the page's session itself to its overview. Compared runs are marked. step and write are
// those of barChart.
func (p Compare) runChart(label string, value func(Run) (v float64, known bool), step func(greatest float64) float64,
	write func(float64) string) BarChart {
	if len(p.Runs) < 2 {
		return BarChart{}
	}
	bars := make([]ChartBar, len(p.Runs))
	for i, run := range p.Runs {
		bar := ChartBar{Text: run.Text(), Link: compareAddress(run)}
		v, known := value(run)
		if !known {
			bar.Text = "not known, " + bar.Text
		}
		bar.Parts = []BarPart{{Class: "other", Value: v}}
		if run.Ref == p.Head.Ref { // the page's own session, which is not compared with itself
			bar.Link = p.Base + run.Path + "overview"
		}
		if run.Outcome == catalog.Failed {
			bar.Parts[0].Class = "failed"
		}
		if cost, ok := p.CostOf[run.Ref]; ok {
			bar.Text = moneyText(cost) + " " + p.Prices.Currency + ", " + bar.Text
		}
		bar.Marked = p.isCompared(run)
		bars[i] = bar
	}
	form := "2 Jan"
	for i, run := range p.Runs[1:] {
		if run.Start.UTC().Format(form) == p.Runs[i].Start.UTC().Format(form) {
			form = "2 Jan 15:04" // some began on the same day
			break
		}
	}
	tick := func(i int) string { return p.Runs[i].Start.UTC().Format(form) }
	return barChart(label, bars, tick, noLimit, step, write)
}

// Sides are the two sides: first the other session, then the page's.
func (p Compare) Sides() []*compare.Side { return []*compare.Side{p.With, p.Session} }

// Figure is a row of the table of figures: that of the other session, that of the page's, and their difference.
type Figure struct {
	Name                      string
	With, Session, Difference string
	More                      bool // it counts something bad, and the page's session has more of it
}

// Figures are the rows of the table of figures.
func (p Compare) Figures() []Figure {
	a, b := p.With, p.Session // the other session, and the page's
	rows := []Figure{
		secondsFigure("Duration", a.Seconds, b.Seconds),
		countFigure("Attempts of tasks", a.Tasks.Attempts, b.Tasks.Attempts),
		badCountFigure("Failed attempts", a.Tasks.Failed, b.Tasks.Failed),
		badCountFigure("Retries", a.Tasks.Retries, b.Tasks.Retries),
		secondsFigure("Time in tasks", a.Tasks.Total, b.Tasks.Total),
		secondsFigure("Median of a task", a.Tasks.Median, b.Tasks.Median),
		secondsFigure("95 % of tasks within", a.Tasks.P95, b.Tasks.P95),
		countFigure("Nodes", a.Nodes.Count, b.Nodes.Count),
		badCountFigure("Nodes lost", a.Nodes.Lost, b.Nodes.Lost),
	}
	for _, h := range []struct {
		name string
		of   func(compare.Hours) float64
	}{
		{"CPU hours", func(h compare.Hours) float64 { return h.CPU }},
		{"GPU hours", func(h compare.Hours) float64 { return h.GPU }},
		{"GiB hours of memory", func(h compare.Hours) float64 { return h.Memory }},
	} {
		if h.of(a.Asked) == 0 && h.of(b.Asked) == 0 {
			continue // such as GPU hours of clusters without GPUs
		}
		rows = append(rows, hoursFigure(h.name+", of the nodes", h.of(a.Asked), h.of(b.Asked)))
		if a.Used == nil && b.Used == nil {
			continue
		}
		used := Figure{Name: h.name + ", used", With: "–", Session: "–"}
		if a.Used != nil && b.Used != nil {
			used = hoursFigure(used.Name, h.of(*a.Used), h.of(*b.Used))
		} else if a.Used != nil {
			used.With = amountText(h.of(*a.Used))
		} else {
			used.Session = amountText(h.of(*b.Used))
		}
		rows = append(rows, used)
	}
	return rows
}

// badCountFigure is a countFigure of something bad, such as failures.
func badCountFigure(name string, with, session int) Figure {
	f := countFigure(name, with, session)
	f.More = session > with
	return f
}

// countFigure is the row of a number of things.
func countFigure(name string, with, session int) Figure {
	f := Figure{Name: name, With: formatCount(with), Session: formatCount(session)}
	switch d := session - with; {
	case d > 0:
		f.Difference = "+" + formatCount(d)
	case d < 0:
		f.Difference = "−" + formatCount(-d)
	}
	return f
}

// secondsFigure is the row of a time in seconds.
func secondsFigure(name string, with, session float64) Figure {
	return Figure{Name: name, With: human.Seconds(with), Session: human.Seconds(session),
		Difference: signedText(session-with, human.Seconds)}
}

// hoursFigure is the row of a number of hours of a resource.
func hoursFigure(name string, with, session float64) Figure {
	return Figure{Name: name, With: amountText(with), Session: amountText(session),
		Difference: signedText(session-with, amountText)}
}

// amountText writes a number that is not negative, without an exponent: from 1,000 on as a whole number, below 0.001
// rounded to six decimal places, else with three significant digits.
func amountText(v float64) string {
	switch {
	case v >= 999.5:
		return formatCount(int(math.Round(v)))
	case v < 0.001:
		return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// signedText writes a difference with its sign, and its absolute value as write does; "" if it is below a millionth.
func signedText(v float64, write func(float64) string) string {
	switch {
	case math.Abs(v) < 1e-6:
		return ""
	case v < 0:
		return "−" + write(-v)
	}
	return "+" + write(v)
}

// Signed writes a difference in seconds with its sign; "" if it is 0.
func Signed(v float64) string { return signedText(v, human.Seconds) }

// bothSides writes a figure of both sides, "3 → 5", or only "3" if they are written alike.
func bothSides(with, session any) template.HTML {
	a, b := figureText(with), figureText(session)
	if a == b {
		return template.HTML(a)
	}
	// Nothing needs to be escaped: figureText writes only numbers and units.
	return template.HTML(fmt.Sprintf(`%s <span aria-label="to">→</span> %s`, a, b))
}

// figureText writes a figure that a template has: an int as a count, a float64 as seconds. It panics with other types.
func figureText(v any) string {
	switch v := v.(type) {
	case int:
		return formatCount(v)
	case float64:
		if v == 0 { // no attempt finished
			return "–"
		}
		return human.Seconds(v)
	}
	panic(fmt.Sprintf("%T is neither a count nor seconds", v))
}
