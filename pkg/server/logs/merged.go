package logs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logview"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

const (
	// undatedLines is how many lines a part has of a log whose lines say no time: nothing says which belong there.
	undatedLines = 100
	// maxOffered is how many logs of the session the page's field offers.
	maxOffered = 500
)

// MergedLogsParams are the parameters of MergedLogs; of "log" there may be several.
var MergedLogsParams = slices.Concat([]string{"log", "time", "offset", "before", "columns"}, dashboard.LogsAboutParams)

// MergedLogs is a page of the lines of several logs by time, in one column or, with ?columns=1, in one for each log:
// those of each ?log=NODE/FILE, from ?time= on, from an ?offset= of each or, with ?before=1, up to these. A task, an
// actor or a job is redirected to the logs that tell of it.
func (h *Handlers) MergedLogs(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	if slices.ContainsFunc(dashboard.LogsAboutParams, form.Has) {
		return leadToMerged(w, r, session)
	}
	page := web.MergedLogs{Frame: visible.FrameOf(r, session.Entry, "search"), Form: form,
		Wide: form.Get("columns") != ""}
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	wrote, err := dashboard.LogWritersOf(r.Context(), session.Moment)
	if err != nil {
		return err
	}
	for _, node := range session.Session.Logs.Nodes() {
		for _, file := range session.Session.Logs.Paths(node) {
			if len(page.Offered) < maxOffered {
				page.Offered = append(page.Offered, web.MergedLog{Node: nodeOf(nodes, node), File: file,
					Writer: wrote.Of(file)})
			}
		}
	}
	status := http.StatusOK
	merged, err := h.merged(r.Context(), session, form)
	var wrong *param.Error
	if errors.As(err, &wrong) {
		status, page.Wrong, err = http.StatusBadRequest, web.Wrong{Error: *wrong}, nil
	}
	if err != nil {
		return err
	}
	if merged != nil {
		for _, s := range merged.logs {
			page.Logs = append(page.Logs, web.MergedLog{Node: nodeOf(nodes, s.node), File: s.name,
				Writer: wrote.Of(s.name), Undated: s.undated && len(s.times) > 0})
		}
		page.Rows, page.Dated, page.Starts, page.Ends = merged.rows, merged.dated, merged.starts(), merged.ends()
		page.Earlier, page.Later = merged.before(), merged.after()
	}
	web.Write(w, status, page)
	return nil
}

// leadToMerged redirects to the logs that tell of a task, an actor or a job, from when it began.
func leadToMerged(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	found, began, err := dashboard.LogsAbout(r.Context(), session.Moment, form)
	var wrong *param.Error
	if errors.As(err, &wrong) {
		return problem.BadRequest(wrong)
	}
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &problem.Problem{Status: http.StatusNotFound, Title: "No logs of this are stored",
			Detail: "No log of this task, actor or job is stored: Ray may not have said in which worker it ran.",
			Advice: "Search the logs of the session for its name or ID."}
	}
	query := url.Values{}
	for _, log := range found[:min(len(found), web.MaxMerged)] {
		query.Add("log", log.Node.String()+"/"+log.Path)
	}
	if began != 0 {
		query.Set("time", time.Unix(0, began).UTC().Format(time.RFC3339Nano))
	}
	browser.Redirect(w, http.StatusFound, "logs?"+query.Encode())
	return nil
}

// part is the lines of a log that may be in a merged part.
type part struct {
	openedLog
	start, end int64
	lines      []logview.Line
	times      []int64 // of each line: what it says, or the line before it
	said       []bool  // the line itself says a time
	undated    bool
	from, to   int // the lines that are taken
}

// merged are lines of several logs in the order of their times.
type merged struct {
	logs  []*part
	rows  []web.MergedRow
	dated bool // times have their date: the session lasted longer than a day
}

// merged reads the part that a request asks for; nil if it names no log.
func (h *Handlers) merged(ctx context.Context, session Session, form url.Values) (*merged, error) {
	names := form["log"]
	if len(names) > web.MaxMerged {
		return nil, &param.Error{Name: "log", Value: strconv.Itoa(len(names)) + " logs",
			Want: fmt.Sprintf("at most %d logs", web.MaxMerged)}
	}
	meant, err := TimesOf(ctx, session.Moment)
	if err != nil {
		return nil, err
	}
	clock, err := dashboard.LogClock(ctx, session.Moment)
	if err != nil {
		return nil, err
	}
	p := param.Form{Values: form}
	at, backwards := p.Time("time", meant), p.Bool("before")
	var offsets []string
	if form.Get("offset") != "" {
		if offsets = strings.Split(form.Get("offset"), ","); len(offsets) != len(names) {
			p.Refuse("offset", "a place in each of the logs, separated by commas")
		}
	}
	if p.Err != nil {
		return nil, p.Err
	}
	begin, end := session.Life(ctx)
	m := &merged{dated: end.Sub(begin) > 24*time.Hour}
	for i, name := range names {
		node, file, _ := strings.Cut(name, "/")
		log, err := h.open(ctx, session, url.Values{"node_id": {node}, "file": {file}})
		if err != nil {
			return nil, err
		}
		s := &part{openedLog: log, end: log.size}
		if offsets != nil {
			if s.start, err = strconv.ParseInt(offsets[i], 10, 64); err != nil || s.start < 0 {
				return nil, &param.Error{Name: "offset", Value: form.Get("offset"), Want: "numbers from 0 on"}
			}
			s.start = min(s.start, s.end)
		} else if at != 0 {
			// where the log ended just before: of what workers print this is known by their tasks
			before := *session.Moment
			before.At = at - 1
			if s.start, err = dashboard.LogEnd(ctx, &before, log.node, log.name); err != nil {
				return nil, err
			}
			s.start = min(s.start, s.end)
		}
		if backwards {
			s.end = s.start
			if s.start, err = log.index.Before(ctx, log.file, s.end, logview.PageLines); err != nil {
				return nil, err
			}
		}
		if err := s.read(ctx, &clock); err != nil {
			return nil, err
		}
		if s.undated { // nothing says which of its lines belong to the others'
			s.keep(undatedLines, backwards)
		}
		m.logs = append(m.logs, s)
	}
	m.merge(backwards, meant.Zone)
	return m, nil
}

