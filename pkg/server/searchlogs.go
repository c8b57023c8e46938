package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/klauspost/compress/gzhttp"

	"github.com/rayhistory/historyserver/pkg/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/logsearch"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

const (
	// maxSearches is how many searches of logs run at once.
	maxSearches = 2
	// SearchMemory is what searches of logs take together at most, in bytes.
	SearchMemory = maxSearches * logsearch.MaxMemory
	// searchWait is how long a search waits for its turn.
	searchWait = 5 * time.Second
)

// addLogs adds what is about a session's logs.
func (s *Server) addLogs(ws *restful.WebService) {
	if s.opts.Dashboard == nil {
		return
	}
	s.get(ws, "/search", s.searchPage)
	s.get(ws, "/log", s.logPage)
	s.get(ws, "/api/history/search", s.searchSession)
	s.get(ws, "/api/history/logs.zip", s.logArchive)
}

// searchSession searches the logs of the chosen session as they were at the moment shown.
func (s *Server) searchSession(w http.ResponseWriter, r *request) error {
	q, err := searchQuery(r.URL.Query())
	if err != nil {
		return err
	}
	l, err := s.loadChosen(r)
	if err != nil {
		return err
	}
	defer l.release()
	if err := s.withDriver(r.Context(), l.session, &q.Selection); err != nil {
		return err
	}
	source, err := s.logsOf(r.Context(), l.entry, l.session)
	if err != nil {
		return err
	}
	if l.at != 0 {
		source.End = func(ctx context.Context, node rayid.Node, file string) (int64, error) {
			return s.opts.Dashboard.LogEnd(ctx, l.session, l.at, node, file)
		}
		source.Link = lineLink(fmt.Sprintf("%sat/%d/", sessionPath(l.entry), l.at/int64(time.Millisecond)))
	}
	return s.search(w, r, q, func(yield func(logsearch.Source, error) bool) { yield(source, nil) })
}

// searchCluster searches the logs of all sessions of a cluster that may have lines of the time asked for, the newest first.
func (s *Server) searchCluster(w http.ResponseWriter, r *request) error {
	q, err := searchQuery(r.URL.Query())
	if err != nil {
		return err
	}
	of := s.sessions.list(r.Context())
	if of.Err != nil {
		return of.Err
	}
	var entries []catalog.Entry
	for _, e := range of.Entries {
		if e.Ref.Namespace == r.params[paramNamespace] && e.Ref.Cluster == r.params[paramCluster] && e.Ref.Name != catalog.Live {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return catalog.ErrNoSession
	}
	return s.search(w, r, q, s.sourcesOf(r.Context(), entries, q))
}

// sourcesOf lists the logs of sessions when their turn comes.
func (s *Server) sourcesOf(ctx context.Context, entries []catalog.Entry, q *logsearch.Query) iter.Seq2[logsearch.Source, error] {
	return func(yield func(logsearch.Source, error) bool) {
		for _, e := range entries {
			if q.To != 0 && e.Start.UnixNano() >= q.To || q.From != 0 && !e.Running && !e.End.IsZero() && e.LastWrite.UnixNano() < q.From {
				continue
			}
			listed, err := s.opts.ListLogs(ctx, e.Ref)
			var source logsearch.Source
			if err == nil {
				source, err = s.logsOf(ctx, e, listed)
			}
			if !yield(source, err) {
				return
			}
		}
	}
}

// logsOf are the logs of a session, to be searched whole.
func (s *Server) logsOf(ctx context.Context, e catalog.Entry, of *session.Session) (logsearch.Source, error) {
	zone, err := s.opts.Dashboard.Zone(ctx, of)
	return logsearch.Source{Session: e.Ref.Name, Logs: of.Logs, Zone: zone, Link: lineLink(sessionPath(e))}, err
}

// withDriver adds the driver of a selected submission, whose ID is in the names of its workers' logs.
func (s *Server) withDriver(ctx context.Context, of *session.Session, selected *logsearch.Selection) error {
	if selected.Submission == "" || selected.Job != "" {
		return nil
	}
	jobs, err := s.opts.Dashboard.JobsOf(ctx, of)
	for _, job := range jobs {
		if job.SubmissionID == selected.Submission {
			selected.Job = job.ID
		}
	}
	return err
}

// lineLink gives addresses of lines in the log viewer, relative to the server's root. path is the session's.
func lineLink(path string) func(rayid.Node, string, int64) string {
	return func(node rayid.Node, file string, line int64) string {
		return fmt.Sprintf("%slog?node_id=%s&file=%s&line=%d#L%d", path, node, url.QueryEscape(file), line, line)
	}
}

// search runs a search and sends its records as they come, a line of JSON each.
func (s *Server) search(w http.ResponseWriter, r *request, q *logsearch.Query, sources iter.Seq2[logsearch.Source, error]) error {
	release, err := turn(r.Context(), s.searches)
	if err != nil {
		return err
	}
	defer release()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(gzhttp.HeaderNoCompression, "1") // it would hold back the first records
	if r.Method == http.MethodHead {
		return nil
	}
	out := newDeadlineWriter(w)
	defer out.end()
	encode, control := json.NewEncoder(out), http.NewResponseController(out)
	err = logsearch.Run(r.Context(), q, sources, func(record logsearch.Record) error {
		if err := encode.Encode(record); err != nil {
			return errClientGone
		}
		_ = control.Flush() // a test's recorder cannot
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errClientGone), r.Context().Err() != nil:
		return nil
	}
	s.opts.Log.WithError(err).WithField("path", r.URL.Path).Warn("cannot finish a search of logs")
	panic(http.ErrAbortHandler) // the answer has begun: cutting the connection is the only way to say that it is not whole
}

// errClientGone says that an answer could not be sent.
var errClientGone = errors.New("the client went away")

// turn waits for one of the turns that a channel has place for.
func turn(ctx context.Context, turns chan struct{}) (release func(), err error) {
	wait := time.NewTimer(searchWait)
	defer wait.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-wait.C:
		return nil, budget.ErrBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
