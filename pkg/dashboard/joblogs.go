package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// jobLog is /api/jobs/{job_or_submission_id}/logs: the whole log of a submission in a JSON string, written as it is
// read.
func jobLog(w http.ResponseWriter, r *Request) error {
	log, answered, err := submissionOutput(w, r)
	if answered || err != nil {
		return err
	}
	if log.file == nil {
		return writeJSON(w, http.StatusOK, pyjson.Obj("logs", ""))
	}
	w.Header().Set("Content-Type", jsonType)
	answer := &Answer{ResponseWriter: w}
	out := bufio.NewWriter(answer) // holds the beginning back until some of the log was read
	escaped := jsonString(out)
	_, _ = out.WriteString(`{"logs": "`)
	if err := log.write(r.Context(), escaped, wholeLog, r.At); err != nil {
		return cutAnswer(answer, r, err)
	}
	if err := escaped.flush(); err == nil { // otherwise the client went away
		_, _ = out.WriteString(`"}`)
		_ = out.Flush()
	}
	return nil
}

// characters is a writer that passes text on in parts, whose ends cut nothing in two, such as a character. flush passes
// on what still waits.
type characters struct {
	pass func(text []byte) error // takes the next part
	// waits returns how many bytes at the end of a text must wait for what follows.
	waits func(text []byte) int
	rest  []byte // that waits
}

// Write implements io.Writer. It keeps the end of p that must wait for the next Write.
func (c *characters) Write(p []byte) (int, error) {
	text := append(c.rest, p...)
	whole := len(text) - c.waits(text)
	if whole > 0 {
		if err := c.pass(text[:whole]); err != nil {
			return 0, err
		}
	}
	c.rest = append([]byte(nil), text[whole:]...)
	return len(p), nil
}

func (c *characters) flush() error { return c.pass(c.rest) }

// jsonString writes text as the inside of a JSON string. Line ends become \n, as Python's text mode reads them.
func jsonString(w io.Writer) *characters {
	var buf []byte
	return &characters{waits: incompleteBytes, pass: func(text []byte) error {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
		buf = pyjson.AppendString(buf[:0], string(text))
		_, err := w.Write(buf[1 : len(buf)-1])
		return err
	}}
}

// incompleteBytes returns how many bytes at the end of text must wait for what follows.
func incompleteBytes(text []byte) int {
	if len(text) > 0 && text[len(text)-1] == '\r' {
		return 1
	}
	return cutCharacter(text)
}

// wholeLog is the offset from which a log is sent whole.
const wholeLog = 0

// submissionOutput opens the log of the submission that a request names, as far as it was written at the requested
// moment. If there is no such job, or it is a driver, of which Ray shows no log, it answers the request itself: then
// answered is true. The log has no file if nothing of it is stored.
func submissionOutput(w http.ResponseWriter, r *Request) (log part, answered bool, err error) {
	id := r.PathValue("job_or_submission_id")
	jobs, err := r.Jobs(r.Context())
	if err != nil {
		return part{}, false, err
	}
	job := moment.FindJob(jobs, id)
	switch {
	case job == nil:
		return part{}, true, writeText(w, http.StatusNotFound, "Job "+id+" does not exist")
	case job.SubmissionID == "":
		return part{}, true, writeText(w, http.StatusBadRequest, "Can only get logs of submission type jobs")
	case job.Node.Nil():
		// Ray requests the log from the driver's node. If a job never reached a node, its message says what happened.
		return part{}, false, nil
	}
	// Where the log is stored its name shows; job.Node says only that the driver had begun.
	node := r.LogNames().Jobs[job.SubmissionID] // nil if no log is stored: then openPart finds none
	log, _, err = openPart(r, moment.LogFile{Node: node, Path: moment.SubmissionLog(job.SubmissionID)})
	return log, false, err
}

// jobLogTail is /api/jobs/{job_or_submission_id}/logs/tail, a WebSocket that sends the whole log as texts. It is closed
// at the log's end, where Ray's waits for more: a stored job writes no more.
func jobLogTail(w http.ResponseWriter, r *Request) error {
	log, answered, err := submissionOutput(w, r)
	if answered || err != nil {
		return err
	}
	ws, err := websocket.Accept(w, r.Request, nil) // pages of other sites are refused
	if err != nil {
		r.Log.WithError(err).WithField("url", r.URL.String()).Debug("no WebSocket for a job's log")
		return nil // it has been answered
	}
	defer func() { _ = ws.CloseNow() }()
	ctx := ws.CloseRead(r.Context()) // ends when the client leaves
	if log.file != nil {             // nil if nothing of it is stored
		if err := log.write(ctx, textFrames(ctx, ws), wholeLog, r.At); err != nil {
			if ctx.Err() == nil {
				r.Log.WithError(err).WithField("url", r.URL.String()).Warn("send job log")
			}
			return nil // without a close frame clients know that the log is incomplete
		}
	}
	// The close frame says that this is the end. It is not an error if the client has left.
	_ = ws.Close(websocket.StatusNormalClosure, "")
	return nil
}

// frameTimeout is how long a client may take to receive a part of a log before the connection is closed.
const frameTimeout = time.Minute

// textFrames sends what is written to it as WebSocket texts.
func textFrames(ctx context.Context, ws *websocket.Conn) *characters {
	return &characters{waits: cutCharacter, pass: func(text []byte) error {
		ctx, cancel := context.WithTimeout(ctx, frameTimeout)
		defer cancel()
		return ws.Write(ctx, websocket.MessageText, bytes.ToValidUTF8(text, []byte("\uFFFD")))
	}}
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
