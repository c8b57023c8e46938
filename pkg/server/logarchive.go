package server

import (
	"context"
	"net/http"

	"github.com/klauspost/compress/gzhttp"

	"github.com/rayhistory/historyserver/pkg/logarchive"
	"github.com/rayhistory/historyserver/pkg/logsearch"
)

// maxArchives is how many archives of logs are sent at once: each compresses as fast as its client reads.
const maxArchives = 4

// logArchive sends the logs of a session, a node or a job as a zip archive, as they were at the moment shown.
func (s *Server) logArchive(w http.ResponseWriter, r *request) error {
	selected := selection(r.URL.Query())
	if err := selected.Prepare(); err != nil {
		return badRequest(err)
	}
	l, err := s.loadChosen(r)
	if err != nil {
		return err
	}
	defer l.release()
	if err := s.withDriver(r.Context(), l.session, &selected); err != nil {
		return err
	}
	opts := logarchive.Options{Logs: l.session.Logs, Selected: selected.Of(l.session.Logs), Failed: func(log logsearch.Log, err error) {
		s.opts.Log.WithError(err).WithField("log", log.Path).Warn("a log in an archive is not whole")
	}}
	if len(opts.Selected) == 0 {
		return &problem{Status: http.StatusNotFound, Title: "No such logs", Detail: "The session has no logs of this node, job or name.", Advice: "Leave out the parameters to get all logs."}
	}
	if l.at != 0 {
		opts.End = func(ctx context.Context, log logsearch.Log) (int64, error) {
			return s.opts.Dashboard.LogEnd(ctx, l.session, l.at, log.Node, log.Path)
		}
	}
	release, err := turn(r.Context(), s.archives)
	if err != nil {
		return err
	}
	defer release()
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="`+l.entry.Ref.Cluster+"-"+l.entry.Ref.Name+`-logs.zip"`) // names that layout has checked
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(gzhttp.HeaderNoCompression, "1")
	if r.Method == http.MethodHead {
		return nil
	}
	out := newDeadlineWriter(w)
	defer out.end()
	if err := logarchive.WriteZip(r.Context(), out, opts); err != nil {
		s.opts.Log.WithError(err).WithField("path", r.URL.Path).Debug("an archive of logs was not sent to its end")
		panic(http.ErrAbortHandler) // the answer has begun: cutting the connection is the only way to say that it is not whole
	}
	return nil
}
