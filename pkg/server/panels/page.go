// Package panels shows a session's stored metrics: its pages draw panels of the Grafana dashboards that Ray made for
// the session or, if these are not stored, of those that Ray makes in the session's version. A page contains no
// figures: its script asks Prometheus's API below the session's address.
package panels

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	dash "github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Panels answers with the pages. Safe for concurrent use.
type Panels struct {
	dashboards dashboards
	metrics    *metrics.Databases
	building   *turns.Slots // for building pages
	measuring  *turns.Slots // for finding out how often metrics were read
	// Findings, if set, gives a session's outcome, and the failures that are marked on the panels.
	Findings func(context.Context, *moment.Moment) (*findings.Report, error)
}

// New makes pages of the sessions under a root of a store, whose metrics are those of databases.
func New(store blob.Reader, root string, databases *metrics.Databases) *Panels {
	return &Panels{dashboards: newDashboards(store, root), metrics: databases,
		building: turns.New(maxBuilding, turns.NoLimit), measuring: turns.New(maxMeasuring, turns.NoLimit)}
}

// Sentences that a page shows instead of panels.
const (
	noMetrics   = "No metrics of this session are stored: its collectors kept none."
	noFigures   = "No data: of this session only figures of CPU, memory, disk, network and GPU are stored."
	noDashboard = "Ray made no such dashboard for this session."
	noPanel     = "This dashboard has no such panel."
	tooLong     = "The queries of this page are too long with the values of its variables. Choose fewer values."
)

// Page answers with the page of a dashboard, by Ray's name for it, or, if onePanel is set, of its panel that ?panelId=
// names.
func (p *Panels) Page(w http.ResponseWriter, r *dash.Request, name string, onePanel bool) error {
	d, sentence, err := p.dashboardFor(r, name)
	if err != nil {
		return err
	}
	var interval time.Duration
	if sentence == "" {
		interval = p.intervalOf(r)
	}
	page, release, err := p.buildReserved(r, func() web.Panels {
		if sentence != "" {
			return emptyPage(r, sentence, onePanel)
		}
		return d.page(r, onePanel, interval)
	})
	if err != nil {
		return err
	}
	defer release()
	if !onePanel {
		p.addFindings(r, &page)
	}
	web.Write(w, statusOf(page.Missing), page)
	return nil
}

// emptyPage is a page without panels, with the sentence that says why it has none.
func emptyPage(r *dash.Request, sentence string, onePanel bool) web.Panels {
	query := r.Query()
	theme := query.Get("theme")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	return web.Panels{
		Frame: frameOf(r), API: apiAddress(r.URL.EscapedPath()), Title: "Metrics", OnePanel: onePanel,
		Kiosk: query.Has("kiosk"),
		Theme: theme, Timezone: query.Get("timezone"), Missing: sentence,
	}
}

// page is the page of a dashboard, or of the one of its panels that the request names. interval is the time between two
// reads of the session's metrics. If the queries are too long, the page has no panels and says so.
func (d *dashboard) page(r *dash.Request, onePanel bool, interval time.Duration) web.Panels {
	query := r.Query()
	page := emptyPage(r, "", onePanel)
	asked := ofSession(r)
	typed := r.Times(r.Context())
	from, to, wrong := rangeOf(r, asked, onePanel, typed)
	begin, _ := r.Life(r.Context())
	page.Begin, page.Session = begin.UnixMilli(), r.Session.Ref.Name
	page.Other, page.With = comparedSession(r, query.Get("with"))
	step := stepOf(to.Sub(from))
	values := d.valuesOf(asked, to.Sub(from), step, interval)
	page.From, page.To, page.Step, page.Refresh = from.UnixMilli(), to.UnixMilli(), step.Milliseconds(), refreshOf(r)
	if onePanel {
		d.addPanel(&page, query.Get("panelId"), values)
	} else {
		page.Spans, page.Hidden, page.Wrong = spansOf(query.Get("last")), hiddenParams(query), wrong
		page.Zone = zoneOf(to.In(typed.Zone))
		switch {
		case wrong.Name != "":
			page.FromText, page.ToText = query.Get("from"), query.Get("to")
		case choosesRange(query):
			page.FromText, page.ToText = shownTime(from, typed), shownTime(to, typed)
			page.Whole = wholeSession(query)
		}
		d.addAll(&page, asked, values)
	}
	if values.remaining < 0 {
		page.Missing, page.Rows, page.Variables = tooLong, nil, nil
	}
	return page
}

