package logs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/logview"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/web"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// countWait is how long a page waits until the lines before it are counted. What was counted is kept for the next request.
const countWait = 5 * time.Second

// Page is a page of a log: the one that begins at ?offset=, ?line= or ?time=, the log's ?end=, or its first one.
func (h *Handlers) Page(w http.ResponseWriter, r *http.Request, of Session) error {
	form := r.URL.Query()
	log, err := h.open(r.Context(), of, form)
	if err != nil {
		return err
	}
	page := web.Log{
		Base: browser.Root(r), Cluster: of.Entry.Ref.Cluster, Namespace: of.Entry.Ref.Namespace, Session: of.Entry.Ref.Name,
		NodeID: log.node.String(), File: log.name, Size: log.size, Previous: -1,
	}
	start, err := h.pageStart(r.Context(), of.Session, log.file, log.index, form, page.Size)
	if err != nil {
		return err
	}
	if page.Page, err = logview.Read(r.Context(), log.file, start, page.Size); err != nil {
		return err
	}
	if start > 0 {
		if page.Previous, err = logview.Before(r.Context(), log.file, start); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), countWait)
	defer cancel()
	first, err := log.index.Number(ctx, log.file, start)
	if page.Numbered = err == nil; page.Numbered {
		for i := range page.Page.Lines {
			page.Page.Lines[i].Number = first + int64(i)
		}
	} else if ctx.Err() == nil || r.Context().Err() != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, http.StatusOK, page)
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
func (h *Handlers) open(ctx context.Context, of Session, form url.Values) (log openedLog, err error) {
	log.name = form.Get("file")
	if log.node, err = rayid.Parse[rayid.Node](form.Get("node_id")); err != nil {
		return log, problem.BadRequest(fmt.Errorf("node_id=%.80s: want the ID of a node, in hex", form.Get("node_id")))
	}
	log.file, err = of.Session.Logs.Open(ctx, log.node, log.name)
	if errors.Is(err, os.ErrNotExist) {
		return log, noLog(log.node, log.name)
	}
	if err != nil {
		return log, err
	}
	if log.size = log.file.Size(); of.At != 0 {
		if log.size, err = h.opts.Dashboard.LogEnd(ctx, of.Session, of.At, log.node, log.name); err != nil {
			return log, err
		}
	}
	log.index = h.lineIndexes.Of(fmt.Sprintf("%s %s %s", of.Entry.Ref, log.node, log.name))
	return log, nil
}

// pageStart is where the page begins that a request asks for, in a log that ends at end.
func (h *Handlers) pageStart(ctx context.Context, of *session.Session, file *sessionlogs.File, index *logview.Index, form url.Values, end int64) (start int64, err error) {
	p := params{form: form}
	line, offset, moment, last := p.int64("line"), p.int64("offset"), p.moment("time"), p.bool("end")
	switch {
	case p.err != nil:
		return 0, problem.BadRequest(p.err)
	case line > 0:
		counting, cancel := context.WithTimeoutCause(ctx, countWait, errCounting)
		defer cancel()
		start, err = index.Offset(counting, file, max(1, line-linesBefore))
		if err != nil && ctx.Err() == nil && counting.Err() != nil {
			err = errCounting
		}
	case moment != 0:
		start, err = h.opts.Dashboard.LogOffset(ctx, of, file, moment)
	case last:
		start, err = logview.Before(ctx, file, end)
	default:
		start = offset
	}
	return min(start, end), err
}

// linesBefore is how many lines are shown before a line that was asked for.
const linesBefore = 20

// errCounting says that a line's place is not known yet.
var errCounting = &problem.Problem{
	Status: http.StatusServiceUnavailable, RetryAfter: 1, Title: "The log's lines are being counted",
	Detail: "The log is large, and the lines before this one are still being counted.", Advice: "Reload the page: counting continues where it stopped.",
}

func noLog(node rayid.Node, file string) *problem.Problem {
	return &problem.Problem{
		Status: http.StatusNotFound, Title: "This log is not stored", Detail: fmt.Sprintf("Node %.12s has no log %.200q.", node, file),
		Advice: "Choose one on the dashboard's Logs page, or search all logs.",
	}
}
