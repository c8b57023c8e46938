package web

import (
	"strings"
	"time"
)

// Panels is a page that draws panels of a Grafana dashboard. Its script asks for the data. In a frame of the Ray
// Dashboard, it has none of its own around it.
type Panels struct {
	Frame
	API   string // of what answers PromQL, relative to the page
	Title string
	// OnePanel leaves out all but the panel, Kiosk the name and the form's link: what a frame shows.
	OnePanel, Kiosk bool
	Theme           string // "light", "dark", or "" as the browser has it
	Timezone        string // its IANA name; "" is UTC
	// From, To and Step are the range of the queries in Unix milliseconds and milliseconds; Refresh is how often they
	// are asked again, 0 never.
	From, To, Step, Refresh int64
	// Begin is when the session began, in Unix milliseconds; Session is its name. With is the name of a session whose
	// figures are drawn over this one's, both from their beginnings on, and Other its address, relative to the page.
	Begin                int64
	Session, With, Other string
	FromText, ToText     string // the chosen range, as people type it; "" is the whole session
	Zone                 string // of typed times, such as UTC or UTC+02:00; figures are drawn in the reader's
	Whole                string // the address of the whole session; "" if that is shown
	Wrong                Wrong
	Marks                []PanelMark
	Spans                []PanelSpan
	Hidden               []Param // of the form
	Variables            []PanelVariable
	Rows                 []PanelRow
	// Missing is a sentence that says why there are no panels.
	Missing string
}

// PanelSpan is a range of time to choose from: the last of the session's life. The value of all of it is "".
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

// PanelVariable is a variable of a dashboard to choose values of. The script adds those that are stored: of Label, in
// the series that Match selects or in the result of Expr.
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