// addPanel puts the panel with an ID, which may be written as panel-ID, onto a page, or says that there is none.
func (d *dashboard) addPanel(page *web.Panels, panelID string, values *values) {
	id, err := strconv.Atoi(strings.TrimPrefix(panelID, "panel-"))
	shown := d.panel(id)
	switch {
	case err == nil && shown != nil:
		page.Title, page.Rows = shown.Title, []web.PanelRow{{Panels: []web.Panel{shown.webPanel(values)}}}
	case d == hardwareOnly(): // its panels are a few: the one that was asked for may exist in a dashboard with metrics
		page.Title, page.Missing = d.Title, noFigures
	default:
		page.Title, page.Missing = d.Title, noPanel
	}
}

// addAll puts all panels onto a page, and the variables whose values people can choose.
func (d *dashboard) addAll(page *web.Panels, asked url.Values, values *values) {
	page.Title = d.Title
	for _, v := range d.Templating.List {
		if v.Hide != hideVariable && v.Type != "datasource" && v.Name != sessionVariable {
			page.Variables = append(page.Variables, v.formField(v.chosenValues(asked), values))
		}
	}
	for _, row := range d.rows() {
		shown := web.PanelRow{Title: row.title, Open: !row.collapsed}
		for _, panel := range row.panels {
			shown.Panels = append(shown.Panels, panel.webPanel(values))
		}
		page.Rows = append(page.Rows, shown)
	}
}

// frameOf is what a page shows around its panels, unless it is itself in a frame of the dashboard.
func frameOf(r *dash.Request) web.Frame {
	var began time.Time
	if r.Session.Start != 0 || !r.Session.Life.Start.IsZero() { // otherwise Life would guess the start
		began, _ = r.Life(r.Context())
	}
	return visible.SessionFrame(r.Request, catalog.Entry{Ref: r.Session.Ref, Start: began,
		End: cmp.Or(r.Session.Life.End, r.Session.LastStored()), Running: r.Running != nil}, web.MetricsTab)
}

const (
	maxMeasuring  = 2               // how many pages may find out at once how often metrics were read
	measuringWait = 3 * time.Second // how long a page waits for its turn to find that out
)

// intervalOf is the time between two reads of the session's metrics, at least the default. If it is not known yet, the
// metrics are read for it in the namespace's turn, because that takes memory. If that fails, or the turn does not come
// soon, the result is the default.
func (p *Panels) intervalOf(r *dash.Request) time.Duration {
	database := p.metrics.Of(r.Session.Ref, r.Runs(r.Context()))
	if known := database.KnownInterval(); known > 0 {
		return max(known, samples.Interval)
	}
	ctx, done, err := p.measuring.Take(r.Context(), r.Session.Ref.Namespace, measuringWait)
	var interval time.Duration
	if err == nil {
		defer done()
		interval, err = database.Interval(ctx)
	}
	if err != nil {
		r.Log.WithError(err).Debug("how often a session's metrics were read is not known")
	}
	return max(interval, samples.Interval) // 0 after an error
}

// dashboardFor returns the dashboard of a page, or the sentence that says why there is none: the session's own if it is
// stored and can be read, else the one that Ray makes in the session's version. A session that stored dashboards, but
// not this one, has none of this name.
func (p *Panels) dashboardFor(r *dash.Request, name string) (d *dashboard, sentence string, err error) {
	ref := r.Session.Ref
	stored, err := p.metrics.Stored(r.Context(), ref, r.Runs(r.Context()))
	if err != nil {
		return nil, "", err
	}
	if stored == metrics.Nothing {
		return nil, noMetrics, nil
	}
	d, err = p.dashboards.stored(r.Context(), ref, name)
	damaged := errors.Is(err, errDamaged)
	if !damaged && !errors.Is(err, errNone) {
		return d, "", err
	}
	r.Log.WithError(err).Debug("the session's own dashboard is not shown on a page of panels")
	anyStored, err := p.dashboards.hasStored(r.Context(), ref)
	switch {
	case err != nil:
		return nil, "", err
	case anyStored && !damaged:
		return nil, noDashboard, nil
	case stored == metrics.Hardware && name == "default":
		return hardwareOnly(), "", nil
	case stored == metrics.Hardware:
		return nil, noFigures, nil
	}
	d, err = p.dashboards.ofRay(r.Context(), ref.Namespace, name, r.RayVersion)
	if errors.Is(err, errNone) {
		return nil, noDashboard, nil
	}
	return d, "", err
}

