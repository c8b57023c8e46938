package logs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logview"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/web"
)

// countWait is how long a page waits until the lines before it are counted. The next request counts on from there.
const countWait = 5 * time.Second

// Page is a page of a log. It shows the line number ?line=, or the first line of a ?time=, or the ?end= of the log, or
// what ends at the byte ?until=, or the line with the byte ?near=, or what begins at the byte ?offset=, or the log's
// first lines; at most ?lines= of them. For a line or a time behind the log's end it shows the end, and says so.
func (h *Handlers) Page(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	fitForm(form)
	log, err := h.openLog(r.Context(), session, form)
	if err != nil {
		return err
	}
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	page := web.Log{
		Frame: visible.SessionFrame(r, session.Entry, "search"), Node: webNode(nodes, log.node),
		File: log.name, Size: log.size,
		Previous: -1, Form: form, Shown: -1, // -1: there is no page before, no line is marked
	}
	status := http.StatusOK
	begin, err := pageStart(r.Context(), session, log, form)
	if wrong, ok := errors.AsType[*param.Error](err); ok { // the page shows the mistake, and the log's first lines
		status, page.Wrong, err = http.StatusBadRequest, web.Wrong{Error: *wrong}, nil
	}
	if err == nil && begin.beyond {
		begin.last = true
		begin.offset, err = log.index.Before(r.Context(), log.file, log.size, begin.lines) // its last lines
	}
	if err != nil {
		return err
	}
	if page.Page, err = log.index.Read(r.Context(), log.file, begin.offset, begin.end, begin.lines); err != nil {
		return err
	}
	if begin.offset > 0 {
		if page.Previous, err = log.index.Before(r.Context(), log.file, begin.offset, begin.lines); err != nil {
			return err
		}
	}
	if err := numberLines(r.Context(), &page, log, begin.offset); err != nil {
		return err
	}
	page.Show(begin.line, begin.beyond, begin.last)
	web.Write(w, status, page)
	return nil
}

// numberLines sets the numbers of a page's lines; start is where the first of them begins. If the lines before it
// cannot be counted within countWait, the page has no numbers, which is no error.
func numberLines(ctx context.Context, page *web.Log, log openedLog, start int64) error {
	counting, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	first, err := log.index.Number(counting, log.file, start)
	if err != nil {
		if outOfTime := counting.Err() != nil && ctx.Err() == nil; outOfTime {
			return nil
		}
		return err
	}
	page.Numbered = true
	for i := range page.Page.Lines {
		page.Page.Lines[i].Number = first + int64(i)
	}
	return nil
}

// openedLog is a log of a session.
type openedLog struct {
	node  rayid.Node
	name  string
	file  *sessionlogs.File
	size  int64 // at the moment shown, in bytes
	index *logview.Index
}

// openLog opens the log that ?node_id= and ?file= name, with its size at the moment shown, and with the index of its
// lines that all requests for this log share.
func (h *Handlers) openLog(ctx context.Context, session Session, form url.Values) (log openedLog, err error) {
	log.name = form.Get("file")
	if log.node, err = rayid.Parse[rayid.Node](form.Get("node_id")); err != nil {
		return log, &param.Error{Name: "node_id", Value: form.Get("node_id"),
			Want: "the ID of a node, 56 hexadecimal digits"}
	}
	log.file, err = session.Session.Logs.Open(ctx, log.node, log.name)
	if errors.Is(err, os.ErrNotExist) {
		return log, noLogProblem(log.node, log.name)
	}
	if err != nil {
		return log, err
	}
	if log.size = log.file.Size(); session.At != 0 {
		if log.size, err = dashboard.LogEnd(ctx, session.Moment, log.node, log.name); err != nil {
			return log, err
		}
	}
	log.index, err = h.lineIndexes.Load(ctx, fmt.Sprintf("%s %s %s", session.Entry.Ref, log.node, log.name),
		func(context.Context) (*logview.Index, error) { return logview.NewIndex(), nil })
	return log, err
}

// pageBegin is where the page of a log begins that a request asks for, and how much it may show.
type pageBegin struct {
	offset int64
	end    int64 // where the page ends at the latest
	lines  int   // how many the page has at most
	line   int64 // the number of the requested line; 0: the request names none
	last   bool  // the log's end is requested
	beyond bool  // the requested line or time is behind the log's end
}

