// Package node finds the ID of the Ray node that the collector runs beside.
//
// Ray's processes on a node write their ports to files in the session's folder that are named after the node:
// metrics_agent_port_{node ID}, and gcs_server_port_{node ID} on the head (ray/dashboard/agent.py). If there are none
// yet, or Ray is too old for them, a hook of the pod may have written the ID to raylet_node_id. The last resort is the
// dashboard, which knows the node with the pod's address.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Finder finds the node of each session below Ray's temporary folder. It is safe for concurrent use.
type Finder struct {
	// Dir is Ray's temporary folder.
	Dir string
	// Head prefers the head's raylet if several share the folder, as on one machine.
	Head bool
	// Get asks the dashboard for a path; nil if its address is not known.
	Get func(ctx context.Context, path string) (io.ReadCloser, error)
	// IP is the pod's own address, for the dashboard.
	IP string

	mu    sync.Mutex
	nodes map[string]rayid.Node         // by session, as found last
	asked time.Time                     // when the dashboard was asked last
	looks int                           // into sessions' folders
	seen  map[string]map[rayid.Node]int // by session: the look that first saw a node's files
}

// maxSessions is how many sessions are remembered; of the others, the oldest is dropped for a new one.
const maxSessions = 1024

// askGap is the shortest time between two requests to the dashboard.
const askGap = 10 * time.Second

// errUnknown is that the node's ID cannot be found yet.
var errUnknown = errors.New("the node's ID is not known yet: no *_port_{node ID} file in the session's folder, no " +
	"raylet_node_id file, and no answer of the dashboard")

// Node is the ID of the node whose files a session's folder holds. The error is ErrNoRay if they are not Ray's.
func (f *Finder) Node(ctx context.Context, session string) (rayid.Node, error) {
	node, err := f.Here(session)
	if errors.Is(err, errUnknown) && f.Get != nil && f.IP != "" {
		if node, err = f.fromDashboard(ctx); err == nil {
			f.rememberNode(session, node)
		}
	}
	return node, err
}

// Here is Node as far as the files say it, without asking the dashboard.
func (f *Finder) Here(session string) (rayid.Node, error) {
	node, err := f.fromFolder(session)
	if err == nil {
		f.rememberNode(session, node)
	}
	return node, err
}

// Cached is the node that was found for a session, even if its folder is gone by now; false if none was found.
func (f *Finder) Cached(session string) (rayid.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, ok := f.nodes[session]
	return node, ok
}

// Newest is the newest session that a node was found for; "" if none was found. Names of sessions begin with their
// time.
func (f *Finder) Newest() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := ""
	for session := range f.nodes {
		newest = max(newest, session)
	}
	return newest
}

// rememberNode keeps a session's node. Of too many sessions the oldest is forgotten: their names begin with the time.
func (f *Finder) rememberNode(session string, node rayid.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = make(map[string]rayid.Node)
	}
	if _, ok := f.nodes[session]; !ok && len(f.nodes) >= maxSessions {
		oldest := slices.Min(slices.Collect(maps.Keys(f.nodes)))
		delete(f.nodes, oldest)
		delete(f.seen, oldest)
	}
	f.nodes[session] = node
}

// fromFolder finds the node's ID in Ray's temporary folder: in the session's folder, or else in the file of a pod's
// hook. errUnknown says that it is in neither, ErrNoRay that nothing in the session's folder is Ray's. Others may have
// written to that folder, so nothing in it is trusted.
func (f *Finder) fromFolder(session string) (rayid.Node, error) {
	root, err := os.OpenRoot(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return rayid.Node{}, errUnknown
	}
	if err != nil {
		return rayid.Node{}, fmt.Errorf("look for the node's ID: %w", err)
	}
	defer root.Close()
	node, err := f.fromSession(root, session)
	if !errors.Is(err, errUnknown) {
		return node, err
	}
	if !isRays(root, session) {
		return rayid.Node{}, ErrNoRay
	}
	return fromFile(root)
}

// Latest is the session that session_latest in Ray's temporary folder names; "" if it names none.
func Latest(root *os.Root) string {
	to, err := root.Readlink("session_latest")
	if name := path.Base(to); err == nil && IsSession(name) {
		return name
	}
	return ""
}

// portFile is one {what}_port_{node ID} file.
type portFile struct {
	node    rayid.Node
	rank    int // the highest counts: of a head's GCS, else of a metrics agent
	look    int // the look at the folder that first saw the node, set by recordFirstSeen
	written time.Time
}

// maxEntries bounds the files of a session's folder that are looked at: Ray makes about twenty.
const maxEntries = 10_000

