package web

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Fleet is the page with the totals over many sessions.
type Fleet struct {
	Frame
	Form    url.Values // what was requested
	Trouble string     // why the figures may be old
	Wrong   Wrong      // instead of figures
	Priced  bool       // there are prices
	Watched bool       // the server knows which clusters are running
	// Beginning says that older sessions are still read.
	Beginning bool
	*fleet.Report
}

func (Fleet) template() string { return "fleet.html" }

// fleetFields are the parameters that have fields.
var fleetFields = []string{"q", "outcome", "kind", "version", "from", "to", "by"}

// setParams are the parameters that are set, for links of the page to the page.
func (p Fleet) setParams() url.Values {
	form := url.Values{}
	for _, set := range paramsOf(p.Form, fleet.Params) {
		form.Set(set.Name, set.Value)
	}
	return form
}

// Hidden are those without a field.
func (p Fleet) Hidden() []Param {
	return slices.DeleteFunc(paramsOf(p.Form, fleet.Params),
		func(param Param) bool { return slices.Contains(fleetFields, param.Name) })
}

// Narrowed says whether not all sessions of the days count.
func (p Fleet) Narrowed() bool {
	form := p.setParams()
	for _, name := range []string{"from", "to", "by", "top"} {
		form.Del(name)
	}
	return len(form) > 0
}

// Data is the address of the same as JSON or, for a table, as CSV.
func (p Fleet) Data(table string) string {
	form := p.setParams()
	if table != "" {
		form.Del("top") // all rows
		form.Set("format", "csv")
		form.Set("table", table)
	}
	return p.Base + "api/history/fleet?" + form.Encode()
}

// List is the address of the list of the page's sessions, narrowed by further parameters: names and values. Further
// words are looked for beside others.
func (p Fleet) List(more ...string) string {
	form := p.setParams()
	form.Del("by")
	form.Del("top")
	form.Set("from", p.Began("from"))
	form.Set("to", p.Began("to"))
	for i := 0; i+1 < len(more); i += 2 {
		if more[i] == "q" {
			more[i+1] = strings.TrimSpace(form.Get("q") + " " + more[i+1])
		}
		form.Set(more[i], more[i+1])
	}
	return p.Base + "homepage?" + form.Encode()
}

// Began is the parameter from or to: what was given, or else the day that is meant.
func (p Fleet) Began(name string) string {
	return cmp.Or(p.Form.Get(name), map[string]string{"from": p.From, "to": p.To}[name])
}

// Span is how many days there are: "30 days".
func (p Fleet) Span() string {
	return human.Count(int(dayOf(p.To).Sub(dayOf(p.From)).Hours()/24)+1, "day")
}

// Day is the address of the list of a day's sessions.
func (p Fleet) Day(day string) string { return p.List("from", day, "to", day) }

// Address is a path of a session, such as its findings, as seen from the page.
func (p Fleet) Address(place fleet.Place, rest string) string {
	ref := layout.Session{Namespace: place.Namespace, Cluster: place.Cluster, Name: place.Session}
	return p.Base + ref.Path() + rest
}

// Resources are those that tables can be ranked by.
func (p Fleet) Resources() []fleet.Figure { return fleet.Figures(p.Priced) }

// figures are those that the page shows: without GPUs none of them.
func (p Fleet) figures() []fleet.Figure {
	return slices.DeleteFunc(p.Resources(),
		func(f fleet.Figure) bool { return f.By == "gpu" && !(p.Total.Hours.GPU.Offered > 0) })
}

// written writes a figure of hours.
func written(f fleet.Figure, v float64) string {
	if f.By == fleet.ByCost {
		return money(v)
	}
	return amount(v)
}

// money writes an amount of money without its currency.
func money(v float64) string {
	if v >= 1000 {
		return formatCount(int(math.Round(v)))
	}
	if v > 0 && v < 0.005 {
		return "< 0.01"
	}
	return fmt.Sprintf("%.2f", v)
}

