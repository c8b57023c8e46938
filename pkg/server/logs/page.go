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

// countWait is how long a page waits until the lines before it are counted. What was counted is kept for the next
// request.
const countWait = 5 * time.Second

// Page is a page of a log: the one that begins at ?offset=, with the line that has a byte, ?near=, the one with ?line=
// or ?time=, the log's ?end=, the one that ends at ?until=, or its first one. It has at most ?lines=.
func (h *Handlers) Page(w http.ResponseWriter, r *http.Request, session Session) error {
	form := r.URL.Query()
	log, err := h.open(r.Context(), session, form)
	if err != nil {
		return err
	}
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	page := web.Log{
		Frame: visible.FrameOf(r, session.Entry, "search"), Node: nodeOf(nodes, log.node),
		File: log.name, Size: log.size,
		Previous: -1, Form: form, Shown: -1,
	}
	status := http.StatusOK
	begin, err := pageStart(r.Context(), session, log, form)
	var wrong *param.Error
	if errors.As(err, &wrong) {
		status, page.Wrong, err = http.StatusBadRequest, web.Wrong{Error: *wrong}, nil
	}
	if err == nil && begin.beyond {
		begin.last = true
		begin.offset, err = log.index.Before(r.Context(), log.file, log.size, begin.lines)
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
	if err := number(r.Context(), &page, log, begin.offset); err != nil {
		return err
	}
	page.Show(begin.line, begin.beyond, begin.last)
	web.Write(w, status, page)
	return nil
}

// number sets the numbers of a page's lines, if they can be counted soon.
func number(ctx context.Context, page *web.Log, log openedLog, start int64) error {
	counting, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	first, err := log.index.Number(counting, log.file, start)
	if page.Numbered = err == nil; page.Numbered {
		for i := range page.Page.Lines {
			page.Page.Lines[i].Number = first + int64(i)
		}
	} else if counting.Err() == nil || ctx.Err() != nil {
		return err
	}
	return nil
}

// openedLog is a log of a session.
type openedLog struct {
	node  rayid.Node
	name  string
	file  *sessionlogs.File
	size  int64 // at the moment shown
	index *logview.Index
}

// open opens the log that ?node_id= and ?file= name.
func (h *Handlers) open(ctx context.Context, session Session, form url.Values) (log openedLog, err error) {
	log.name = form.Get("file")
	if log.node, err = rayid.Parse[rayid.Node](form.Get("node_id")); err != nil {
		return log, &param.Error{Name: "node_id", Value: form.Get("node_id"),
			Want: "the ID of a node, 56 hexadecimal digits"}
	}
	log.file, err = session.Session.Logs.Open(ctx, log.node, log.name)
	if errors.Is(err, os.ErrNotExist) {
		return log, noLog(log.node, log.name)
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

// start is where a page of a log begins, and what is to be seen of it.
type start struct {
	offset int64
	end    int64 // where the page ends at the latest
	lines  int   // that the page has at most
	line   int64 // the number of the line that was asked for; 0: none, or the page's first
	last   bool  // the page's end is asked for
	beyond bool  // the line or time that was asked for is behind the log's end
}

// pageStart is where the page begins that a request asks for. A line or time that cannot be read is a *param.Error.
func pageStart(ctx context.Context, session Session, log openedLog, form url.Values) (begin start,
	err error) {
	p := param.Form{Values: form}
	var meant param.Times
	if form.Get("time") != "" {
		if meant, err = TimesOf(ctx, session.Moment); err != nil {
			return start{}, err
		}
	}
	offset, at, near, until := place(&p, "offset"), p.Time("time", meant), place(&p, "near"), place(&p, "until")
	begin.end = log.size
	begin.line, begin.last = place(&p, "line"), p.Bool("end")
	if begin.lines = count(&p, "lines"); begin.lines == 0 || begin.lines > logview.PageLines {
		begin.lines = logview.PageLines
	}
	switch {
	case p.Err != nil:
		return start{end: log.size, lines: logview.PageLines}, p.Err
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
		begin.offset, err = log.index.Before(ctx, log.file, min(near, log.size), 1)
	default:
		begin.offset = offset
	}
	begin.offset = min(begin.offset, log.size)
	return begin, err
}

const (
	// linesBefore is how many lines are shown before a line that was asked for, if they are not more than bytesBefore.
	linesBefore = 20
	bytesBefore = 64 << 10
)

// lineStart is where the page with a line begins. The line is beyond the log's end if the log has fewer.
func lineStart(ctx context.Context, log openedLog, line int64) (offset int64, beyond bool, err error) {
	at, err := lineOffset(ctx, log, line)
	if err != nil {
		return 0, false, err
	}
	if offset, err = lineOffset(ctx, log, max(1, line-linesBefore)); err != nil {
		return 0, false, err
	}
	if at-offset > bytesBefore {
		offset = at
	}
	return offset, at >= log.size, nil
}

// lineOffset is where a line begins; errCounting if the lines before are still being counted.
func lineOffset(ctx context.Context, log openedLog, line int64) (int64, error) {
	counting, cancel := context.WithTimeoutCause(ctx, countWait, errCounting)
	defer cancel()
	offset, err := log.index.Offset(counting, log.file, line)
	if err != nil && ctx.Err() == nil && counting.Err() != nil {
		err = errCounting
	}
	return offset, err
}

// errCounting says that a line's place is not known yet.
var errCounting = &problem.Problem{
	Status: http.StatusServiceUnavailable, RetryAfter: 1, Title: "The log's lines are being counted",
	Detail: "The log is large, and the lines before this one are still being counted.",
	Advice: "Reload the page: counting continues where it stopped.",
}

func noLog(node rayid.Node, file string) *problem.Problem {
	return &problem.Problem{
		Status: http.StatusNotFound, Title: "This log is not stored",
		Detail: fmt.Sprintf("Node %.12s has no log %.200q.", node, file),
		Advice: "Choose one on the dashboard's Logs page, or search all logs.",
	}
}

// nodeOf is a node as pages name it.
func nodeOf(nodes moment.Nodes, id rayid.Node) web.Node {
	n := web.Node{ID: id.String()}
	if known := nodes.ByID[n.ID]; known != nil {
		n.IP, n.Role = known.IP, "worker"
		if known.Head {
			n.Role = "head"
		}
	}
	return n
}
