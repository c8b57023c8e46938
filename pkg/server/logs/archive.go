package logs

import (
	"context"
	"net/http"

	"github.com/klauspost/compress/gzhttp"

	"github.com/rayhistory/historyserver/pkg/logarchive"
	"github.com/rayhistory/historyserver/pkg/logsearch"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// maxArchives is how many archives of logs are sent at once: each compresses as fast as its client reads.
const maxArchives = 4

// Archive returns the handler that sends the logs of a session, a node or a job as one archive, as they were at the moment shown.
func (h *Handlers) Archive(format logarchive.Format) func(http.ResponseWriter, *http.Request, Session) error {
	return func(w http.ResponseWriter, r *http.Request, of Session) error { return h.archive(w, r, of, format) }
}

func (h *Handlers) archive(w http.ResponseWriter, r *http.Request, of Session, format logarchive.Format) error {
	selected := selection(r.URL.Query())
	if err := selected.Prepare(); err != nil {
		return problem.BadRequest(err)
	}
	if err := h.withDriver(r.Context(), of.Session, &selected); err != nil {
		return err
	}
	opts := logarchive.Options{Logs: of.Session.Logs, Selected: selected.Of(of.Session.Logs), Failed: func(log logsearch.Log, err error) {
		h.opts.Log.WithError(err).WithField("log", log.Path).Warn("a log in an archive is incomplete")
	}}
	if len(opts.Selected) == 0 {
		return &problem.Problem{Status: http.StatusNotFound, Title: "No such logs", Detail: "The session has no logs of this node, job or name.", Advice: "Leave out the parameters to get all logs."}
	}
	if of.At != 0 {
		opts.End = func(ctx context.Context, log logsearch.Log) (int64, error) {
			return h.opts.Dashboard.LogEnd(ctx, of.Session, of.At, log.Node, log.Path)
		}
	}
	release, err := turn(r.Context(), h.archives)
	if err != nil {
		return err
	}
	defer release()
	w.Header().Set("Content-Type", format.Type)
	w.Header().Set("Content-Disposition", `attachment; filename="`+of.Entry.Ref.Cluster+"-"+of.Entry.Ref.Name+"-logs"+format.Suffix+`"`) // names that layout has checked
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(gzhttp.HeaderNoCompression, "1")
	if r.Method == http.MethodHead {
		return nil
	}
	if err := logarchive.Write(r.Context(), w, format, opts); err != nil {
		h.opts.Log.WithError(err).WithField("path", r.URL.Path).Debug("an archive of logs was not sent completely")
		panic(http.ErrAbortHandler) // the answer has begun: cutting the connection is the only way to say that it is not whole
	}
	return nil
}