// pageStart finds where the page begins that a request asks for, by the first of these parameters that it has: line,
// time, end, until, near, offset. A parameter that cannot be read is a *param.Error; the page is the log's first one
// then.
func pageStart(ctx context.Context, session Session, log openedLog, form url.Values) (begin pageBegin,
	err error) {
	p := param.Form{Values: form}
	var times param.Times
	if form.Get("time") != "" {
		if times, err = TimesOf(ctx, session.Moment); err != nil {
			return pageBegin{}, err
		}
	}
	offset, near, until := placeParam(&p, "offset"), placeParam(&p, "near"), placeParam(&p, "until")
	at := p.Time("time", times)
	begin.end = log.size
	begin.line, begin.last = placeParam(&p, "line"), p.Bool("end")
	if begin.lines = countParam(&p, "lines"); begin.lines == 0 || begin.lines > logview.PageLines {
		begin.lines = logview.PageLines
	}
	switch {
	case p.Err != nil:
		return pageBegin{end: log.size, lines: logview.PageLines}, p.Err
	case begin.line > 0:
		begin.offset, begin.beyond, err = lineStart(ctx, log, begin.line)
	case at != 0:
		begin.offset, err = dashboard.LogOffset(ctx, session.Moment, log.file, at)
		begin.beyond = begin.offset >= log.size
	case begin.last:
		begin.offset, err = log.index.Before(ctx, log.file, log.size, begin.lines)
	case until > 0:
		begin.end = min(until, log.size)
		begin.offset, err = log.index.Before(ctx, log.file, begin.end, begin.lines)
	case near > 0:
		const oneLine = 1 // that which near is in
		begin.offset, err = log.index.Before(ctx, log.file, min(near, log.size), oneLine)
	default:
		begin.offset = offset
	}
	begin.offset = min(begin.offset, log.size)
	return begin, err
}

const (
	// linesBefore is how many lines are shown before a requested line, if they have no more bytes than bytesBefore.
	linesBefore = 20
	bytesBefore = 64 << 10
)

// lineStart returns where the page begins that shows a line, counted from 1: linesBefore lines before it or, if these
// have more than bytesBefore bytes, at the line itself. beyond says that the log has no such line.
func lineStart(ctx context.Context, log openedLog, line int64) (offset int64, beyond bool, err error) {
	at, err := lineOffset(ctx, log, line)
	if err != nil {
		return 0, false, err
	}
	if offset, err = lineOffset(ctx, log, max(1, line-linesBefore)); err != nil {
		return 0, false, err
	}
	if at-offset > bytesBefore { // the lines before it are so long that it might not be in view
		offset = at
	}
	return offset, at >= log.size, nil
}

// lineOffset returns where a line, counted from 1, begins in a log; behind the last line it is the log's size or more.
// The error is errCounting if the lines before it cannot be counted within countWait.
func lineOffset(ctx context.Context, log openedLog, line int64) (int64, error) {
	counting, cancel := context.WithTimeoutCause(ctx, countWait, errCounting)
	defer cancel()
	offset, err := log.index.Offset(counting, log.file, line)
	if err != nil && ctx.Err() == nil && counting.Err() != nil {
		err = errCounting
	}
	return offset, err
}

// errCounting says that it is not known yet where a line begins.
var errCounting = &problem.Problem{
	Status: http.StatusServiceUnavailable, RetryAfter: 1, Title: "The log's lines are being counted",
	Detail: "The log is large, and the lines before this one are still being counted.",
	Advice: "Reload the page: counting continues where it stopped.",
}

func noLogProblem(node rayid.Node, file string) *problem.Problem {
	return &problem.Problem{
		Status: http.StatusNotFound, Title: "This log is not stored",
		Detail: fmt.Sprintf("Node %.12s has no log %.200q.", node, file),
		Advice: "Choose one on the dashboard's Logs page, or search all logs.",
	}
}

// webNode returns a node as pages name it: with its address and role, if these are known.
func webNode(nodes moment.Nodes, id rayid.Node) web.Node {
	n := web.Node{ID: id.String()}
	if known := nodes.ByID[n.ID]; known != nil {
		n.IP, n.Role = known.IP, "worker"
		if known.Head {
			n.Role = "head"
		}
	}
	return n
}
