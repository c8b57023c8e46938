package dashboard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// jobLog is /api/jobs/{job_or_submission_id}/logs: the whole log of a submission in a JSON string, written as it is read.
func jobLog(w http.ResponseWriter, r *Request) error {
	f, cut, ok, err := submissionLogFile(w, r)
	if !ok || err != nil {
		return err
	}
	if f == nil {
		return writeJSON(w, http.StatusOK, pyjson.Obj("logs", ""))
	}
	w.Header().Set("Content-Type", jsonType)
	escaped := &jsonStringWriter{w: w}
	if _, err := io.WriteString(w, `{"logs": "`); err != nil {
		return nil // the client went away
	}
	if err := cut.write(r.Context(), r, f, escaped); err != nil {
		r.Log.WithError(err).Error("read job log")
		panic(http.ErrAbortHandler) // the answer has begun: only a broken connection can show that it is incomplete
	}
	if err := escaped.flush(); err == nil {
		_, _ = io.WriteString(w, `"}`)
	}
	return nil
}

// jsonStringWriter writes text as the inside of a JSON string. Line ends become \n, as Python's text mode reads them.
type jsonStringWriter struct {
	w io.Writer
	// rest is what cannot be written yet: the start of a character, or a carriage return that a newline may follow.
	rest []byte
	buf  []byte
}

func (j *jsonStringWriter) Write(p []byte) (int, error) {
	text := append(j.rest, p...)
	whole := len(text) - incomplete(text)
	if err := j.write(text[:whole]); err != nil {
		return 0, err
	}
	j.rest = append([]byte(nil), text[whole:]...)
	return len(p), nil
}

func (j *jsonStringWriter) flush() error { return j.write(j.rest) }

func (j *jsonStringWriter) write(text []byte) error {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	j.buf = pyjson.AppendString(j.buf[:0], string(text))
	_, err := j.w.Write(j.buf[1 : len(j.buf)-1])
	return err
}

// incomplete returns how many bytes at the end of text must wait for what follows.
func incomplete(text []byte) int {
	if len(text) > 0 && text[len(text)-1] == '\r' {
		return 1
	}
	return cutCharacter(text)
}

// submissionLogFile opens the log of the submission that a request names, up to cut. If there is no such job or Ray has no log of it, it answers
// the request itself and returns ok false. f is nil if the log is empty.
func submissionLogFile(w http.ResponseWriter, r *Request) (f *sessionlogs.File, cut cutPoint, ok bool, err error) {
	id := r.Params["job_or_submission_id"]
	jobs, err := r.Jobs(r.Context())
	if err != nil {
		return nil, cut, false, err
	}
	job := moment.FindJob(jobs, id)
	switch {
	case job == nil:
		writeText(w, http.StatusNotFound, "Job "+id+" does not exist")
		return nil, cut, false, nil
	case job.SubmissionID == "":
		writeText(w, http.StatusBadRequest, "Can only get logs of submission type jobs")
		return nil, cut, false, nil
	case job.Node.Nil():
		// Ray requests the log from the driver's node. If a job never reached a node, its message says what happened.
		return nil, cut, true, nil
	}
	log := moment.LogFile{Node: r.LogNames().Jobs[job.SubmissionID], Path: moment.SubmissionPrefix + job.SubmissionID + moment.Suffix}
	f, err = r.Session.Logs.Open(r.Context(), log.Node, log.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, cut, true, nil
	}
	if err == nil {
		cut, err = cutAt(r, f, log)
	}
	return f, cut, err == nil, err
}

// jobLogTail is /api/jobs/{job_or_submission_id}/logs/tail, a WebSocket that sends the log as texts. It is closed at the log's end: a
// stored job writes no more.
func jobLogTail(w http.ResponseWriter, r *Request) error {
	f, cut, ok, err := submissionLogFile(w, r)
	if !ok || err != nil {
		return err
	}
	ws, err := websocket.Accept(w, r.Request, nil) // pages of other sites are refused
	if err != nil {
		r.Log.WithError(err).WithField("url", r.URL.String()).Debug("no WebSocket for a job's log")
		return nil // it has been answered
	}
	defer func() { _ = ws.CloseNow() }()
	ctx := ws.CloseRead(r.Context()) // ends when the client leaves
	if f != nil {
		if err := cut.write(ctx, r, f, &textFrames{ctx: ctx, ws: ws}); err != nil {
			if ctx.Err() == nil {
				r.Log.WithError(err).WithField("url", r.URL.String()).Warn("send job log")
			}
			return nil // without a close frame clients know that the log is incomplete
		}
	}
	_ = ws.Close(websocket.StatusNormalClosure, "") // says that this is the end; it is not an error if the client has left
	return nil
}

// frameTimeout is how long a client may take to receive a part of a log before the connection is closed.
const frameTimeout = time.Minute

// textFrames sends what is written to it as WebSocket texts. They must not be cut within a character.
type textFrames struct {
	ctx  context.Context
	ws   *websocket.Conn
	rest []byte
}

func (t *textFrames) Write(p []byte) (int, error) {
	text := append(t.rest, p...)
	whole := len(text) - cutCharacter(text)
	if whole > 0 {
		ctx, cancel := context.WithTimeout(t.ctx, frameTimeout)
		defer cancel()
		if err := t.ws.Write(ctx, websocket.MessageText, bytes.ToValidUTF8(text[:whole], []byte("\uFFFD"))); err != nil {
			return 0, err
		}
	}
	t.rest = append([]byte(nil), text[whole:]...)
	return len(p), nil
}

// cutCharacter returns how many bytes at the end of text are the beginning of a character.
func cutCharacter(text []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(text)); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
