package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/pathglob"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// findNode finds a node of the session by its ID in hex or, if that is empty, by its address: of several nodes one that
// is alive, otherwise the last one. An unknown node is Ray's error.
func findNode(r *Request, id, ip string) (rayid.Node, error) {
	if id == "" {
		nodes, err := r.Nodes(r.Context())
		if err != nil {
			return rayid.Node{}, err
		}
		for _, n := range nodes.All {
			if n.IP != ip {
				continue
			}
			if id = n.ID; n.State == moment.Alive {
				break
			}
		}
		if id == "" {
			return rayid.Node{}, notFound("Cannot find matching node_id for a given node ip " + ip)
		}
	}
	node, err := rayid.Parse[rayid.Node](id)
	if err == nil && (r.Session.Node(node) != nil || len(r.Session.Logs.Paths(node)) > 0) {
		return node, nil
	}
	nodes, readErr := r.Nodes(r.Context())
	if readErr != nil {
		return node, readErr
	}
	if err != nil || nodes.ByID[node.String()] == nil { // a saved list may have it
		return node, notFound("Node " + id + " is not part of this session. /api/v0/nodes lists its nodes.")
	}
	return node, nil
}

// findWorkerLog finds a worker's log on a node, by the worker's ID or, if that is empty, by its process ID; "" if there
// is none. suffix is Ray's word for its stream, out or err.
func findWorkerLog(logs *sessionlogs.Set, node rayid.Node, worker, pid, suffix string) string {
	for _, p := range logs.Paths(node) {
		o, ok := logname.ParseOutput(p)
		if !ok || o.Stream != suffix || o.Rotated {
			continue
		}
		if worker != "" && o.Worker == worker || worker == "" && o.PID == pid {
			return p
		}
	}
	return ""
}

// part is the part of a log that a request asks for: bytes [start, end).
type part struct {
	file       *sessionlogs.File
	name       string
	start, end int64
	// open says that the part ends with the log, which may still grow.
	open bool
	// unsure says that lines of it may be later than the requested moment.
	unsure bool
}

// write sends the bytes of the part from the offset from of the log on. If the part is unsure, a line at its end says
// that some lines may be later than the moment at (Unix nanoseconds).
func (p part) write(ctx context.Context, w io.Writer, from, at int64) error {
	err := p.file.WriteRange(ctx, w, from, p.end)
	if err == nil && p.unsure {
		_, err = fmt.Fprintf(w, "\n[Ray History Server: the last lines above carry no time; some may be later than "+
			"%s.]\n",
			time.Unix(0, at).UTC().Format("2006-01-02 15:04:05.000 UTC"))
	}
	return err
}

// openPart opens a log, up to its end at the requested moment; ok is false if it is not stored.
func openPart(r *Request, log moment.LogFile) (p part, ok bool, err error) {
	f, err := r.Session.Logs.Open(r.Context(), log.Node, log.Path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return part{}, false, err
	}
	cut, err := cutAt(r.Context(), &r.Moment, f, log)
	return part{file: f, name: path.Base(log.Path), end: cut.end, unsure: cut.unsure, open: true}, err == nil, err
}

// resolveLog finds the log, or the part of one, that a request's options mean: by an actor, a task, a submission, a
// process of a node or a file's name (resolve_filename in ray/dashboard/modules/log/log_manager.py). A log that is not
// found is Ray's error.
func resolveLog(r *Request, o *options) (part, error) {
	switch {
	case o.actorID != "":
		return actorLog(r, o)
	case o.taskID != "":
		return taskLog(r, o)
	case o.submissionID != "":
		node, ok := r.LogNames().Jobs[o.submissionID] // its driver's log (_resolve_job_filename)
		if !ok {
			const noNode = ""
			return part{}, o.noLog(noNode)
		}
		return namedLog(r, node, moment.SubmissionLog(o.submissionID))
	}
	node, err := findNode(r, o.nodeID, o.nodeIP)
	if err != nil {
		return part{}, err
	}
	name := o.filename
	if o.pid != "" || o.workerID != "" {
		if name = findWorkerLog(r.Session.Logs, node, o.workerID, o.pid, o.suffix); name == "" {
			return part{}, o.noLog(cmp.Or(o.nodeID, node.String()))
		}
	}
	return namedLog(r, node, name)
}

