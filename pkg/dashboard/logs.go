package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/gzhttp"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// oneLog is /api/v0/logs/file and /api/v0/logs/stream (get_logs in ray/dashboard/modules/state/state_head.py). A stream
// ends with the log; for a running session this is when the session ends.
func oneLog(w http.ResponseWriter, r *Request) error {
	o, err := parseOptions(r)
	if err == nil {
		var found part
		if found, err = resolveLog(r, &o); err == nil {
			return sendLog(w, r, &o, found)
		}
	}
	if refused, ok := errors.AsType[*rayError](err); ok {
		return writeText(w, refused.status, refused.text)
	}
	return err
}

// sendLog sends the last lines of a part of a log, as many as the options say, and for a stream of a running session
// what is stored of the log later (StreamLog in ray/dashboard/modules/log/log_agent.py).
func sendLog(w http.ResponseWriter, r *Request, o *options, log part) error {
	ctx, start := r.Context(), log.start
	if o.lines != allLines {
		tail, err := log.file.TailStart(ctx, log.end, o.lines, log.end) // as Ray does, however long they are
		if err != nil {
			return err
		}
		start = max(start, tail)
	}
	following := o.mediaType == "stream" && log.open && r.Runs(ctx)
	if start >= log.end && !following {
		// Ray before 2.58 fails to send nothing: its clients expect an error.
		old, err := r.OlderThan(ctx, 58)
		if err != nil {
			return err
		}
		if old {
			return writeText(w, http.StatusInternalServerError, "There are no lines to show: the log is empty.")
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Disposition", Attachment(cmp.Or(o.downloadName, log.name)))
	answer := &Answer{ResponseWriter: w}
	var out io.Writer = answer
	if following {
		w.Header().Set(gzhttp.HeaderNoCompression, "1") // it would hold back lines
		out = atOnce{answer}
		if _, err := out.Write(nil); err != nil { // sends the headers, so that the client knows that the stream is open
			return nil // the client went away
		}
	}
	filter := withoutColours(out)
	if o.filterANSI {
		out = filter
	}
	err := log.write(ctx, out, start, r.At)
	if err == nil && following {
		// A task may begin beyond what is stored: what is stored next is of the tasks before it.
		err = followLog(ctx, log.file, max(start, log.end), r, out)
	}
	if err != nil {
		return cutAnswer(answer, r, err)
	}
	_ = filter.flush() // an error means that the client went away
	return nil
}

// atOnce sends what is written without waiting for more.
type atOnce struct{ http.ResponseWriter }

// Write sends p to the client at once, without waiting for a full buffer.
func (a atOnce) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	if err == nil {
		// What cannot be flushed is sent when its buffer is full.
		_ = http.NewResponseController(a.ResponseWriter).Flush()
	}
	return n, err
}

// defaultLogLines is DEFAULT_LOG_LIMIT in ray/util/state/common.py.
const defaultLogLines = 1000

// options are the parameters of a request for a log (GetLogOptions in ray/util/state/common.py).
type options struct {
	mediaType                                         string
	nodeID, nodeIP                                    string
	filename, actorID, taskID, submissionID, workerID string
	pid                                               string
	attempt                                           int
	suffix                                            string
	lines                                             int // the last ones, or allLines
	downloadName                                      string
	filterANSI                                        bool
}

// allLines is the number of lines by which clients ask for all.
const allLines = -1

// parseOptions reads the parameters of GET /api/v0/logs/{media_type} and refuses those that Ray refuses
// (ray/dashboard/modules/state/state_head.py). timeout and interval are checked, but have no effect.
func parseOptions(r *Request) (o options, err error) {
	q := r.Query()
	number := func(name string, otherwise int64) int {
		value := otherwise
		if err == nil {
			value, err = intOr(r, name, otherwise)
		}
		return int(value)
	}
	o = options{
		mediaType: r.PathValue("media_type"), nodeID: q.Get("node_id"), nodeIP: q.Get("node_ip"),
		filename: q.Get("filename"),
		actorID:  q.Get("actor_id"), taskID: q.Get("task_id"), submissionID: q.Get("submission_id"),
		workerID: q.Get("worker_id"),
		suffix:   "out", downloadName: q.Get("download_filename"),
		filterANSI: strings.EqualFold(q.Get("filter_ansi_code"), "true"),
		attempt:    number("attempt_number", 0), lines: number("lines", defaultLogLines),
	}
	o.lines = cmp.Or(o.lines, defaultLogLines)
	if q.Has("suffix") {
		o.suffix = q.Get("suffix")
	}
	number("timeout", 0) // only checked
	if q.Get("pid") != "" {
		o.pid = strconv.Itoa(number("pid", 0))
	}
	if err != nil {
		return o, err
	}
	if s := q.Get("interval"); s != "" {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return o, badRequest("could not convert string to float: %s", pythonRepr(s))
		}
	}
	return o, o.check()
}

