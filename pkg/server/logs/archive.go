package logs

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logarchive"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

const (
	// maxArchives is how many archives of logs are made at once: each compresses as fast as its client reads.
	maxArchives = 4
	// archiveWait is how long an archive whose turn has ended waits for its next one.
	archiveWait = 2 * time.Minute
)

// Archive answers with the logs of a session, a node or a job in one file, as they were at the moment shown. It takes
// turns with other archives. If it cannot be sent completely, the answer is cut off, so that the client sees that.
func (h *Handlers) Archive(w http.ResponseWriter, r *http.Request, session Session, format logarchive.Format) error {
	selected := selectionOf(r.URL.Query())
	if err := selected.Prepare(); err != nil {
		return problem.BadRequest(err)
	}
	if err := withDrivers(r.Context(), session.Moment, &selected); err != nil {
		return err
	}
	opts := logarchive.Options{Logs: session.Session.Logs, Selected: selected.Of(session.Session.Logs),
		Failed: func(log logsearch.Log, err error) {
			h.opts.Log.WithError(err).WithField("log", log.Path).Warn("a log in an archive is incomplete")
		}}
	if len(opts.Selected) == 0 {
		return &problem.Problem{Status: http.StatusNotFound, Title: "No such logs",
			Detail: "The session has no logs of this node, job or name.",
			Advice: "Leave out the parameters to get all logs."}
	}
	if session.At != 0 {
		opts.End = func(ctx context.Context, log logsearch.Log) (int64, error) {
			return dashboard.LogEnd(ctx, session.Moment, log.Node, log.Path)
		}
	}
	answer := &dashboard.Answer{ResponseWriter: w}
	out := &turnWriter{ResponseWriter: answer, slots: h.archives, request: r}
	if err := out.takeTurn(turnWait); err != nil {
		return err
	}
	defer func() { out.done() }() // that of the last turn: Write may have taken further ones
	w.Header().Set("Content-Type", format.Type)
	// The names need no quoting: package layout has checked them.
	w.Header().Set("Content-Disposition", `attachment; filename="`+session.Entry.Ref.Cluster+"-"+
		session.Entry.Ref.Name+"-logs"+format.Suffix+`"`)
	w.Header().Set(gzhttp.HeaderNoCompression, "1") // an archive is compressed
	if r.Method == http.MethodHead {
		return nil
	}
	if err := logarchive.Write(r.Context(), out, format, opts); err != nil {
		h.opts.Log.WithError(err).WithField("path", r.URL.Path).Debug("an archive of logs was not sent completely")
		return answer.Cut(err)
	}
	return nil
}

// turnWriter is the writer of an archive that takes turns with others. When an archive's turn ends, its slot is free at
// once, even while the client reads slowly. The next Write waits for the archive's next turn.
type turnWriter struct {
	http.ResponseWriter
	slots   *turns.Slots
	request *http.Request
	working context.Context // ends when the turn does
	done    func()          // ends the turn; may be called again
}

// takeTurn waits for the next turn, at most wait.
func (s *turnWriter) takeTurn(wait time.Duration) error {
	working, done, err := takeTurn(s.request, s.slots, wait)
	if err == nil {
		s.working, s.done = working, done
		context.AfterFunc(working, done) // others wait, whether the client reads or not
	}
	return err
}

// Write writes p, after it has waited for the next turn if the last one has ended.
func (s *turnWriter) Write(p []byte) (int, error) {
	if errors.Is(context.Cause(s.working), turns.ErrEnded) {
		if err := s.takeTurn(archiveWait); err != nil {
			return 0, err
		}
	}
	return s.ResponseWriter.Write(p)
}