// Budgets says whether one of the namespaces has a budget.
func (p Fleet) Budgets() bool {
	return slices.ContainsFunc(p.Namespaces, func(u fleet.Usage) bool { return u.Budget > 0 })
}

// OfBudget is what a namespace costs in percent of its budget.
func (p Fleet) OfBudget(u fleet.Usage) string { return percentage(100 * u.Hours.Cost / u.Budget) }

// Over says whether a namespace costs more than its budget.
func (p Fleet) Over(u fleet.Usage) bool { return u.Hours.Cost > u.Budget }

// share writes a share in percent.
func share(v *float64) string {
	if v == nil {
		return "–"
	}
	return percentage(100 * *v)
}

func percentage(v float64) string { return fmt.Sprintf("%.0f %%", math.Floor(v+0.5)) }

// Ends counts the sessions that did not fail by how they ended.
func (p Fleet) Ends() string {
	var parts []string
	for outcome, n := range p.Total.Each() {
		if n > 0 && outcome != catalog.Failed {
			parts = append(parts, formatCount(n)+" "+outcome)
		}
	}
	return strings.Join(parts, ", ")
}

// WithOutcome is how many ended sessions have an outcome that says how their jobs ended.
func (p Fleet) WithOutcome() int {
	return p.Total.Sessions - p.Total.Running - p.Total.Unknown - p.Total.NotYet
}

// FailedShare is the percentage of these that failed.
func (p Fleet) FailedShare() float64 { return p.Part(p.Total.Failed, p.WithOutcome()) }

// AllKnown says that there are ended sessions, and how each of them ended is known.
func (p Fleet) AllKnown() bool { return p.WithOutcome() > 0 && p.Total.Unknown+p.Total.NotYet == 0 }

// Part is a part of a whole in percent.
func (Fleet) Part(part, whole int) float64 { return part100(float64(part), float64(whole)) }

// PartOf is likewise of what the tables are ranked by.
func (p Fleet) PartOf(part, whole fleet.Hours) float64 {
	return part100(part.Of(p.By), whole.Of(p.By))
}

func part100(part, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return tenth(100 * min(1, part/whole))
}

// FleetTile is one of the figures at the top.
type FleetTile struct {
	Title, Amount string
	Change        string  // from the time before; "" if that is not known
	Known         bool    // what was used
	Used          float64 // percent of what is known of
	Unused        string
}

// Tiles are the hours of all sessions.
func (p Fleet) Tiles() (tiles []FleetTile) {
	for _, f := range p.figures() {
		now, use := f.Of(&p.Total.Hours)
		tile := FleetTile{Title: f.Title, Amount: written(f, now)}
		if f.By == fleet.ByCost {
			tile.Title += " in " + p.Currency
		}
		if use != nil {
			tile.Known, tile.Used, tile.Unused = use.Unused != nil, part100(use.Used, use.Measured), share(use.Unused)
		}
		if p.Before != nil {
			tile.Change = human.Change(now, p.Before.Total.Hours.Of(f.By))
		}
		tiles = append(tiles, tile)
	}
	return tiles
}

// FleetColumn is the head of a column of hours.
type FleetColumn struct {
	Title, Link, Order string
	Unused             bool // another one follows with what was not used
}

// HourColumns are the columns with hours and cost, each with a link that sorts by it.
func (p Fleet) HourColumns() (columns []FleetColumn) {
	for _, f := range p.figures() {
		form := p.setParams()
		form.Set("by", f.By)
		_, use := f.Of(&p.Total.Hours)
		column := FleetColumn{Title: cmp.Or(f.Head, p.Currency), Link: "?" + form.Encode(), Order: "none",
			Unused: use != nil}
		if f.By == p.By {
			column.Order = "descending"
		}
		columns = append(columns, column)
	}
	return columns
}