// statusOf returns the status of a page with a sentence instead of panels, or with panels if it is "". Missing metrics
// are not an error, because the frontend shows panels for every session.
func statusOf(sentence string) int {
	switch sentence {
	case noDashboard, noPanel:
		return http.StatusNotFound
	case tooLong:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// webPanel returns a panel as the page has it: wide if it takes more than half of Grafana's 24 columns.
func (p *panel) webPanel(values *values) web.Panel {
	data, err := json.Marshal(p.draw(values))
	if err != nil {
		panic(err) // all of its fields have JSON forms
	}
	return web.Panel{Title: p.Title, Description: p.Description, Drawing: string(data), Wide: p.GridPos.W > 12}
}

// apiAddress is where PromQL is answered for a page's session, relative to the page: /…/grafana/d/{uid}/… →
// ../../../api/v1/.
func apiAddress(path string) string {
	below := path[strings.LastIndex(path, "/grafana/")+1:]
	return strings.Repeat("../", strings.Count(below, "/")) + "api/v1/"
}

// sessionVariable is the variable for Ray's label with a session's name. Its value is always the page's session,
// whatever the request says.
const sessionVariable = "SessionName"

// ofSession returns the request's query, in which sessionVariable has the name of the page's session.
func ofSession(r *dash.Request) url.Values {
	query := url.Values{}
	maps.Copy(query, r.Query())
	query.Set("var-"+sessionVariable, r.Session.Ref.Name)
	return query
}

// hiddenParams returns the parameters of the page's address that its form has no fields for, but keeps.
func hiddenParams(query url.Values) (params []web.Param) {
	for _, name := range []string{"orgId", "theme", "timezone", "kiosk", "refresh", "with"} {
		if query.Has(name) {
			params = append(params, web.Param{Name: name, Value: query.Get(name)})
		}
	}
	return params
}

// findingsWait is how long a page waits for the findings. Without them it is complete but for its marks.
const findingsWait = 3 * time.Second

// maxMarks is how many failures and lost nodes a page marks.
const maxMarks = 60

// addFindings adds to a page the session's outcome, and marks of the failures in the page's range of time. Without the
// findings the page is shown without them.
func (p *Panels) addFindings(r *dash.Request, page *web.Panels) {
	if p.Findings == nil {
		return
	}
	ctx, cancel := findings.Within(r.Context(), findingsWait)
	defer cancel()
	report, err := p.Findings(ctx, &r.Moment)
	if err != nil {
		r.Log.WithError(err).Debug("failures are not marked on a page of panels")
		return
	}
	page.Head.Outcome = report.Outcome
	if page.Missing == "" {
		page.Marks = failureMarks(r, page, report)
	}
}

// failureMarks are the report's findings and the lost nodes within a page's range of time, the first maxMarks, each
// with the address of its page. If the nodes cannot be read, theirs are left out.
func failureMarks(r *dash.Request, page *web.Panels, report *findings.Report) (marks []web.PanelMark) {
	add := func(m web.PanelMark) {
		if m.At >= page.From && m.At <= page.To && len(marks) < maxMarks {
			marks = append(marks, m)
		}
	}
	for _, f := range report.Findings {
		if at, err := time.Parse(time.RFC3339Nano, f.First); err == nil {
			add(web.PanelMark{At: at.UnixMilli(), Severity: f.Severity, Title: f.Title,
				Link: page.Below() + "findings#" + f.ID})
		}
	}
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return marks
	}
	for _, n := range nodes.All {
		if n.Lost() && n.End != 0 {
			add(web.PanelMark{At: n.End / int64(time.Millisecond), Severity: "node",
				Title: "node " + cmp.Or(n.IP, n.ID) + " was lost", Link: page.Below() + "#/cluster/nodes/" + n.ID})
		}
	}
	return marks
}

// comparedSession returns the session that with names, whose metrics are drawn over those of the page's session: its
// address, relative to the page, and its name. with is the name of a session of the same cluster,
// namespace/cluster/session, or the address of a page about it. Both results are "" if it names no session.
func comparedSession(r *dash.Request, with string) (address, name string) {
	other := r.Session.Ref
	switch parts := strings.Split(catalog.NameIn(with), "/"); len(parts) {
	case 1:
		other.Name = with
	case 3:
		other.Namespace, other.Cluster, other.Name = parts[0], parts[1], parts[2]
	default:
		return "", ""
	}
	if other.Check() != nil {
		return "", ""
	}
	return browser.Root(r.Request) + other.Path(), other.Name
}
