package dashboard

import (
	"errors"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// rayFolders are below the logs folder of every node from its start. Object stores have no empty folders, so they are named here.
var rayFolders = []string{"events", "nsight", "old", "profiles", "rocprof_sys"}

// logList is /api/v0/logs: the log files of one node that a glob matches, by category.
func (d *Dashboard) logList(w http.ResponseWriter, r *Request) error {
	q := r.Query()
	glob := "*"
	if q.Has("glob") {
		glob = q.Get("glob")
	}
	if q.Has("timeout") {
		if _, refused := pythonInt(q.Get("timeout")); refused != nil {
			writeStateError(w, refused)
			return nil
		}
	}
	id, ip := q.Get("node_id"), q.Get("node_ip")
	if id == "" && ip == "" {
		writeStateError(w, badRequest("Both node id and node ip are not provided. Please provide at least one of them."))
		return nil
	}
	if id == "" {
		var err error
		if id, err = d.nodeByIP(r, ip); err != nil {
			return err
		}
		if id == "" {
			writeStateError(w, &apiError{http.StatusNotFound, "Cannot find matching node_id for a given node ip " + ip})
			return nil
		}
	}
	node, refused := d.logNode(r, id)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	files, err := globLogs(r.Session.Logs.Paths(node), glob)
	if err != nil {
		writeStateError(w, badRequest("Invalid glob filter: %s. It must be a relative path and cannot contain '..'.", glob))
		return nil
	}
	writeStateReply(w, categorise(files))
	return nil
}

// logNode reads a node's ID and says whether the session has the node.
func (d *Dashboard) logNode(r *Request, id string) (rayid.Node, *apiError) {
	node, err := rayid.Parse[rayid.Node](id)
	if err != nil || r.Session.Node(node) == nil && len(r.Session.Logs.Paths(node)) == 0 {
		return node, &apiError{http.StatusNotFound, "Node " + id + " is not part of this session. /api/v0/nodes lists its nodes."}
	}
	return node, nil
}

// nodeByIP finds a node by its address: of several, one that lives, else the last; "" if there is none.
func (d *Dashboard) nodeByIP(r *Request, ip string) (string, error) {
	nodes, err := d.summaries(r)
	if err != nil {
		return "", err
	}
	found := ""
	for _, id := range nodes.order {
		if nodes.ip(id) != ip {
			continue
		}
		found = id
		if nodes.node(id).Object("raylet").String("state") == alive {
			break
		}
	}
	return found, nil
}

var errGlob = errors.New("glob leaves the logs folder")

// globLogs gives the files and folders that a glob matches as Python's Path.glob does: ** is any number of folders, folders end in "/".
func globLogs(paths []string, glob string) ([]string, error) {
	if glob == "" || path.IsAbs(glob) || slices.Contains(strings.Split(glob, "/"), "..") {
		return nil, errGlob
	}
	match, err := globRegexp(glob)
	if err != nil {
		return nil, errGlob
	}
	var found []string
	folders := map[string]bool{}
	for _, f := range rayFolders {
		folders[f] = true
	}
	for _, p := range paths {
		if match.MatchString(p) && !strings.HasSuffix(glob, "**") {
			found = append(found, p)
		}
		for dir := path.Dir(p); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for f := range folders {
		if match.MatchString(f) {
			found = append(found, f+"/")
		}
	}
	slices.Sort(found)
	return found, nil
}

// globRegexp translates a glob: * and ? within a name, [sets], and ** for any folders.
func globRegexp(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	parts := slices.DeleteFunc(strings.Split(glob, "/"), func(p string) bool { return p == "" || p == "." })
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "**" && last:
			b.WriteString(".+")
		case part == "**":
			b.WriteString("(?:[^/]+/)*")
		default:
			globName(&b, part)
			if !last {
				b.WriteString("/")
			}
		}
	}
	b.WriteString("$")
	return regexp.Compile(b.String())
}

func globName(b *strings.Builder, part string) {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '*':
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := strings.IndexByte(part[i+1:], ']')
			if end <= 0 {
				b.WriteString(`\[`)
				continue
			}
			set := part[i+1 : i+1+end]
			if strings.HasPrefix(set, "!") {
				set = "^" + set[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(set, `\`, `\\`) + "]")
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
}

// categorise groups log files by the component that wrote them (_categorize_log_files in ray/dashboard/modules/log/log_manager.py).
func categorise(files []string) *pyjson.Object {
	grouped := &pyjson.Object{}
	for _, f := range files {
		category := logCategory(f)
		grouped.Set(category, append(grouped.List(category), f))
	}
	return grouped
}

func logCategory(f string) string {
	has := func(s string) bool { return strings.Contains(f, s) }
	ends := func(s string) bool { return strings.HasSuffix(f, s) }
	switch {
	case has("worker") && ends(".out"):
		return "worker_out"
	case has("worker") && ends(".err"):
		return "worker_err"
	case has("core-worker") && ends(".log"):
		return "core_worker"
	case has("core-driver") && ends(".log"):
		return "driver"
	case has("raylet."):
		return "raylet"
	case has("gcs_server."):
		return "gcs_server"
	case has("log_monitor"):
		return "internal"
	case has("monitor"):
		return "autoscaler"
	case has("agent."):
		return "agent"
	case has("dashboard."):
		return "dashboard"
	}
	return "internal"
}

// workerLog is the name of a worker's log: worker-{worker}-{job}-{pid}.out.
var workerLog = regexp.MustCompile(`worker-([0-9a-f]+)-([0-9a-f]+)-(\d+)\.(out|err)$`)

// findWorkerLog finds a worker's log on a node, by the worker's ID or, if that is empty, by its process; "" if there is none.
func findWorkerLog(logs *session.LogSet, node rayid.Node, worker, pid, suffix string) string {
	for _, p := range logs.Paths(node) {
		m := workerLog.FindStringSubmatch(p)
		if m == nil || m[4] != suffix || strings.Contains(p, "/") {
			continue
		}
		if worker != "" && m[1] == worker || worker == "" && m[3] == pid {
			return p
		}
	}
	return ""
}
