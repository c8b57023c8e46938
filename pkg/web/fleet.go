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
	Wrong   Wrong      // a parameter that cannot be read; the page has no figures then
	Priced  bool       // prices are configured
	Watched bool       // the server knows which clusters are running
	// Beginning says that older sessions are still read.
	Beginning bool
	*fleet.Report
}

func (Fleet) template() string { return "fleet.html" }

// fleetFields are the parameters that have fields in the page's form.
var fleetFields = []string{"q", "outcome", "kind", "version", "from", "to", "by"}

// setParams are the parameters of the page that are set, as a copy.
func (p Fleet) setParams() url.Values { return setParams(p.Form, fleet.Params) }

// Hidden are the parameters that are set and have no field in the form.
func (p Fleet) Hidden() []Param {
	return slices.DeleteFunc(paramsOf(p.Form, fleet.Params),
		func(param Param) bool { return slices.Contains(fleetFields, param.Name) })
}

// Narrowed says whether the query filters the sessions of the requested days.
func (p Fleet) Narrowed() bool {
	form := setParams(p.Form, catalog.FilterParams)
	form.Del("from")
	form.Del("to")
	return len(form) > 0
}

// Data is the address of the page's figures as JSON or, if a table is named, of all rows of the table as CSV.
func (p Fleet) Data(table string) string {
	form := p.setParams()
	if table != "" {
		form.Del("top") // it limits the rows
		form.Set("format", "csv")
		form.Set("table", table)
	}
	return p.Base + "api/history/fleet?" + form.Encode()
}

// List is the address of the list with the sessions that the page counts, filtered further by the parameters more:
// names and values in turn. Words for a search (q) are added to those of the page.
func (p Fleet) List(more ...string) string {
	form := setParams(p.Form, catalog.FilterParams)
	form.Set("from", p.DateParam("from"))
	form.Set("to", p.DateParam("to"))
	for i := 0; i+1 < len(more); i += 2 {
		name, value := more[i], more[i+1]
		if name == "q" {
			value = strings.TrimSpace(form.Get("q") + " " + value)
		}
		form.Set(name, value)
	}
	return p.Base + "homepage?" + form.Encode()
}

// DateParam is the value of the parameter "from" or "to": the one in the page's query, else the day of the report.
func (p Fleet) DateParam(name string) string {
	return cmp.Or(p.Form.Get(name), map[string]string{"from": p.From, "to": p.To}[name])
}

// DayCount says how many days the report has, such as "30 days".
func (p Fleet) DayCount() string {
	return human.Count(int(dayOf(p.To).Sub(dayOf(p.From)).Hours()/24)+1, "day")
}

// Day is the address of the list of a day's sessions.
func (p Fleet) Day(day string) string { return p.List("from", day, "to", day) }

// Address is the address, relative to the page, of a page of a session, such as its findings.
func (p Fleet) Address(place fleet.Place, rest string) string {
	ref := layout.Session{Namespace: place.Namespace, Cluster: place.Cluster, Name: place.Session}
	return p.Base + ref.Path() + rest
}

// Resources are the figures by which the tables can be ranked.
func (p Fleet) Resources() []fleet.Figure { return fleet.Figures(p.Priced) }

// figures are the figures that the page shows: all of Resources, but GPU hours only if there were GPUs.
func (p Fleet) figures() []fleet.Figure {
	return slices.DeleteFunc(p.Resources(),
		func(f fleet.Figure) bool { return f.By == "gpu" && !(p.Total.Hours.GPU.Offered > 0) })
}

// formatHours writes a figure: hours of a resource, or what they cost.
func formatHours(f fleet.Figure, v float64) string {
	if f.By == fleet.ByCost {
		return moneyText(v)
	}
	return amountText(v)
}

