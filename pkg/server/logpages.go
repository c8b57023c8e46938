package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/logview"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/server/web"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// countWait is how long a page waits until the lines before it are counted. What was counted is kept for the next request.
const countWait = 5 * time.Second

// loaded is a chosen session that is loaded until release.
type loaded struct {
	choice
	entry   catalog.Entry
	session *session.Session
	release func()
}

// loadChosen loads the session that a request is about.
func (s *Server) loadChosen(r *request) (l loaded, err error) {
	if l.choice, err = choose(r); err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.opts.LoadWait, errWaited)
	defer cancel()
	l.entry, l.session, l.release, err = s.load(ctx, l.choice)
	return l, err
}

// searchPage is the page that searches a session's logs.
func (s *Server) searchPage(w http.ResponseWriter, r *request) error {
	l, err := s.loadChosen(r)
	if err != nil {
		return err
	}
	defer l.release()
	page := web.Search{
		Base: base(r.Request), Cluster: l.entry.Ref.Cluster, Namespace: l.entry.Ref.Namespace, Session: l.entry.Ref.Name,
		Form: r.URL.Query(),
	}
	for _, node := range l.session.Logs.Nodes() {
		page.Nodes = append(page.Nodes, node.String())
	}
	w.Header().Set("Cache-Control", "no-store")
	s.page(w, http.StatusOK, page)
	return nil
}

// logPage is a page of a log: the one that begins at ?offset=, ?line= or ?time=, the log's ?end=, or its first one.
func (s *Server) logPage(w http.ResponseWriter, r *request) error {
	l, err := s.loadChosen(r)
	if err != nil {
		return err
	}
	defer l.release()
	form := r.URL.Query()
	node, err := rayid.Parse[rayid.Node](form.Get("node_id"))
	if err != nil {
		return badRequest(fmt.Errorf("node_id=%.80s: want the ID of a node, in hex", form.Get("node_id")))
	}
	file, err := l.session.Logs.Open(r.Context(), node, form.Get("file"))
	if errors.Is(err, os.ErrNotExist) {
		return noLog(node, form.Get("file"))
	}
	if err != nil {
		return err
	}
	page := web.Log{
		Base: base(r.Request), Cluster: l.entry.Ref.Cluster, Namespace: l.entry.Ref.Namespace, Session: l.entry.Ref.Name,
		NodeID: node.String(), File: form.Get("file"), Size: file.Size(), Previous: -1,
	}
	if l.at != 0 {
		if page.Size, err = s.opts.Dashboard.LogEnd(r.Context(), l.session, l.at, node, page.File); err != nil {
			return err
		}
	}
	index := s.lineIndexes.Of(fmt.Sprintf("%s %s %s", l.entry.Ref, node, page.File))
	start, err := s.pageStart(r.Context(), l.session, file, index, form, page.Size)
	if err != nil {
		return err
	}
	if page.Page, err = logview.Read(r.Context(), file, start, page.Size); err != nil {
		return err
	}
	if start > 0 {
		if page.Previous, err = logview.Before(r.Context(), file, start); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), countWait)
	defer cancel()
	first, err := index.Number(ctx, file, start)
	if page.Numbered = err == nil; page.Numbered {
		for i := range page.Page.Lines {
			page.Page.Lines[i].Number = first + int64(i)
		}
	} else if ctx.Err() == nil || r.Context().Err() != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	s.page(w, http.StatusOK, page)
	return nil
}

// pageStart is where the page begins that a request asks for, in a log that ends at end.
func (s *Server) pageStart(ctx context.Context, of *session.Session, file *sessionlogs.File, index *logview.Index, form url.Values, end int64) (start int64, err error) {
	p := params{form: form}
	line, offset, moment, last := p.int64("line"), p.int64("offset"), p.moment("time"), p.bool("end")
	switch {
	case p.err != nil:
		return 0, badRequest(p.err)
	case line > 0:
		counting, cancel := context.WithTimeoutCause(ctx, countWait, errCounting)
		defer cancel()
		start, err = index.Offset(counting, file, max(1, line-linesBefore))
		if err != nil && ctx.Err() == nil && counting.Err() != nil {
			err = errCounting
		}
	case moment != 0:
		start, err = s.opts.Dashboard.LogOffset(ctx, of, file, moment)
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
var errCounting = &problem{
	Status: http.StatusServiceUnavailable, RetryAfter: 1, Title: "The log's lines are being counted",
	Detail: "The log is large, and the lines before this one are still being counted.", Advice: "Reload the page: counting goes on where it stopped.",
}

func noLog(node rayid.Node, file string) *problem {
	return &problem{
		Status: http.StatusNotFound, Title: "This log is not stored", Detail: fmt.Sprintf("Node %.12s has no log %.200q.", node, file),
		Advice: "Choose one on the dashboard's Logs page, or search all logs.",
	}
}
