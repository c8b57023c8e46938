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
	// archiveWait is how long an archive that had its time waits for its next turn.
	archiveWait = 2 * time.Minute
)

// Archive returns the handler that sends the logs of a session, a node or a job as one archive, as they were at the
// moment shown.
func (h *Handlers) Archive(format logarchive.Format) func(http.ResponseWriter, *http.Request, Session) error {
	return func(w http.ResponseWriter, r *http.Request, of Session) error { return h.archive(w, r, of, format) }
}

// archive answers with the selected logs in one file.
func (h *Handlers) archive(w http.ResponseWriter, r *http.Request, session Session, format logarchive.Format) error {
	selected := selection(r.URL.Query())
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
	out := &shared{ResponseWriter: answer, slots: h.archives, request: r}
	if err := out.turn(turnWait); err != nil {
		return err
	}
	defer func() { out.done() }()
	w.Header().Set("Content-Type", format.Type)
	// names that layout has checked
	w.Header().Set("Content-Disposition", `attachment; filename="`+session.Entry.Ref.Cluster+"-"+
		session.Entry.Ref.Name+"-logs"+format.Suffix+`"`)
	w.Header().Set(gzhttp.HeaderNoCompression, "1")
	if r.Method == http.MethodHead {
		return nil
	}
	if err := logarchive.Write(r.Context(), out, format, opts); err != nil {
		h.opts.Log.WithError(err).WithField("path", r.URL.Path).Debug("an archive of logs was not sent completely")
		return answer.Cut(err)
	}
	return nil
}

// shared writes an archive in turns with others. An archive that had its time gives its slot to those who wait at once,
// even while its client reads slowly, and goes on when it is its turn again.
type shared struct {
	http.ResponseWriter
	slots   *turns.Slots
	request *http.Request
	working context.Context // ends when the turn does
	done    func()
}

// turn waits for the next turn.
func (s *shared) turn(wait time.Duration) error {
	working, done, err := turn(s.request, s.slots, wait)
	if err == nil {
		s.working, s.done = working, done
		context.AfterFunc(working, done)
	}
	return err
}

// Write waits for the next turn first if the last one is over.
func (s *shared) Write(p []byte) (int, error) {
	if errors.Is(context.Cause(s.working), turns.ErrEnded) {
		if err := s.turn(archiveWait); err != nil {
			return 0, err
		}
	}
	return s.ResponseWriter.Write(p)
}
