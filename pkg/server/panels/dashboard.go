package panels

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/jsonstream"
)

// dashboard has the fields of a Grafana dashboard that are used here, in the form of Grafana's JSON (schema version 27,
// which Ray 2.55 to 2.60 write; ray/dashboard/modules/metrics/templates).
type dashboard struct {
	Title      string
	Templating struct{ List []*variable }
	Panels     []*panel
}

// panel is one panel, or a row. The panels of a collapsed row are in it; those of another row are those that follow it.
type panel struct {
	ID                             int
	Type, Title, Description, Unit string
	Collapsed                      bool
	Panels                         []*panel
	GridPos                        struct{ W int }
	Targets                        []target
	FieldConfig                    struct{ Defaults defaults }
	Yaxes                          []axis

	Stack           bool
	Fill            float64 // opacity in tenths
	NullPointMode   string
	SeriesOverrides []override
	Legend          map[string]any
}

type target struct{ Expr, LegendFormat string }

type defaults struct {
	Unit     string
	Min, Max any
}

type axis struct {
	Format   string
	Min, Max any // a number, the same as text, or nil
}

// override says how the series are drawn whose name is Alias, or matches Alias if that is written as /…/. The page's
// script applies it.
type override struct {
	Alias        string   `json:"alias"`
	Color        string   `json:"color,omitempty"`
	Dashes       bool     `json:"dashes,omitempty"`
	Stack        *bool    `json:"stack,omitempty"`
	Fill         *float64 `json:"fill,omitempty"`
	HiddenSeries bool     `json:"hiddenSeries,omitempty"`
}

// Limits of a dashboard. The largest of Ray 2.60 has 12,000 values, 89 panels, 11 variables, and 6 queries and 5
// overrides in one panel.
const (
	maxValues    = 100_000 // each takes up to valueBytes in memory, and 3 in JSON
	maxVariables = 100
	maxOfPanel   = 100 // queries, and overrides
)

// parse reads a dashboard. A field of another type than Grafana's counts as missing, and so does a color that is not
// one. Variables after the first one of the same name are dropped. A dashboard beyond the limits above is an error.
func parse(data []byte) (*dashboard, error) {
	if n := jsonstream.Values(data); n > maxValues {
		return nil, fmt.Errorf("it has about %d values, at most %d are read", n, maxValues)
	}
	d := new(dashboard)
	if err := jsonstream.Lenient(data, d); err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	d.Templating.List = slices.DeleteFunc(d.Templating.List, func(v *variable) bool {
		if v == nil || names[v.Name] {
			return true
		}
		names[v.Name] = true
		return false
	})
	if len(d.Templating.List) > maxVariables {
		return nil, fmt.Errorf("it has %d variables, at most %d are read", len(d.Templating.List), maxVariables)
	}
	for _, r := range d.rows() {
		for _, p := range r.panels {
			if len(p.Targets) > maxOfPanel || len(p.SeriesOverrides) > maxOfPanel {
				return nil, fmt.Errorf("its panel %d has %d queries and %d overrides, more than %d", p.ID,
					len(p.Targets), len(p.SeriesOverrides), maxOfPanel)
			}
			for i := range p.SeriesOverrides {
				if o := &p.SeriesOverrides[i]; !isColor(o.Color) {
					o.Color = ""
				}
			}
		}
	}
	return d, nil
}

// isColor says whether the script may put a text into styles as a color: a name, #rgb, rgb(…) and similar forms, or "".
// It must not be an address such as url(…), because a browser would request that.
func isColor(text string) bool {
	function, rest, called := strings.Cut(text, "(")
	if called && (!slices.Contains([]string{"rgb", "rgba", "hsl", "hsla"}, function) || strings.Contains(rest, "(")) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("#(),.%/ -", r))
	})
}

// row is a row of panels. title is "" for the panels before the dashboard's first row.
type row struct {
	title     string
	collapsed bool
	panels    []*panel
}

// rows returns the dashboard's panels by row. Panels before the first row are in one without a title. A collapsed row
// holds its panels itself; those of an open one follow it.
func (d *dashboard) rows() []row {
	rows := []row{{}}
	for _, p := range d.Panels {
		if p == nil { // the stored JSON has null there
			continue
		}
		panels := []*panel{p}
		if p.Type == "row" {
			rows = append(rows, row{title: p.Title, collapsed: p.Collapsed})
			panels = slices.DeleteFunc(slices.Clone(p.Panels), func(inner *panel) bool { return inner == nil })
		}
		last := &rows[len(rows)-1]
		last.panels = append(last.panels, panels...)
	}
	if len(rows[0].panels) == 0 {
		rows = rows[1:]
	}
	return rows
}

// panel finds a panel by its ID; nil if there is none.
func (d *dashboard) panel(id int) *panel {
	for _, r := range d.rows() {
		for _, p := range r.panels {
			if p.ID == id {
				return p
			}
		}
	}
	return nil
}

// drawing is a panel as the script draws it.
type drawing struct {
	Type      string         `json:"type"`
	Queries   []query        `json:"queries"`
	Unit      string         `json:"unit"`
	Min       any            `json:"min,omitempty"`
	Max       any            `json:"max,omitempty"`
	Stack     bool           `json:"stack,omitempty"`
	Fill      float64        `json:"fill,omitempty"`
	Nulls     string         `json:"nulls,omitempty"`
	Overrides []override     `json:"overrides,omitempty"`
	Legend    map[string]any `json:"legend,omitempty"`
}

type query struct {
	Expr   string `json:"expr"`
	Legend string `json:"legend"`
}

// noFilters finds where Ray left a comma after filters that it did not insert, such as x{, deployment=~"$deployment"},
// which is not valid PromQL.
var noFilters = regexp.MustCompile(`([{,])\s*,`)

// draw returns a panel as the script draws it, with the values of the variables in its queries. Panels of type graph
// have their unit and limits at the first axis, others in their defaults.
func (p *panel) draw(values *values) drawing {
	d := drawing{
		Type: p.Type, Unit: p.FieldConfig.Defaults.Unit, Min: p.FieldConfig.Defaults.Min,
		Max:   p.FieldConfig.Defaults.Max,
		Stack: p.Stack, Fill: p.Fill, Nulls: p.NullPointMode, Overrides: p.SeriesOverrides, Legend: p.Legend,
		Queries: []query{},
	}
	if p.Type == "graph" && len(p.Yaxes) > 0 {
		d.Unit, d.Min, d.Max = p.Yaxes[0].Format, p.Yaxes[0].Min, p.Yaxes[0].Max
	}
	for _, t := range p.Targets {
		if strings.TrimSpace(t.Expr) != "" {
			expr := noFilters.ReplaceAllString(t.Expr, "$1") // without the comma that Ray left
			d.Queries = append(d.Queries, query{values.replace(expr), t.LegendFormat})
		}
	}
	return d
}
