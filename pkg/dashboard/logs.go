package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// defaultLogLines is DEFAULT_LOG_LIMIT in ray/util/state/common.py.
const defaultLogLines = 1000

// logOptions are the parameters of a request for a log (GetLogOptions in ray/util/state/common.py).
type logOptions struct {
	mediaType                                         string
	nodeID, nodeIP                                    string
	filename, actorID, taskID, submissionID, workerID string
	pid                                               string
	attempt                                           int
	suffix                                            string
	lines                                             int // -1: all
	downloadName                                      string
	filterANSI                                        bool
}

func parseLogOptions(r *Request) (o logOptions, refused *apiError) {
	q := r.Query()
	get := func(name, otherwise string) string {
		if q.Has(name) {
			return q.Get(name)
		}
		return otherwise
	}
	number := func(name string, otherwise int) int {
		if !q.Has(name) || refused != nil {
			return otherwise
		}
		n, err := pythonInt(q.Get(name))
		refused = err
		return int(n)
	}
	o = logOptions{
		mediaType: r.Params["media_type"], nodeID: q.Get("node_id"), nodeIP: q.Get("node_ip"), filename: q.Get("filename"),
		actorID: q.Get("actor_id"), taskID: q.Get("task_id"), submissionID: q.Get("submission_id"), workerID: q.Get("worker_id"),
		suffix: get("suffix", "out"), downloadName: get("download_filename", "file.txt"),
		filterANSI: strings.EqualFold(q.Get("filter_ansi_code"), "true"),
		attempt:    number("attempt_number", 0), lines: number("lines", defaultLogLines),
	}
	if o.lines == 0 {
		o.lines = defaultLogLines
	}
	number("timeout", 0)
	if q.Get("pid") != "" {
		o.pid = strconv.Itoa(number("pid", 0))
	}
	if s := q.Get("interval"); s != "" && refused == nil {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			refused = badRequest("could not convert string to float: %s", pythonRepr(s))
		}
	}
	if refused == nil {
		refused = o.check()
	}
	return o, refused
}

// check refuses what GetLogOptions refuses.
func (o *logOptions) check() *apiError {
	byOwner := o.actorID != "" || o.taskID != ""
	switch {
	case o.mediaType != "file" && o.mediaType != "stream":
		return badRequest("Invalid media type: %s", o.mediaType)
	case o.nodeID == "" && o.nodeIP == "" && !byOwner && o.submissionID == "":
		return badRequest("node_id or node_ip must be provided as constructor arguments when no actor or task_id is supplied as arguments.")
	case o.nodeID != "" && o.nodeIP != "":
		return badRequest("Both node_id and node_ip are given. Only one of them can be provided. Given node id: %s, given node ip: %s", o.nodeID, o.nodeIP)
	case !byOwner && o.pid == "" && o.filename == "" && o.submissionID == "" && o.workerID == "":
		return badRequest("None of actor_id, task_id, pid, submission_id or filename is provided. At least one of them is required to fetch logs.")
	case o.suffix != "out" && o.suffix != "err":
		return badRequest("Invalid suffix: %s. Must be one of 'out' or 'err'.", o.suffix)
	case o.lines < -1:
		return badRequest("Invalid lines: %d. Must be -1 for all or a number of lines.", o.lines)
	}
	return nil
}

// logRange is what of which log a request asks for: bytes [start, end), end < 0 for the end of the file.
type logRange struct {
	node       rayid.Node
	path       string
	start, end int64
	// open says that the part ends where the log does, wherever that will be.
	open bool
}

// notFound is Ray's error of a log that is not there: 500, with a sentence.
func notFound(format string, args ...any) *apiError {
	return &apiError{http.StatusInternalServerError, fmt.Sprintf(format, args...)}
}

// logFile is /api/v0/logs/file and /api/v0/logs/stream (get_logs in ray/dashboard/modules/state/state_head.py). A stream ends where the
// log does, which for a session that still runs is when that ends.
func (d *Dashboard) logFile(w http.ResponseWriter, r *Request) error {
	o, refused := parseLogOptions(r)
	if refused == nil {
		var asked logRange
		var err error
		if asked, err = d.resolveLog(r, &o); err == nil {
			return d.sendLog(w, r, &o, asked)
		}
		if !errors.As(err, &refused) {
			return err
		}
	}
	writeText(w, refused.status, refused.text)
	return nil
}

// resolveLog finds the log that a request means (resolve_filename in ray/dashboard/modules/log/log_manager.py).
func (d *Dashboard) resolveLog(r *Request, o *logOptions) (logRange, error) {
	switch {
	case o.actorID != "":
		return d.actorLog(r, o)
	case o.taskID != "":
		return d.taskLog(r, o)
	case o.submissionID != "":
		return d.submissionLog(r, o)
	}
	id := o.nodeID
	if id == "" {
		var err error
		if id, err = d.nodeByIP(r, o.nodeIP); err != nil {
			return logRange{}, err
		}
		if id == "" {
			return logRange{}, &apiError{http.StatusNotFound, "Cannot find matching node_id for a given node ip " + o.nodeIP}
		}
	}
	node, refused := d.logNode(r, id)
	if refused != nil {
		return logRange{}, refused
	}
	name := o.filename
	if o.pid != "" || o.workerID != "" {
		if name = findWorkerLog(r.Session.Logs, node, o.workerID, o.pid, o.suffix); name == "" {
			return logRange{}, o.noLog(id)
		}
	}
	return d.namedLog(r, node, name)
}