// namedLog opens a log of a node by its name: a path below the node's logs folder, or its path on the node's disk.
// Files outside the folder are not found, because they are not stored.
func namedLog(r *Request, node rayid.Node, name string) (part, error) {
	full := name
	if !path.IsAbs(name) {
		full = path.Join("/tmp/ray", r.Session.Ref.Name, "logs", name)
	}
	full = path.Clean(full)
	below := "" // stays so for a file outside the folder: no log has such a path
	for _, folder := range []string{"/" + r.Session.Ref.Name + "/logs/", "/session_latest/logs/"} {
		if _, rest, ok := strings.Cut(full, folder); ok {
			below = rest
			break
		}
	}
	found, ok, err := openPart(r, moment.LogFile{Node: node, Path: below})
	if err == nil && !ok {
		err = noSuchLog("A file is not found at: %s", full)
	}
	return found, err
}

// actorLog finds the log of an actor's process, of standard output or of errors as the options say: the last process
// that left one (_resolve_actor_filename). An unknown actor, or one that never ran, is Ray's error.
func actorLog(r *Request, o *options) (part, error) {
	if refused := checkHex(o.actorID, rayid.ActorSize); refused != nil {
		return part{}, refused
	}
	processes, known, err := actorProcesses(r, o.actorID)
	if err != nil {
		return part{}, err
	}
	if !known {
		return part{}, noSuchLog("Actor ID ActorID(%s) not found.", o.actorID)
	}
	if len(processes) == 0 {
		return part{}, noSuchLog("Worker ID for Actor ID ActorID(%s) not found. Actor is not scheduled yet.", o.actorID)
	}
	for _, p := range processes {
		if name := findWorkerLog(r.Session.Logs, p.Node, p.Worker.String(), "", o.suffix); name != "" {
			return namedLog(r, p.Node, name)
		}
	}
	return part{}, o.noLog(processes[0].Node.String())
}

// actorProcesses returns the processes in which an actor ran by the moment, the last first. known is false if the
// session has no such actor.
func actorProcesses(r *Request, id string) (processes []moment.ActorProcess, known bool, err error) {
	parsed, err := rayid.Parse[rayid.Actor](id)
	known = err == nil && r.Session.Actor(parsed) != nil
	actors, err := r.Actors(r.Context())
	for _, a := range actors {
		if a.ID == strings.ToLower(id) {
			return a.Processes(), true, nil
		}
	}
	return nil, known, err
}

// taskLog finds the lines of one attempt of a task within its worker's log, of standard output or of errors as the
// options say (_resolve_task_filename). What is not known is refused with Ray's messages.
func taskLog(r *Request, o *options) (part, error) {
	if refused := checkHex(o.taskID, rayid.TaskSize); refused != nil {
		return part{}, refused
	}
	id, err := rayid.Parse[rayid.Task](o.taskID)
	if err != nil {
		return part{}, badRequest("%s", err)
	}
	log, ok, err := r.Session.Tasks.Log(id, o.attempt, r.At)
	switch {
	case err != nil:
		return part{}, err
	case !ok:
		return part{}, noSuchLog("Could not find log file for task attempt:%s(%d)", o.taskID, o.attempt)
	case log.Node.Nil():
		return part{}, noSuchLog("Could not find log file for task attempt.%s(%d) due to missing node info.", o.taskID,
			o.attempt)
	case !log.HasInfo && !log.Actor.Nil():
		return part{}, noSuchLog("For actor task, please query actor log for actor(%[1]s): e.g. ray logs actor --id "+
			"%[1]s . Or set "+
			"RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING=1 in actor's runtime env or when starting the cluster. Recording "+
			"actor task's log could be "+
			"expensive, so Ray turns it off by default.", log.Actor)
	case !log.HasInfo:
		return part{}, noSuchLog("Could not find log file for task attempt:%s(%d).Worker id = %s, node id = "+
			"%s,log_info = None",
			o.taskID, o.attempt, log.Worker, log.Node)
	}
	file, start, end := log.Info.StdoutFile, log.Info.StdoutStart, log.Info.StdoutEnd
	if o.suffix == "err" {
		file, start, end = log.Info.StderrFile, log.Info.StderrStart, log.Info.StderrEnd
	}
	if len(file) == 0 {
		return part{}, noSuchLog("Missing log filename info for task %s,attempt %d", o.taskID, o.attempt)
	}
	lines, err := namedLog(r, log.Node, string(file))
	if err != nil {
		return part{}, err
	}
	if start != nil {
		lines.start = *start
	}
	if end != nil {
		// An attempt's end in the log is known once the attempt has ended, which was before the moment: then no line is
		// in doubt, unless what is shown of the log ends before it.
		lines.unsure = lines.unsure && lines.end < *end
		lines.end, lines.open = min(lines.end, *end), false
	}
	return lines, nil
}

