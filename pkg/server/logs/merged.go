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
	// undatedLines is how many lines are shown of a log whose lines have no times: it is not known which of them belong
	// to the times shown.
	undatedLines = 100
	// maxOffered is how many logs of the session the page's field offers.
	maxOffered = 500
)

// MergedLogsParams are the parameters of MergedLogs; of "log" there may be several.
var MergedLogsParams = slices.Concat([]string{"log", "time", "offset", "before", "columns"}, dashboard.LogsAboutParams)

// MergedLogs is a page of the lines of several logs, each ?log=NODE/FILE, in the order of their times: in one column
// or, with ?columns=1, in one for each log. It begins at ?time= or at an ?offset= in each log; with ?before=1 it ends
// there. A request that names a task, an actor or a job instead of logs is redirected to the logs about it.
func (h *Handlers) MergedLogs(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	if slices.ContainsFunc(dashboard.LogsAboutParams, form.Has) {
		return redirectToMerged(w, r, session)
	}
	page := web.MergedLogs{Frame: visible.SessionFrame(r, session.Entry, "search"), Form: form,
		Wide: form.Get("columns") != ""}
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	writers, err := dashboard.LogWritersOf(r.Context(), session.Moment)
	if err != nil {
		return err
	}
	for _, node := range session.Session.Logs.Nodes() {
		for _, file := range session.Session.Logs.Paths(node) {
			if len(page.Offered) < maxOffered {
				page.Offered = append(page.Offered, web.MergedLog{Node: webNode(nodes, node), File: file,
					Writer: writers.Of(file)})
			}
		}
	}
	status := http.StatusOK
	merged, err := h.readMerged(r.Context(), session, form)
	if wrong, ok := errors.AsType[*param.Error](err); ok {
		status, page.Wrong, err = http.StatusBadRequest, web.Wrong{Error: *wrong}, nil
	}
	if err != nil {
		return err
	}
	if merged != nil {
		for _, s := range merged.logs {
			page.Logs = append(page.Logs, web.MergedLog{Node: webNode(nodes, s.node), File: s.name,
				Writer: writers.Of(s.name), Undated: s.undated && len(s.times) > 0})
			start, end := s.offsetOf(s.from), s.offsetOf(s.to) // of its lines in the rows, in bytes
			page.Starts, page.Ends = append(page.Starts, start), append(page.Ends, end)
			page.Earlier, page.Later = page.Earlier || start > 0, page.Later || end < s.size
		}
		page.Rows, page.Dated = merged.rows, merged.dated
	}
	web.Write(w, status, page)
	return nil
}