// noLog is Ray's error where nothing matches.
func (o *logOptions) noLog(node string) *apiError {
	or := func(s string) string {
		if s == "" {
			return "None"
		}
		return s
	}
	return notFound("Could not find a log file. Please make sure the given option exists in the cluster.\n"+
		"\tnode_id: %s\n\tfilename: %s\n\tactor_id: %s\n\ttask_id: %s\n\tpid: %s\n\tsuffix: %s\n\tsubmission_id: %s\n\tattempt_number: %d\n",
		or(node), or(o.filename), or(o.actorID), or(o.taskID), or(o.pid), o.suffix, or(o.submissionID), o.attempt)
}

// namedLog finds a log by its name: a path below the node's logs folder, or the one it had on the node's disk. What is outside of the
// folder is not found, as nothing of it is stored.
func (d *Dashboard) namedLog(r *Request, node rayid.Node, name string) (logRange, error) {
	full := name
	if !path.IsAbs(name) {
		full = path.Join("/tmp/ray", r.Session.Ref.Name, "logs", name)
	}
	full = path.Clean(full)
	below := ""
	for _, folder := range []string{"/" + r.Session.Ref.Name + "/logs/", "/session_latest/logs/"} {
		if _, rest, ok := strings.Cut(full, folder); ok {
			below = rest
			break
		}
	}
	if f, err := r.Session.Logs.Open(r.Context(), node, below); err == nil {
		return logRange{node: node, path: below, end: f.Size(), open: true}, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return logRange{}, err
	}
	return logRange{}, notFound("A file is not found at: %s", full)
}

// actorLog finds the log of an actor's process: the last one that left a log (_resolve_actor_filename).
func (d *Dashboard) actorLog(r *Request, o *logOptions) (logRange, error) {
	if refused := checkHex(o.actorID, rayid.ActorSize); refused != nil {
		return logRange{}, refused
	}
	processes, known, err := d.actorProcesses(r, o.actorID)
	if err != nil {
		return logRange{}, err
	}
	if !known {
		return logRange{}, notFound("Actor ID %s not found.", o.actorID)
	}
	if len(processes) == 0 {
		return logRange{}, notFound("Worker ID for Actor ID %s not found. Actor is not scheduled yet.", o.actorID)
	}
	for _, p := range processes {
		if name := findWorkerLog(r.Session.Logs, p.node, p.worker.String(), "", o.suffix); name != "" {
			return d.namedLog(r, p.node, name)
		}
	}
	return logRange{}, o.noLog(processes[0].node.String())
}

// actorProcesses gives the processes an actor ran in, the last first, and whether the actor is known.
func (d *Dashboard) actorProcesses(r *Request, id string) (processes []actorProcess, known bool, err error) {
	if parsed, err := rayid.Parse[rayid.Actor](id); err == nil {
		if a := r.Session.Actor(parsed); a != nil {
			state, _ := actorAt(a, r.At)
			known = true
			if !state.worker.Nil() {
				processes = append(processes, actorProcess{state.node, state.worker})
			}
			for i := len(state.formerProcesses) - 1; i >= 0; i-- {
				processes = append(processes, state.formerProcesses[i])
			}
		}
	}
	if len(processes) > 0 {
		return processes, true, nil
	}
	rows, err := d.actors(r)
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		if row.String("actorId") != id {
			continue
		}
		known = true
		address := row.Object("address")
		node, nodeErr := rayid.Parse[rayid.Node](address.String("nodeId"))
		worker, workerErr := rayid.Parse[rayid.Worker](address.String("workerId"))
		if nodeErr == nil && workerErr == nil && !worker.Nil() {
			processes = append(processes, actorProcess{node, worker})
		}
	}
	return processes, known, nil
}