// rayFolders exist below the logs folder of every node from its start. Object stores have no empty folders, so they are
// listed here.
var rayFolders = []string{"events", "nsight", "old", "profiles", "rocprof_sys"}

// listLogs is /api/v0/logs: the log files of the node that node_id or node_ip names, those that glob matches, by Ray's
// categories. Wrong parameters are refused as Ray does.
func listLogs(w http.ResponseWriter, r *Request) error {
	q := r.Query()
	glob := "*"
	if q.Has("glob") {
		glob = q.Get("glob")
	}
	if _, err := intOr(r, "timeout", 0); err != nil { // it has no effect
		return err
	}
	id, ip := q.Get("node_id"), q.Get("node_ip")
	if id == "" && ip == "" {
		return badRequest("Both node id and node ip are not provided. Please provide at least one of them.")
	}
	node, err := findNode(r, id, ip)
	if err != nil {
		return err
	}
	files, err := globLogs(r.Context(), r.Session.Logs.Paths(node), glob)
	switch {
	case errors.Is(err, pathglob.ErrForm):
		return badRequest("Invalid glob filter: %s. It must be a relative path and cannot contain '..'.", glob)
	case errors.Is(err, pathglob.ErrLong):
		return badRequest("Invalid glob filter: it may have %d characters and %d wildcards.", pathglob.MaxLength,
			pathglob.MaxWildcards)
	case err != nil:
		return err
	}
	return writeOK(w, "", "result", byComponent(files))
}

// globLogs returns, sorted, the files and folders that a glob matches as Python's Path.glob does: ** is any number of
// folders. The files are paths; the folders, which get a "/" at the end, are those in which they are, and rayFolders.
func globLogs(ctx context.Context, paths []string, glob string) ([]string, error) {
	match, err := pathglob.Parse(glob)
	if err != nil {
		return nil, err
	}
	var found []string
	folders := map[string]bool{}
	for _, f := range rayFolders {
		folders[f] = true
	}
	for i, p := range paths {
		if i%globEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !match.FoldersOnly && match.Matches(p) {
			found = append(found, p)
		}
		for dir := path.Dir(p); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for f := range folders {
		if match.Matches(f) {
			found = append(found, f+"/")
		}
	}
	slices.Sort(found)
	return found, nil
}

// globEvery is how many paths are matched between two checks whether a client still waits.
const globEvery = 256

// byComponent groups log files by the component that wrote them (_categorize_log_files in
// ray/dashboard/modules/log/log_manager.py).
func byComponent(files []string) *pyjson.Object {
	grouped := &pyjson.Object{}
	for _, f := range files {
		category := logCategory(f)
		grouped.Set(category, append(grouped.List(category), f))
	}
	return grouped
}

// logCategories are the components by what names of their logs contain and how they end; the first one counts.
var logCategories = []struct{ contains, end, category string }{
	{"worker", ".out", "worker_out"}, {"worker", ".err", "worker_err"}, {"core-worker", ".log", "core_worker"},
	{"core-driver", ".log", "driver"}, {"raylet.", "", "raylet"}, {"gcs_server.", "", "gcs_server"},
	{"log_monitor", "", "internal"}, {"monitor", "", "autoscaler"}, {"agent.", "", "agent"},
	{"dashboard.", "", "dashboard"},
}

// logCategory is the component that wrote a log.
func logCategory(f string) string {
	for _, c := range logCategories {
		if strings.Contains(f, c.contains) && strings.HasSuffix(f, c.end) {
			return c.category
		}
	}
	return "internal"
}