// read reads the lines and their times. A line that says none has that of the line before it, and those before the
// first that says one have its time.
func (s *part) read(ctx context.Context, clock *logline.Clock) error {
	page, err := s.index.Read(ctx, s.file, s.start, s.end, logview.PageLines)
	if err != nil {
		return err
	}
	s.lines, s.undated = page.Lines, true
	s.end = page.End
	s.times, s.said = make([]int64, len(s.lines)), make([]bool, len(s.lines))
	last := int64(0)
	for i, line := range s.lines {
		var text strings.Builder
		for _, span := range line.Spans {
			text.WriteString(span.Text)
		}
		if h := logline.Parse([]byte(text.String()), clock); h.Dated {
			if s.said[i] = true; s.undated {
				for j := range i {
					s.times[j] = h.Time
				}
			}
			last, s.undated = max(last, h.Time), false
		}
		s.times[i] = max(s.times[i], last)
	}
	return nil
}

// keep keeps so many lines: the first ones, or the last ones.
func (s *part) keep(n int, last bool) {
	if len(s.lines) <= n {
		return
	}
	if last {
		cut := len(s.lines) - n
		s.start, s.lines, s.times, s.said = s.lines[cut].Offset, s.lines[cut:], s.times[cut:], s.said[cut:]
	} else {
		s.end, s.lines, s.times, s.said = s.lines[n].Offset, s.lines[:n], s.times[:n], s.said[:n]
	}
}

// merge takes lines in the order of their times: the first ones or, backwards, the last ones. It ends where a log has
// more lines than were read, which may belong between those of others.
func (m *merged) merge(backwards bool, zone *time.Location) {
	for _, s := range m.logs {
		if s.to = 0; backwards {
			s.from, s.to = len(s.lines), len(s.lines)
		}
	}
	form := "15:04:05.000"
	if m.dated {
		form = "01-02 " + form
	}
	var taken []web.MergedRow
	for len(taken) < logview.PageLines {
		next := m.next(backwards)
		if next < 0 {
			break
		}
		s := m.logs[next]
		i := s.to
		if backwards {
			s.from--
			i = s.from
		} else {
			s.to++
		}
		row := web.MergedRow{Log: next, Line: s.lines[i]}
		if s.said[i] {
			row.Time = time.Unix(0, s.times[i]).In(zone).Format(form)
		}
		taken = append(taken, row)
		if s.unread(backwards) && !s.undated {
			break
		}
	}
	if m.rows = taken; backwards {
		slices.Reverse(m.rows)
	}
}

// next returns the number of the log whose next line is the earliest or, backwards, the latest; -1 if all are taken. Of
// lines of the same time, those of the first log come first.
func (m *merged) next(backwards bool) int {
	next, best := -1, int64(0)
	for i, s := range m.logs {
		switch {
		case backwards && s.from > 0:
			if at := s.times[s.from-1]; next < 0 || at >= best {
				next, best = i, at
			}
		case !backwards && s.to < len(s.lines):
			if at := s.times[s.to]; next < 0 || at < best {
				next, best = i, at
			}
		}
	}
	return next
}

// unread says whether all lines that were read of a log are taken, and the log has more.
func (s *part) unread(backwards bool) bool {
	if backwards {
		return s.from == 0 && s.start > 0
	}
	return s.to == len(s.lines) && s.end < s.size
}

// starts and ends are where the taken lines begin and end in each log.
func (m *merged) starts() []int64 {
	return m.places(func(s *part) int64 { return s.place(s.from) })
}

func (m *merged) ends() []int64 {
	return m.places(func(s *part) int64 { return s.place(s.to) })
}

func (s *part) place(line int) int64 {
	if line < len(s.lines) {
		return s.lines[line].Offset
	}
	return s.end
}

func (m *merged) places(place func(*part) int64) (places []int64) {
	for _, s := range m.logs {
		places = append(places, place(s))
	}
	return places
}

// before and after say whether there are lines before and behind those that were taken.
func (m *merged) before() bool {
	return slices.ContainsFunc(m.starts(), func(at int64) bool { return at > 0 })
}

func (m *merged) after() bool {
	return slices.ContainsFunc(m.logs, func(s *part) bool { return s.place(s.to) < s.size })
}
