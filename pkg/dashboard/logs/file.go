// Package logs answers with log files, completely or in part, and lists them (ray/dashboard/modules/log).
package logs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"path"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
)

// File is /api/v0/logs/file and /api/v0/logs/stream (get_logs in ray/dashboard/modules/state/state_head.py). A stream ends with the log; for a
// running session this is when the session ends.
func File(w http.ResponseWriter, r *request.Request) error {
	o, err := parseOptions(r)
	if err == nil {
		var asked part
		if asked, err = resolveLog(r, &o); err == nil {
			return sendLog(w, r, &o, asked)
		}
	}
	var refused *reply.Error
	if errors.As(err, &refused) {
		return reply.Text(w, refused.Status, refused.Text)
	}
	return err
}

// sendLog sends the last lines of a part of a log (StreamLog in ray/dashboard/modules/log/log_agent.py).
func sendLog(w http.ResponseWriter, r *request.Request, o *options, asked part) error {
	ctx := r.Context()
	f, err := r.Session.Logs.Open(ctx, asked.node, asked.path)
	if err != nil {
		return err
	}
	start := asked.start
	if o.lines != -1 {
		tail, err := f.TailStart(ctx, asked.end, o.lines, asked.end) // as Ray does, however long they are
		if err != nil {
			return err
		}
		start = max(start, tail)
	}
	following := o.mediaType == "stream" && asked.open && r.Runs(ctx)
	if start >= asked.end && !following {
		// Ray before 2.58 fails to send nothing: its clients expect an error.
		if old, err := r.OlderThan(r.Context(), 58); err != nil || old {
			reply.Text(w, http.StatusInternalServerError, "There are no lines to show: the log is empty.")
			return err
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Disposition", attachment(cmp.Or(o.downloadName, path.Base(asked.path))))
	out := &startedWriter{w: w}
	if following {
		out.w = flushed{w}
		if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	var target io.Writer = out
	filter := &ansiFilter{w: out}
	if o.filterANSI {
		target = filter
	}
	err = f.WriteRange(ctx, target, start, asked.end)
	if err == nil && asked.unsure {
		_, err = io.WriteString(target, unsureNotice(r))
	}
	if err == nil && following {
		err = follow(ctx, f, asked.end, r.Running, target)
	}
	if err != nil {
		if out.started {
			if !errors.Is(err, context.Canceled) {
				r.Log.WithError(err).WithField("url", r.URL.String()).Error("read log")
			}
			panic(http.ErrAbortHandler) // the answer has begun: only a broken connection can show that it is incomplete
		}
		w.Header().Del("Content-Disposition")
		return err
	}
	filter.flush()
	return nil
}

// startedWriter knows whether anything was sent.
type startedWriter struct {
	w       io.Writer
	started bool
}

func (s *startedWriter) Write(p []byte) (int, error) {
	s.started = s.started || len(p) > 0
	return s.w.Write(p)
}