// HourCells are the cells of a row below HourColumns.
func (p Fleet) HourCells(h fleet.Hours) (cells []string) {
	for _, f := range p.figures() {
		v, use := f.Of(&h)
		cells = append(cells, written(f, v))
		if use != nil {
			cells = append(cells, share(use.Unused))
		}
	}
	return cells
}

// maxBars is how many bars a chart has: more days than that are drawn together.
const maxBars = 366

// Chart draws every day that was requested, also those without sessions; nothing if none has any.
func (p Fleet) Chart() BarChart {
	if len(p.Report.Days) == 0 {
		return BarChart{}
	}
	spans := p.spans()
	bars := make([]ChartBar, len(spans))
	for i, span := range spans {
		sum := fleet.Counts{}
		for _, d := range span.days {
			sum.Sessions += d.Sessions
			sum.Failed += d.Failed
		}
		bars[i] = ChartBar{Link: p.List("from", span.from, "to", span.to),
			Text: fmt.Sprintf("%s: %s, %s failed", span.name(), human.Count(sum.Sessions, "session"),
				formatCount(sum.Failed)),
			Parts: []BarPart{{Class: catalog.Failed, Value: float64(sum.Failed)},
				{Class: "other", Value: float64(sum.Sessions - sum.Failed)}}}
	}
	return barChart(fmt.Sprintf("Sessions and failures by day, %s to %s; the table below has the figures", p.From, p.To),
		bars, func(i int) string { return spans[i].tick }, 0, countStep, amount)
}

// CostChart draws what the sessions cost that began on each day, and their namespaces' budget if each has one.
func (p Fleet) CostChart() BarChart {
	if !p.Priced || p.Total.Hours.Cost == 0 {
		return BarChart{}
	}
	spans := p.spans()
	bars := make([]ChartBar, len(spans))
	for i, span := range spans {
		sum := 0.0
		for _, d := range span.days {
			sum += d.Cost
		}
		bars[i] = ChartBar{Link: p.List("from", span.from, "to", span.to),
			Text:  fmt.Sprintf("%s: %s %s", span.name(), money(sum), p.Currency),
			Parts: []BarPart{{Class: "other", Value: sum}}}
	}
	return barChart(fmt.Sprintf("Cost by day in %s, %s to %s", p.Currency, p.From, p.To), bars,
		func(i int) string { return spans[i].tick }, p.Report.Budget/float64(len(spans)), axisStep, amount)
}

// fleetSpan is what one bar shows: a day, or some.
type fleetSpan struct {
	from, to string
	tick     string
	days     []fleet.Day // those that the report has
}

func (s fleetSpan) name() string {
	if s.from == s.to {
		return s.from
	}
	return s.from + " to " + s.to
}

// spans divide the requested days.
func (p Fleet) spans() []fleetSpan {
	first, last := dayOf(p.From), dayOf(p.To)
	number := func(day time.Time) int { return int(day.Sub(first).Hours() / 24) }
	days := number(last) + 1
	each := (days + maxBars - 1) / maxBars
	spans := make([]fleetSpan, (days+each-1)/each)
	for i := range spans {
		from := first.AddDate(0, 0, i*each)
		to := from.AddDate(0, 0, each-1)
		if to.After(last) {
			to = last
		}
		spans[i] = fleetSpan{from: from.Format(time.DateOnly), to: to.Format(time.DateOnly), tick: from.Format("2 Jan")}
		if days > maxBars {
			spans[i].tick = from.Format("Jan 2006")
		}
	}
	for _, d := range p.Report.Days {
		if n := number(dayOf(d.Day)); n >= 0 && n < days {
			spans[n/each].days = append(spans[n/each].days, d)
		}
	}
	return spans
}

func dayOf(day string) time.Time {
	t, _ := time.Parse(time.DateOnly, day)
	return t
}

// FleetTable is a table's name and what it is called.
type FleetTable struct {
	Page        Fleet
	Table, Name string
}

// Table is for the templates of what stands around a table.
func (p Fleet) Table(table, name string) FleetTable { return FleetTable{p, table, name} }