// moneyText writes an amount of money without its currency.
func moneyText(v float64) string {
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

// OfBudget says what a namespace cost in percent of its budget.
func (p Fleet) OfBudget(u fleet.Usage) string { return percentText(100 * u.Hours.Cost / u.Budget) }

// OverBudget says whether a namespace cost more than its budget.
func (p Fleet) OverBudget(u fleet.Usage) bool { return u.Hours.Cost > u.Budget }

// shareText writes a share, from 0 to 1, in percent; "–" if it is nil, which is not known.
func shareText(v *float64) string {
	if v == nil {
		return "–"
	}
	return percentText(100 * *v)
}

// percentText writes a number of percent, rounded.
func percentText(v float64) string { return fmt.Sprintf("%.0f %%", math.Floor(v+0.5)) }

// OtherOutcomes counts the sessions that did not fail, by outcome, such as "12 succeeded, 3 stopped".
func (p Fleet) OtherOutcomes() string {
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

// FailedShare is how many of the sessions of WithOutcome failed, in percent.
func (p Fleet) FailedShare() float64 { return p.Percent(p.Total.Failed, p.WithOutcome()) }

// AllKnown says that there are ended sessions, and that the outcome of each of them is known.
func (p Fleet) AllKnown() bool { return p.WithOutcome() > 0 && p.Total.Unknown+p.Total.NotYet == 0 }

// Percent is how many percent of a number another one is.
func (Fleet) Percent(part, whole int) float64 { return percentOf(float64(part), float64(whole)) }

// HoursPercent is how many percent of some hours others are, by the figure that the tables are ranked by.
func (p Fleet) HoursPercent(part, whole fleet.Hours) float64 {
	return percentOf(part.Of(p.By), whole.Of(p.By))
}

// percentOf is a part of a whole in percent, at most 100; 0 if the whole is not above 0.
func percentOf(part, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return roundTenth(100 * min(1, part/whole))
}

// FleetTile is one of the figures at the top.
type FleetTile struct {
	Title, Amount string
	Change        string  // from the days before; "" if that is not known
	Known         bool    // Used and Unused are known
	Used          float64 // in percent of the hours that were measured
	Unused        string
}

// Tiles are the hours of each resource, and the cost, of all sessions.
func (p Fleet) Tiles() (tiles []FleetTile) {
	for _, f := range p.figures() {
		now, use := f.Of(&p.Total.Hours) // use is nil for figures that are not used, such as cost
		tile := FleetTile{Title: f.Title, Amount: formatHours(f, now)}
		if f.By == fleet.ByCost {
			tile.Title += " in " + p.Currency
		}
		if use != nil {
			tile.Known, tile.Unused = use.Unused != nil, shareText(use.Unused)
			tile.Used = percentOf(use.Used, use.Measured)
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
	Unused             bool // another column follows, with the share that was not used
}

// HourColumns are the columns with hours and cost. Each has a link that ranks the tables by it.
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

// HourCells are the cells of a table's row below HourColumns.
func (p Fleet) HourCells(h fleet.Hours) (cells []string) {
	for _, f := range p.figures() {
		v, use := f.Of(&h)
		cells = append(cells, formatHours(f, v))
		if use != nil {
			cells = append(cells, shareText(use.Unused))
		}
	}
	return cells
}

// maxBars is how many bars a chart has at most. If there are more days, a bar stands for several.
const maxBars = 366

// Chart draws the sessions and failures of each requested day, also of days without sessions. It draws nothing if no
// day has a session.
func (p Fleet) Chart() BarChart {
	if len(p.Report.Days) == 0 {
		return BarChart{}
	}
	label := fmt.Sprintf("Sessions and failures by day, %s to %s; the table below has the figures", p.From, p.To)
	return p.dayChart(label, noLimit, countStep, func(days []fleet.Day) (text string, parts []BarPart) {
		sum := fleet.Counts{}
		for _, d := range days {
			sum.Sessions += d.Sessions
			sum.Failed += d.Failed
		}
		return human.Count(sum.Sessions, "session") + ", " + formatCount(sum.Failed) + " failed",
			[]BarPart{{Class: catalog.Failed, Value: float64(sum.Failed)},
				{Class: "other", Value: float64(sum.Sessions - sum.Failed)}}
	})
}

// dayChart draws a bar for each day, or for several days together. bar says what the bar of some days shows. A line
// shows limit, divided by the number of bars.
func (p Fleet) dayChart(label string, limit float64, step func(greatest float64) float64,
	bar func(days []fleet.Day) (text string, parts []BarPart)) BarChart {
	spans := p.spans()
	bars := make([]ChartBar, len(spans))
	for i, span := range spans {
		text, parts := bar(span.days)
		bars[i] = ChartBar{Link: p.List("from", span.from, "to", span.to), Text: span.name() + ": " + text, Parts: parts}
	}
	tick := func(i int) string { return spans[i].tick }
	return barChart(label, bars, tick, limit/float64(len(spans)), step, amountText)
}

// CostChart draws what the sessions cost that began on each requested day. A line shows the report's budget, if it has
// one, divided by the number of bars. It draws nothing without prices or cost.
func (p Fleet) CostChart() BarChart {
	if !p.Priced || p.Total.Hours.Cost == 0 {
		return BarChart{}
	}
	label := fmt.Sprintf("Cost by day in %s, %s to %s", p.Currency, p.From, p.To)
	return p.dayChart(label, p.Report.Budget, axisStep, func(days []fleet.Day) (text string, parts []BarPart) {
		sum := 0.0
		for _, d := range days {
			sum += d.Cost
		}
		return moneyText(sum) + " " + p.Currency, []BarPart{{Class: "other", Value: sum}}
	})
}

// fleetSpan is the day, or the days, that one bar stands for.
type fleetSpan struct {
	from, to string      // the first and the last day, as 2006-01-02
	tick     string      // the label below the bar
	days     []fleet.Day // of these, those that the report has
}

// name is the day, or the first and the last day.
func (s fleetSpan) name() string {
	if s.from == s.to {
		return s.from
	}
	return s.from + " to " + s.to
}

// spans divides the requested days into spans of equally many days, at most maxBars of them.
func (p Fleet) spans() []fleetSpan {
	first, last := dayOf(p.From), dayOf(p.To)
	indexOf := func(day time.Time) int { return int(day.Sub(first).Hours() / 24) }
	days := indexOf(last) + 1
	perSpan := (days + maxBars - 1) / maxBars
	spans := make([]fleetSpan, (days+perSpan-1)/perSpan)
	for i := range spans {
		from := first.AddDate(0, 0, i*perSpan)
		to := from.AddDate(0, 0, perSpan-1)
		if to.After(last) {
			to = last
		}
		spans[i] = fleetSpan{from: from.Format(time.DateOnly), to: to.Format(time.DateOnly), tick: from.Format("2 Jan")}
		if days > maxBars {
			spans[i].tick = from.Format("Jan 2006")
		}
	}
	for _, d := range p.Report.Days {
		if n := indexOf(dayOf(d.Day)); n >= 0 && n < days {
			span := &spans[n/perSpan]
			span.days = append(span.days, d)
		}
	}
	return spans
}

// dayOf reads a day as 2006-01-02; zero if it is none.
func dayOf(day string) time.Time {
	t, _ := time.Parse(time.DateOnly, day)
	return t
}

// FleetTable is the data of the template that puts links around a table: the table in addresses, and its name for
// people.
type FleetTable struct {
	Page        Fleet
	Table, Name string
}

// Table makes the data of that template.
func (p Fleet) Table(table, name string) FleetTable { return FleetTable{p, table, name} }
