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
	// Runs are the last ones of the same RayJob, RayService or cluster, the newest last; CostOf is what they cost, as
	// far as that is known.
	Runs   []Run
	CostOf map[layout.Session]float64
	Prices *fleet.Prices // nil: nothing has one
}

func (Compare) template() string { return "compare.html" }

// Address is a path of a side, such as its findings, as seen from the page.
func (p Compare) Address(s *compare.Side, rest string) string {
	return p.Base + strings.TrimPrefix(s.Link, "/") + rest
}

// Metrics is the address of the session's metrics with those of the other one drawn over them.
func (p Compare) Metrics() string {
	return MetricsTab + "?" + url.Values{"with": {p.With.Namespace + "/" + p.With.Cluster + "/" +
		p.With.Session}}.Encode()
}

// JSON is the address of the same as JSON.
func (p Compare) JSON() string {
	form := url.Values{}
	for _, name := range compare.Params {
		if v := p.Form.Get(name); v != "" {
			form.Set(name, v)
		}
	}
	if len(form) == 0 {
		return "api/history/compare"
	}
	return "api/history/compare?" + form.Encode()
}

// compareAddress is the address of the comparison with a run.
func compareAddress(run Run) string {
	return "compare?" + url.Values{"with": {run.Ref.Namespace + "/" + run.Ref.Cluster + "/" + run.Ref.Name}}.Encode()
}

// Suggestion leads to the comparison with a run that began at Start (RFC 3339).
type Suggestion struct {
	Chip
	Start string
}

// Suggested are the comparisons that people ask for first: with the run before, the last one before that succeeded, and
// the run after.
func (p Compare) Suggested() (chips []Suggestion) {
	add := func(name string, run Run) {
		if run.Ref.Name == catalog.Live {
			return // nothing of it is stored
		}
		chips = append(chips, Suggestion{Start: run.Start.UTC().Format(time.RFC3339), Chip: Chip{Name: name,
			Value: run.State(), Link: compareAddress(run), Chosen: p.Report != nil && p.compares(run)}})
	}
	this := slices.IndexFunc(p.Runs, func(run Run) bool { return run.Ref == p.Head.Ref })
	if this < 0 {
		return nil // it is older than the last runs
	}
	for i, run := range slices.Backward(p.Runs[:this]) {
		if i == this-1 {
			add("the run before", run)
		} else if run.State() == catalog.Succeeded {
			add("the last that succeeded", run)
		}
		if run.State() == catalog.Succeeded {
			break
		}
	}
	if this+1 < len(p.Runs) {
		add("the run after", p.Runs[this+1])
	}
	return chips
}

// compares says whether a run is one of the sides.
func (p Compare) compares(run Run) bool {
	return slices.ContainsFunc(p.Sides(), func(s *compare.Side) bool {
		return s.Namespace == run.Ref.Namespace && s.Cluster == run.Ref.Cluster && s.Session == run.Ref.Name
	})
}

// Durations draws how long the last runs took, those that are compared marked; nothing for a single one.
func (p Compare) Durations() BarChart {
	took := func(run Run) (float64, bool) { return run.Duration.Seconds(), true }
	return p.series("How long the last runs took", took, timeStep, human.Seconds)
}

// Costs draws likewise what they cost; nothing if no cost is known.
func (p Compare) Costs() BarChart {
	if len(p.CostOf) == 0 {
		return BarChart{}
	}
	cost := func(run Run) (float64, bool) {
		cost, ok := p.CostOf[run.Ref]
		return cost, ok
	}
	return p.series("What the last runs cost in "+p.Prices.Currency, cost, axisStep, amount)
}

// series draws the value of each of the last runs that has one; write is how a value is written.
func (p Compare) series(label string, value func(Run) (float64, bool), step func(most float64) float64,
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
		if run.Ref == p.Head.Ref {
			bar.Link = p.Base + run.Path + "overview"
		}
		if run.Outcome == catalog.Failed {
			bar.Parts[0].Class = "failed"
		}
		if cost, ok := p.CostOf[run.Ref]; ok {
			bar.Text = money(cost) + " " + p.Prices.Currency + ", " + bar.Text
		}
		bar.Marked = p.compares(run)
		bars[i] = bar
	}
	form := "2 Jan"
	for i, run := range p.Runs[1:] {
		if run.Start.UTC().Format(form) == p.Runs[i].Start.UTC().Format(form) {
			form = "2 Jan 15:04" // several a day
			break
		}
	}
	return barChart(label, bars, func(i int) string { return p.Runs[i].Start.UTC().Format(form) }, 0, step, write)
}

