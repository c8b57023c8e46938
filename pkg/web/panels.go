package web

import (
	"strings"
	"time"
)

// Panels is a page that draws panels of a Grafana dashboard. Its script queries the data. When it stands in a frame of
// the Ray Dashboard, it does not show its own Frame.
type Panels struct {
	Frame
	API   string // the address of Prometheus's API, relative to the page
	Title string
	// OnePanel says that the page shows nothing but one panel, Kiosk that it leaves out its name and the form's link.
	// Both are for pages in a frame.
	OnePanel, Kiosk bool
	Theme           string // "light", "dark", or "" as the browser has it
	Timezone        string // its IANA name; "" is UTC
	// From and To are the range of the queries in Unix milliseconds, Step is the time between two points, and Refresh
	// the time after which they are sent again, both in milliseconds; Refresh 0 is never.
	From, To, Step, Refresh int64
	// Begin is when the session began, in Unix milliseconds; Session is its name. With is the name of a session whose
	// figures are drawn over this one's, so that both begin at the same place; Other is its address, relative to the
	// page.
	Begin                int64
	Session, With, Other string
	FromText, ToText     string // the chosen range, as people type it; "" is the whole session
	Zone                 string // of times that people type, such as UTC or UTC+02:00; axes have the reader's zone
	Whole                string // the address of the page for the whole session; "" if it is this one
	Wrong                Wrong
	Marks                []PanelMark
	Spans                []PanelSpan
	Hidden               []Param // of the form
	Variables            []PanelVariable
	Rows                 []PanelRow
	// Missing is a sentence that says why there are no panels.
	Missing string
}

// PanelSpan is a range of time that can be chosen: the end of the session's life, as long as Value says, such as "5m";
// "" for all of it.
type PanelSpan struct {
	Value, Title string
	Chosen       bool
}

// PanelMark is something that happened, to be seen on every panel: a finding, or the loss of a node.
type PanelMark struct {
	At                    int64 // Unix milliseconds
	Severity, Title, Link string
}

// Time is when it happened.
func (m PanelMark) Time() time.Time { return time.UnixMilli(m.At) }

// Below is the address of the session, relative to the page.
func (p Panels) Below() string { return strings.TrimSuffix(p.API, "api/v1/") }

// PanelVariable is a variable of a dashboard whose values people can choose. The script adds to Values those of the
// label Label in the series that Match selects, or in the result of the query Expr.
type PanelVariable struct {
	Name, Title        string
	Chosen             map[string]bool
	Values             []string
	All                bool
	Label, Match, Expr string
}

// PanelRow is a row of panels.
type PanelRow struct {
	Title  string
	Open   bool
	Panels []Panel
}

// Panel is one panel. Drawing is JSON for the script.
type Panel struct {
	Title, Description, Drawing string
	Wide                        bool
}

// Framed says whether the page stands in a frame of the Ray Dashboard.
func (p Panels) Framed() bool { return p.OnePanel || p.Kiosk }

func (Panels) template() string { return "panels.html" }