// check refuses, with Ray's messages, options that do not say which log is meant, or are none that Ray knows
// (GetLogOptions in ray/util/state/common.py).
func (o *options) check() error {
	byOwner := o.actorID != "" || o.taskID != ""
	switch {
	case o.mediaType != "file" && o.mediaType != "stream":
		return badRequest("Invalid media type: %s", o.mediaType)
	case o.nodeID == "" && o.nodeIP == "" && !byOwner && o.submissionID == "":
		return badRequest("node_id or node_ip must be provided as constructor arguments when no actor or task_id is " +
			"supplied as arguments.")
	case o.nodeID != "" && o.nodeIP != "":
		return badRequest("Both node_id and node_ip are given. Only one of them can be provided. Given node id: %s, "+
			"given node ip: %s", o.nodeID, o.nodeIP)
	case !byOwner && o.pid == "" && o.filename == "" && o.submissionID == "" && o.workerID == "":
		return badRequest("None of actor_id, task_id, pid, submission_id or filename is provided. At least one of " +
			"them is required to fetch logs.")
	case o.suffix != "out" && o.suffix != "err":
		return badRequest("Invalid suffix: %s. Must be one of 'out' or 'err'.", o.suffix)
	case o.lines < allLines:
		return badRequest("Invalid lines: %d. Must be -1 for all or a number of lines.", o.lines)
	}
	return nil
}

// noSuchLog is Ray's error for a log that does not exist: 500, with a sentence.
func noSuchLog(format string, args ...any) error {
	return &rayError{status: http.StatusInternalServerError, text: fmt.Sprintf(format, args...)}
}

// noLog is Ray's error if no log matches the options. node is the ID of the node that was looked at, "" if none was.
// The filename in Ray's message is that of the log that it found, so it is None here; suffix has a default.
func (o *options) noLog(node string) error {
	const none = "None" // Python's
	return noSuchLog("Could not find a log file. Please make sure the given option exists in the cluster.\n"+
		"\tnode_id: %s\n\tfilename: None\n\tactor_id: %s\n\ttask_id: %s\n\tpid: %s\n\tsuffix: %s\n\tsubmission_id: "+
		"%s\n\tattempt_number: %d\n",
		cmp.Or(node, none), cmp.Or(o.actorID, none), cmp.Or(o.taskID, none), cmp.Or(o.pid, none), o.suffix,
		cmp.Or(o.submissionID, none), o.attempt)
}

// followEvery is how often the stream of a log looks for what its running session has stored since.
const followEvery = 2 * time.Second

// followLog sends the bytes of a log behind the offset from as they are stored, until the session has ended, the client
// has gone or the server ends. Only the first of these is no error.
func followLog(ctx context.Context, f *sessionlogs.File, from int64, r *Request, out io.Writer) error {
	wait := time.NewTicker(followEvery)
	defer wait.Stop()
	for running := true; running; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.closing:
			return http.ErrServerClosed
		case <-wait.C:
		}
		running = r.Running(ctx) // asked before the log is read, so that what is stored at the end is sent too
		var err error
		if f, err = f.Refresh(ctx); err != nil {
			return err
		}
		if size := f.Size(); size > from {
			if err := f.WriteRange(ctx, out, from, size); err != nil {
				return err
			}
			from = size
		}
	}
	return nil
}

// maxColour is the bytes of the longest sequence that is taken for a colour.
const maxColour = 65

var (
	// colour is ANSI_ESC_PATTERN in ray/dashboard/modules/state/state_head.py.
	colour      = lazyregexp.New(`\x1b\[[0-9;()]{1,62}m`)
	colourBegun = lazyregexp.New(`\x1b(\[[0-9;()]*)?$`)
)

// withoutColours returns a writer that passes on to w what is written to it, without terminal colours. It holds back
// the last bytes while they may be the beginning of a colour.
func withoutColours(w io.Writer) *characters {
	return &characters{pass: func(text []byte) error {
		_, err := w.Write(colour().ReplaceAll(text, nil))
		return err
	}, waits: func(text []byte) int {
		end := text[max(0, len(text)-maxColour):]
		if begun := colourBegun().FindIndex(end); begun != nil && len(end)-begun[0] < maxColour {
			return len(end) - begun[0]
		}
		return 0
	}}
}

// maxFileName limits the name of a download, in bytes: file systems accept no longer ones.
const maxFileName = 200

// Attachment returns a Content-Disposition (RFC 6266) that saves an answer under a name. Anybody may have chosen the
// name, so no part of it may be read as a folder, as the end of the header or as another field of it.
func Attachment(name string) string {
	name = strings.ToValidUTF8(name, "_")
	name = strings.Map(func(c rune) rune {
		switch {
		case c < ' ', c == 0x7f, strings.ContainsRune(`"\/`, c), unicode.In(c, unicode.C, unicode.Zl, unicode.Zp):
			// what ends or folds headers, leads to a folder, or turns the direction of writing so that .exe looks like
			// .txt
			return '_'
		}
		return c
	}, name)
	for len(name) > maxFileName {
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:] // the end says what kind of file it is
	}
	if strings.Trim(name, ". ") == "" {
		name = "file.txt"
	}
	if strings.HasPrefix(name, ".") {
		name = "_" + name[1:]
	}
	ascii := strings.Map(func(c rune) rune {
		if c >= utf8.RuneSelf {
			return '_'
		}
		return c
	}, name)
	header := `attachment; filename="` + ascii + `"`
	if ascii != name {
		// Some characters that may be in a path, such as "@", may not be in a value of RFC 8187.
		header += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return header
}