// fromSession finds the node's ID in the names of the port files in a session's folder. There can be several nodes'
// files: raylets of one machine share the folder, and a restarted raylet has a new ID. For a head, the node with a GCS
// is wanted. Otherwise the node counts whose files appeared last, of the metrics agents if they have any; of those that
// were there at the first look, the one written last. (The clock may be set back before a raylet is restarted.)
func (f *Finder) fromSession(root *os.Root, session string) (rayid.Node, error) {
	entries, err := regular.Folder(root, session, maxEntries)
	if errors.Is(err, fs.ErrNotExist) {
		return rayid.Node{}, errUnknown
	}
	if err != nil {
		return rayid.Node{}, fmt.Errorf("look for the node's ID: %w", err)
	}
	var files []portFile
	for _, entry := range entries {
		id, ok := portNode(entry.Name())
		if !ok {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue
		}
		p := portFile{node: id, written: info.ModTime()}
		switch {
		case f.Head && strings.HasPrefix(entry.Name(), "gcs_server_"):
			p.rank = 2
		case strings.HasPrefix(entry.Name(), "metrics_agent_"):
			p.rank = 1
		}
		files = append(files, p)
	}
	if len(files) == 0 {
		return rayid.Node{}, errUnknown
	}
	f.recordFirstSeen(session, files)
	return slices.MaxFunc(files, func(a, b portFile) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.look, b.look), a.written.Compare(b.written),
			strings.Compare(a.node.String(), b.node.String()))
	}).node, nil
}

// recordFirstSeen records which look at a session's folder first saw the nodes of the files, and sets the files' look.
func (f *Finder) recordFirstSeen(session string, files []portFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	before, now := f.seen[session], make(map[rayid.Node]int, len(files))
	for i, file := range files {
		look, ok := before[file.node]
		if !ok {
			look = f.looks
		}
		files[i].look, now[file.node] = look, look
	}
	if f.seen == nil {
		f.seen = make(map[string]map[rayid.Node]int)
	}
	f.seen[session] = now
}

// hookFile is written by a hook of the pod; an ID and white space take less than maxHookFile.
const (
	hookFile    = "raylet_node_id"
	maxHookFile = 1024
)

// fromFile reads the ID that a pod's hook wrote into hookFile. Errors do not quote the file: it may contain something
// secret.
func fromFile(root *os.Root) (rayid.Node, error) {
	data, err := regular.Read(root, hookFile, maxHookFile)
	if errors.Is(err, fs.ErrNotExist) {
		return rayid.Node{}, errUnknown
	}
	if err != nil {
		return rayid.Node{}, fmt.Errorf("look for the node's ID: %w", err)
	}
	id, err := rayid.Parse[rayid.Node](strings.TrimSpace(string(data)))
	if err != nil {
		return rayid.Node{}, fmt.Errorf(
			"look for the node's ID: %s does not contain an ID: have the pod's hook write the raylet's --node_id "+
				"there, or remove the hook", hookFile)
	}
	return id, nil
}

// fromDashboard asks the dashboard for the living node with the pod's address. It asks once in askGap at most, and
// returns errUnknown in between. All errors wrap errUnknown, except that of an invalid ID.
func (f *Finder) fromDashboard(ctx context.Context) (rayid.Node, error) {
	f.mu.Lock()
	soon := time.Since(f.asked) < askGap
	if !soon {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if soon {
		return rayid.Node{}, errUnknown
	}
	body, err := f.Get(ctx, "/api/v0/nodes?limit=10000&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE")
	if err != nil {
		return rayid.Node{}, fmt.Errorf("%w (%w)", errUnknown, err)
	}
	defer body.Close()
	type row struct {
		ID    string `json:"node_id"`
		IP    string `json:"node_ip"`
		State string `json:"state"`
	}
	id := ""
	err = answer.Each(body, []string{"data", "result", "result"}, "nodes", answer.MaxNodes, func(n row) error {
		if n.IP == f.IP && n.State == "ALIVE" { // an old version may ignore the filter
			id = cmp.Or(id, n.ID)
		}
		return nil
	})
	if id != "" {
		return rayid.Parse[rayid.Node](id)
	}
	if err != nil {
		return rayid.Node{}, fmt.Errorf("%w (read the dashboard's list of nodes: %w)", errUnknown, err)
	}
	return rayid.Node{}, fmt.Errorf("%w (the dashboard knows no living node at %s)", errUnknown, f.IP)
}

// ErrNoRay is the error of Node for a folder that is named like a session and holds nothing that Ray makes: somebody
// else made it.
var ErrNoRay = errors.New("the folder holds nothing that Ray makes")

// rayLogs are what the names of the logs of Ray's own processes begin with.
var rayLogs = []string{
	"raylet", "gcs_server", "dashboard", "monitor", "log_monitor", "runtime_env", "worker-", "python-core-",
	"job-driver-", "ray_client_server",
}

// isRays says whether a session's folder holds anything that Ray makes: the folder of its sockets, which is there from
// the first moment and stays, a file of a port, or a log of its processes. A session's folder that cannot be read
// counts as Ray's.
func isRays(root *os.Root, session string) bool {
	entries, err := regular.Folder(root, session, maxEntries)
	if err != nil {
		return true
	}
	for _, entry := range entries {
		if _, ok := portNode(entry.Name()); ok || (entry.Name() == "sockets" && entry.IsDir()) {
			return true
		}
	}
	logs, err := regular.Folder(root, path.Join(session, "logs"), maxEntries)
	if err != nil {
		return false
	}
	for _, entry := range logs {
		if slices.ContainsFunc(rayLogs, func(prefix string) bool { return strings.HasPrefix(entry.Name(), prefix) }) {
			return true
		}
	}
	return false
}

// portNode is the node that a file of a port, {what}_port_{node ID}, is named after.
func portNode(file string) (id rayid.Node, ok bool) {
	_, hex, ok := strings.Cut(file, "_port_")
	if !ok {
		return id, false
	}
	id, err := rayid.Parse[rayid.Node](hex)
	return id, err == nil && !id.Nil()
}
