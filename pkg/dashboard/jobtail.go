package dashboard

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"unicode/utf8"

	"golang.org/x/net/websocket"

	"github.com/rayhistory/historyserver/pkg/session"
)

// submissionLogFile opens the log of the submission that a request names. It answers itself, and gives ok false, where there is no such job
// or Ray has no log of it; f is nil where the log is empty.
func (d *Dashboard) submissionLogFile(w http.ResponseWriter, r *Request) (f *session.LogFile, ok bool, err error) {
	id := r.Params["job_or_submission_id"]
	table, err := d.jobTable(r)
	if err != nil {
		return nil, false, err
	}
	row := table.find(id)
	switch {
	case row == nil:
		writeText(w, http.StatusNotFound, "Job "+id+" does not exist")
		return nil, false, nil
	case row.String("type") != typeSubmission:
		writeText(w, http.StatusBadRequest, "Can only get logs of submission type jobs")
		return nil, false, nil
	case row.Get("driver_node_id") == nil:
		// Ray asks the driver's node for the log; the message of a job that got to none says what happened.
		return nil, true, nil
	}
	submission := row.String("submission_id")
	f, err = r.Session.Logs.Open(r.Context(), d.logNames(r.Session).jobs[submission], jobLogPrefix+submission+logSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil, true, nil
	}
	return f, err == nil, err
}

// jobLogTail is /api/jobs/{job_or_submission_id}/logs/tail, a WebSocket that sends the log as texts. It is closed at the log's end: a
// stored job writes no more.
func (d *Dashboard) jobLogTail(w http.ResponseWriter, r *Request) error {
	f, ok, err := d.submissionLogFile(w, r)
	if !ok || err != nil {
		return err
	}
	websocket.Server{Handler: func(ws *websocket.Conn) {
		if f != nil {
			if err := f.WriteRange(r.Context(), &textFrames{ws: ws}, 0, f.Size()); err != nil {
				d.opts.Log.WithError(err).WithField("url", r.URL.String()).Warn("send job log")
				return // without a close frame clients know that it is not whole
			}
		}
		_ = ws.Close() // says that this is the end; the client going away is no error of ours
	}}.ServeHTTP(hijackable{w}, r.Request)
	return nil
}

// textFrames sends what is written to it as WebSocket texts, which must not be cut within a character.
type textFrames struct {
	ws   io.Writer
	rest []byte
}

func (t *textFrames) Write(p []byte) (int, error) {
	text := append(t.rest, p...)
	whole := len(text) - cutCharacter(text)
	if whole > 0 {
		if _, err := t.ws.Write(bytes.ToValidUTF8(text[:whole], []byte("\uFFFD"))); err != nil {
			return 0, err
		}
	}
	t.rest = append([]byte(nil), text[whole:]...)
	return len(p), nil
}

// cutCharacter is how many bytes at the end of text are the beginning of a character.
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

// hijackable lets a connection be taken over through whatever wraps its writer.
type hijackable struct{ http.ResponseWriter }

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}