// taskLog finds the lines of one attempt of a task within its worker's log (_resolve_task_filename).
func (d *Dashboard) taskLog(r *Request, o *logOptions) (logRange, error) {
	if refused := checkHex(o.taskID, rayid.TaskSize); refused != nil {
		return logRange{}, refused
	}
	id, err := rayid.Parse[rayid.Task](o.taskID)
	if err != nil {
		return logRange{}, badRequest("%s", err)
	}
	log, ok := r.Session.Tasks.Log(id, o.attempt)
	switch {
	case !ok:
		return logRange{}, notFound("Could not find log file for task attempt:%s(%d)", o.taskID, o.attempt)
	case log.Node.Nil():
		return logRange{}, notFound("Could not find log file for task attempt.%s(%d) due to missing node info.", o.taskID, o.attempt)
	case !log.HasInfo && !log.Actor.Nil():
		return logRange{}, notFound("For actor task, please query actor log for actor(%[1]s): e.g. ray logs actor --id %[1]s . Or set "+
			"RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING=1 in actor's runtime env or when starting the cluster. Recording actor task's log could be "+
			"expensive, so Ray turns it off by default.", log.Actor)
	case !log.HasInfo:
		return logRange{}, notFound("Could not find log file for task attempt:%s(%d).Worker id = %s, node id = %s,log_info = None",
			o.taskID, o.attempt, log.Worker, log.Node)
	}
	file, start, end := log.Info.StdoutFile, log.Info.StdoutStart, log.Info.StdoutEnd
	if o.suffix == "err" {
		file, start, end = log.Info.StderrFile, log.Info.StderrStart, log.Info.StderrEnd
	}
	if len(file) == 0 {
		return logRange{}, notFound("Missing log filename info for task %s,attempt %d", o.taskID, o.attempt)
	}
	asked, err := d.namedLog(r, log.Node, string(file))
	if err != nil {
		return logRange{}, err
	}
	if start != nil {
		asked.start = *start
	}
	if end != nil {
		asked.end, asked.open = min(asked.end, *end), false
	}
	return asked, nil
}

// submissionLog finds the log of a submission's driver (_resolve_job_filename).
func (d *Dashboard) submissionLog(r *Request, o *logOptions) (logRange, error) {
	node, ok := d.logNames(r.Session).jobs[o.submissionID]
	if !ok {
		return logRange{}, o.noLog("")
	}
	return d.namedLog(r, node, jobLogPrefix+o.submissionID+logSuffix)
}

// sendLog sends the last lines of a part of a log (StreamLog in ray/dashboard/modules/log/log_agent.py).
func (d *Dashboard) sendLog(w http.ResponseWriter, r *Request, o *logOptions, asked logRange) error {
	ctx := r.Context()
	f, err := r.Session.Logs.Open(ctx, asked.node, asked.path)
	if err != nil {
		return err
	}
	start := asked.start
	if o.lines != -1 {
		tail, err := f.TailStart(ctx, asked.end, o.lines)
		if err != nil {
			return err
		}
		start = max(start, tail)
	}
	following := o.mediaType == "stream" && asked.open && r.Running != nil && r.Running(ctx)
	if start >= asked.end && !following {
		// Ray before 2.58 fails to send nothing: its clients expect an error.
		if old, err := d.olderThan(r, 58); err != nil || old {
			writeText(w, http.StatusInternalServerError, "There are no lines to show: the log is empty.")
			return err
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Disposition", `attachment; filename="`+safeFilename(o.downloadName)+`"`)
	out := &startedWriter{w: w}
	if following {
		out.w = flushed{w}
		if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	var target io.Writer = out
	if o.filterANSI {
		filter := &ansiFilter{w: out}
		target = filter
		defer filter.flush()
	}
	err = f.WriteRange(ctx, target, start, asked.end)
	if err == nil && following {
		err = follow(ctx, f, asked.end, r.Running, target)
	}
	if err != nil {
		if out.started {
			if !errors.Is(err, context.Canceled) {
				d.opts.Log.WithError(err).WithField("url", r.URL.String()).Error("read log")
			}
			panic(http.ErrAbortHandler) // the answer has begun: cutting the connection is the only way to say that it is not whole
		}
		w.Header().Del("Content-Disposition")
		return err
	}
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

// safeFilename is a name that can stand in a header between quotes.
func safeFilename(name string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			return '_'
		}
		return c
	}, name)
}

// ansiFilter leaves colours out of what is written: an escape, "[", digits, semicolons and parentheses, "m" (ANSI_ESC_PATTERN in
// ray/dashboard/modules/state/state_head.py). What may be the start of one is held back until more is known.
type ansiFilter struct {
	w    io.Writer
	held []byte
	out  []byte
}

const maxANSI = 64 // bytes of a sequence held back; longer ones are no colours

func (a *ansiFilter) Write(p []byte) (int, error) {
	a.out = a.out[:0]
	for _, c := range p {
		switch n := len(a.held); {
		case n == 0 && c == 0x1b:
			a.held = append(a.held, c)
		case n == 0:
			a.out = append(a.out, c)
		case n == 1 && c == '[', n > 1 && n < maxANSI && (c >= '0' && c <= '9' || c == ';' || c == '(' || c == ')'):
			a.held = append(a.held, c)
		case n > 2 && c == 'm':
			a.held = a.held[:0]
		default:
			a.out = append(a.out, a.held...)
			a.held = a.held[:0]
			if c == 0x1b {
				a.held = append(a.held, c)
			} else {
				a.out = append(a.out, c)
			}
		}
	}
	if _, err := a.w.Write(a.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes what was held back. An error means that the client went away.
func (a *ansiFilter) flush() {
	_, _ = a.w.Write(a.held)
	a.held = nil
}
