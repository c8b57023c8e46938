package logs

import (
	"bytes"
	"io"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Job is /api/jobs/{job_or_submission_id}/logs: the whole log of a submission in a JSON string, written as it is read.
func Job(w http.ResponseWriter, r *request.Request) error {
	f, cut, ok, err := submissionLogFile(w, r)
	if !ok || err != nil {
		return err
	}
	if f == nil {
		return reply.JSON(w, http.StatusOK, pyjson.Obj("logs", ""))
	}
	w.Header().Set("Content-Type", reply.JSONType)
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
