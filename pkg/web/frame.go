package web

import (
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Frame is what every page shows around its content.
type Frame struct {
	Base string // relative address of the server's root
	// User is who is signed in, "" if nobody has to; SignOut says that the browser can end this.
	User    string
	SignOut bool
	// Limited says that the caller sees only the sessions of some namespaces.
	Limited bool
	Head    *Head // of the session that the page is about; nil if it is about none
}

// Head is what all pages of a session show above their content: where they are, how the session ended, and the other
// pages of the session.
type Head struct {
	Ref layout.Session
	// Moment is the moment of the session that the page shows, as the page's address has it; "" is the session's end.
	Moment     string
	Start, End time.Time // zero if not known
	Running    bool
	Outcome    string // how it ended; "" if not known
	Note       notes.Note
	Tab        string // the address of the page's tab, one of tabs or NoTab
}

// Tab is a page of a session. Address is relative to the session's.
type Tab struct{ Address, Title string }

const (
	// MetricsTab is the address of the page with a session's metrics.
	MetricsTab = "grafana/d/rayDefaultDashboard/default-dashboard"
	// DashboardTab is the address of the Ray Dashboard: that of the session itself.
	DashboardTab = ""
	// NoTab is the Tab of a page that none of the tabs leads to.
	NoTab = "none"
)

// tabs are the pages of a session, in their order.
var tabs = []Tab{
	{Address: "overview", Title: "Overview"},
	{Address: "findings", Title: "Findings"},
	{Address: "timeline", Title: "Timeline"},
	{Address: "search", Title: "Logs"},
	{Address: MetricsTab, Title: "Metrics"},
	{Address: "compare", Title: "Compare"},
	{Address: "?replay=1", Title: "Replay"},
	{Address: DashboardTab, Title: "Ray Dashboard"},
}

// Tabs are the pages that a session has.
func (Head) Tabs() []Tab { return tabs }

// Path is the address of the session, or of it at the moment shown, relative to the server's root.
func (h Head) Path() string {
	if h.Moment != "" {
		return h.Ref.Path() + "at/" + h.Moment + "/"
	}
	return h.Ref.Path()
}

// MomentTime is the moment as a time; zero if the page shows the session's end.
func (h Head) MomentTime() time.Time {
	text, _ := url.PathUnescape(h.Moment)
	at, err := param.ParseAt(text)
	if err != nil || at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// Duration is how long the session ran, or has run until now; 0 if not known.
func (h Head) Duration() time.Duration {
	switch {
	case h.Start.IsZero():
	case h.Running:
		return time.Since(h.Start)
	case !h.End.IsZero():
		return h.End.Sub(h.Start)
	}
	return 0
}

// shownTo is the time up to which the page shows the session: the moment, or else the session's end, which is zero
// while it runs.
func (h Head) shownTo() time.Time {
	if h.Moment != "" {
		return h.MomentTime()
	}
	return h.End
}

// around is how much of the time beside a failure is shown.
const around = 5 * time.Minute

// Around is the address, relative to the session's, of one of its pages for the time around a failure; for the whole
// session if the failure's time is not known. "metrics" stands for MetricsTab.
func (h Head) Around(page string, at time.Time) string {
	if page == "metrics" {
		page = MetricsTab
	}
	if at.IsZero() {
		return page
	}
	from, to := at.Add(-around), at.Add(around)
	if from.Before(h.Start) {
		from = h.Start
	}
	// The clock of a node may be ahead, so that it failed after the end.
	if end := h.shownTo(); !end.IsZero() && !at.After(end) && to.After(end) {
		to = end
	}
	if !from.Before(to) {
		return page
	}
	return page + "?" + url.Values{"from": {strconv.FormatInt(from.UnixMilli(), 10)},
		"to": {strconv.FormatInt(to.UnixMilli(), 10)}}.Encode()
}

// when is a time as an HTML element. The page's script shows it in the time zone that people have chosen.
func when(t time.Time) template.HTML {
	return timeElement(t, "", t.UTC().Format(time.DateTime)+" UTC", "")
}

// ago is a time as an HTML element that says how long ago it was. Browsers show the time itself at the pointer.
func ago(t time.Time) template.HTML {
	return timeElement(t, " data-ago", human.Ago(t, time.Now()), ` title="`+t.UTC().Format(time.DateTime)+` UTC"`)
}

// timeElement is an HTML element for a time, with some attributes and a text. Nothing in it is escaped, so the texts
// must be made of times.
func timeElement(t time.Time, mark, text, title string) template.HTML {
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339Nano) + `"` + mark + title + `>` + text +
		`</time>`)
}

// took says how long something took; "" if it is 0, which is not known.
func took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return human.Duration(d)
}