// redirectToMerged redirects to the page with the logs about a task, an actor or a job, from when it began.
func redirectToMerged(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	found, began, err := dashboard.LogsAbout(r.Context(), session.Moment, form)
	if wrong, ok := errors.AsType[*param.Error](err); ok {
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

// logPart is the lines that were read of a log to be merged with those of others.
type logPart struct {
	openedLog
	start, end int64 // where the lines begin and end in the log, in bytes
	lines      []logview.Line
	times      []int64 // of each line, Unix ns; see read
	dated      []bool  // whether each line has a time in its text
	undated    bool    // none of the lines has
	from, to   int     // the lines [from:to] are in the merged rows
}

// mergedLogs are lines of several logs in the order of their times.
type mergedLogs struct {
	logs  []*logPart
	rows  []web.MergedRow
	dated bool // rows show the date beside the time, because the session lasted longer than a day
}

// readMerged reads and merges the lines that a request asks for; nil if it names no log. A parameter that cannot be
// used is a *param.Error.
func (h *Handlers) readMerged(ctx context.Context, session Session, form url.Values) (*mergedLogs, error) {
	names := form["log"]
	if len(names) > web.MaxMerged {
		return nil, &param.Error{Name: "log", Value: strconv.Itoa(len(names)) + " logs",
			Want: fmt.Sprintf("at most %d logs", web.MaxMerged)}
	}
	times, err := TimesOf(ctx, session.Moment)
	if err != nil {
		return nil, err
	}
	clock, err := dashboard.LogClock(ctx, session.Moment)
	if err != nil {
		return nil, err
	}
	p := param.Form{Values: form}
	at, backwards := p.Time("time", times), p.Bool("before") // at is 0 if no time is requested
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
	m := &mergedLogs{dated: end.Sub(begin) > 24*time.Hour}
	for i, name := range names {
		node, file, _ := strings.Cut(name, "/")
		log, err := h.openLog(ctx, session, url.Values{"node_id": {node}, "file": {file}})
		if err != nil {
			return nil, err
		}
		s := &logPart{openedLog: log, end: log.size}
		if offsets != nil {
			if s.start, err = strconv.ParseInt(offsets[i], 10, 64); err != nil || s.start < 0 {
				return nil, &param.Error{Name: "offset", Value: form.Get("offset"), Want: "numbers from 0 on"}
			}
			s.start = min(s.start, s.end)
		} else if at != 0 {
			if err := s.startAt(ctx, session, at); err != nil {
				return nil, err
			}
		}
		if backwards { // the page ends at that place, and begins a page before it
			s.end = s.start
			if s.start, err = log.index.Before(ctx, log.file, s.end, logview.PageLines); err != nil {
				return nil, err
			}
		}
		if err := s.read(ctx, &clock); err != nil {
			return nil, err
		}
		if s.undated { // such lines have no place between those of other logs: a few are enough
			s.keepLines(undatedLines, backwards)
		}
		m.logs = append(m.logs, s)
	}
	m.merge(backwards, times.Zone)
	return m, nil
}

// startAt has the part begin at a time (Unix ns): where the log ended just before it. LogEnd finds this also in what
// workers print without times, by the tasks that they ran.
func (s *logPart) startAt(ctx context.Context, session Session, at int64) (err error) {
	justBefore := *session.Moment
	justBefore.At = at - 1
	if s.start, err = dashboard.LogEnd(ctx, &justBefore, s.node, s.name); err != nil {
		return err
	}
	s.start = min(s.start, s.end)
	return nil
}

// read reads the lines between start and end, at most a page of them, and their times; end is then where they end. A
// line without a time gets that of the line before it, and those before the first line with a time get that one's.
// Times never go back: a line whose time is earlier than that of a line before it gets the latter. Of a log without any
// time (undated) all times are 0.
func (s *logPart) read(ctx context.Context, clock *logline.Clock) error {
	page, err := s.index.Read(ctx, s.file, s.start, s.end, logview.PageLines)
	if err != nil {
		return err
	}
	s.lines, s.undated = page.Lines, true
	s.end = page.End
	s.times, s.dated = make([]int64, len(s.lines)), make([]bool, len(s.lines))
	last := int64(0)
	for i, line := range s.lines {
		var text strings.Builder
		for _, span := range line.Spans {
			text.WriteString(span.Text)
		}
		if h := logline.Parse([]byte(text.String()), clock); h.Dated {
			s.dated[i] = true
			if s.undated { // it is the first line with a time
				for j := range i {
					s.times[j] = h.Time
				}
			}
			last, s.undated = max(last, h.Time), false
		}
		s.times[i] = last
	}
	return nil
}

// keepLines leaves only the first n lines or, if fromEnd is set, the last n.
func (s *logPart) keepLines(n int, fromEnd bool) {
	if len(s.lines) <= n {
		return
	}
	if fromEnd {
		cut := len(s.lines) - n
		s.start, s.lines, s.times, s.dated = s.lines[cut].Offset, s.lines[cut:], s.times[cut:], s.dated[cut:]
	} else {
		s.end, s.lines, s.times, s.dated = s.lines[n].Offset, s.lines[:n], s.times[:n], s.dated[:n]
	}
}

// merge makes the rows of the lines in the order of their times: at most a page of the first lines or, backwards, of
// the last ones. It ends where the lines that were read of a log end before the log does: those that follow may belong
// between lines of other logs. Logs without times do not end it, because their lines belong nowhere.
func (m *mergedLogs) merge(backwards bool, zone *time.Location) {
	if backwards {
		for _, s := range m.logs {
			s.from, s.to = len(s.lines), len(s.lines)
		}
	}
	form := "15:04:05.000"
	if m.dated {
		form = "01-02 " + form
	}
	for len(m.rows) < logview.PageLines {
		next := m.nextLog(backwards)
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
		if s.dated[i] {
			row.Time = time.Unix(0, s.times[i]).In(zone).Format(form)
		}
		m.rows = append(m.rows, row)
		if s.mayHaveMore(backwards) && !s.undated {
			break
		}
	}
	if backwards {
		slices.Reverse(m.rows)
	}
}

// nextLog returns the index of the log whose next line is the earliest or, backwards, the latest; -1 if no log has
// another line. Of lines of the same time, those of the first log come first in the rows.
func (m *mergedLogs) nextLog(backwards bool) int {
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

// mayHaveMore says whether all lines that were read of a log are in the rows, but the log has more in that direction.
func (s *logPart) mayHaveMore(backwards bool) bool {
	if backwards {
		return s.from == 0 && s.start > 0
	}
	return s.to == len(s.lines) && s.end < s.size
}

// offsetOf is where a line begins, by its index in lines; the end of the last one if there is no such line.
func (s *logPart) offsetOf(line int) int64 {
	if line < len(s.lines) {
		return s.lines[line].Offset
	}
	return s.end
}