// Sides are both sides, the one compared with first.
func (p Compare) Sides() []*compare.Side { return []*compare.Side{p.With, p.Session} }

// Figure is one row of figures of both sides.
type Figure struct {
	Name                      string
	With, Session, Difference string
	More                      bool // Session has more of what is bad
}

// Figures are the figures of both sides.
func (p Compare) Figures() []Figure {
	a, b := p.With, p.Session
	rows := []Figure{
		seconds("Duration", a.Seconds, b.Seconds),
		count("Attempts of tasks", a.Tasks.Attempts, b.Tasks.Attempts),
		badCount("Failed attempts", a.Tasks.Failed, b.Tasks.Failed),
		badCount("Retries", a.Tasks.Retries, b.Tasks.Retries),
		seconds("Time in tasks", a.Tasks.Total, b.Tasks.Total),
		seconds("Median of a task", a.Tasks.Median, b.Tasks.Median),
		seconds("95 % of tasks within", a.Tasks.P95, b.Tasks.P95),
		count("Nodes", a.Nodes.Count, b.Nodes.Count),
		badCount("Nodes lost", a.Nodes.Lost, b.Nodes.Lost),
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
			continue // clusters without GPUs
		}
		rows = append(rows, hours(h.name+", of the nodes", h.of(a.Asked), h.of(b.Asked)))
		if a.Used == nil && b.Used == nil {
			continue
		}
		used := Figure{Name: h.name + ", used", With: "–", Session: "–"}
		if a.Used != nil && b.Used != nil {
			used = hours(used.Name, h.of(*a.Used), h.of(*b.Used))
		} else if a.Used != nil {
			used.With = amount(h.of(*a.Used))
		} else {
			used.Session = amount(h.of(*b.Used))
		}
		rows = append(rows, used)
	}
	return rows
}

// badCount compares counts of what is bad: more of them is worse.
func badCount(name string, with, session int) Figure {
	f := count(name, with, session)
	f.More = session > with
	return f
}

// count compares counts of the two sides.
func count(name string, with, session int) Figure {
	f := Figure{Name: name, With: formatCount(with), Session: formatCount(session)}
	switch d := session - with; {
	case d > 0:
		f.Difference = "+" + formatCount(d)
	case d < 0:
		f.Difference = "−" + formatCount(-d)
	}
	return f
}

func seconds(name string, with, session float64) Figure {
	return Figure{Name: name, With: human.Seconds(with), Session: human.Seconds(session),
		Difference: signed(session-with, human.Seconds)}
}

func hours(name string, with, session float64) Figure {
	return Figure{Name: name, With: amount(with), Session: amount(session), Difference: signed(session-with, amount)}
}

// amount writes a figure without an exponent: from 1,000 on as a whole number, below a thousandth to a millionth, else
// to three digits.
func amount(v float64) string {
	switch {
	case v >= 999.5:
		return formatCount(int(math.Round(v)))
	case v < 0.001:
		return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// signed writes a difference with its sign; "" for none.
func signed(v float64, write func(float64) string) string {
	switch {
	case math.Abs(v) < 1e-6:
		return ""
	case v < 0:
		return "−" + write(-v)
	}
	return "+" + write(v)
}

// Signed writes a difference in seconds with its sign; "" for none.
func Signed(v float64) string { return signed(v, human.Seconds) }

// sides writes a figure of both sides: "3 → 5", or once where both are the same.
func sides(with, session any) template.HTML {
	a, b := figureText(with), figureText(session)
	if a == b {
		return template.HTML(a)
	}
	return template.HTML(fmt.Sprintf(`%s <span aria-label="to">→</span> %s`, a, b)) // numbers and units only
}

// figureText writes a figure of the template: an int is a count, a float64 seconds.
func figureText(v any) string {
	switch v := v.(type) {
	case int:
		return formatCount(v)
	case float64:
		return human.Seconds(v)
	}
	panic(fmt.Sprintf("%T is neither a count nor seconds", v))
}
