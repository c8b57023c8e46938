// Package node finds out which Ray node the collector stands beside.
//
// Ray's processes on a node write the ports they listen on to files of the session's folder that are named after the node:
// metrics_agent_port_{node ID}, and gcs_server_port_{node ID} on the head (ray/dashboard/agent.py persists them). Where there are none
// yet, or Ray is too old for them, a hook of the pod may have left the ID in raylet_node_id, and at last the dashboard knows which node
// has the pod's address.
package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Finder finds the node of each session below Ray's temporary folder. It may be used by several goroutines.
type Finder struct {
	// Dir is Ray's temporary folder.
	Dir string
	// Head prefers the head's raylet where several share the folder, as on one machine.
	Head bool
	// Get asks the dashboard for a path; nil if its address is not known.
	Get func(ctx context.Context, path string) (io.ReadCloser, error)
	// IP is the pod's own address, for the dashboard.
	IP string

	mu    sync.Mutex
	last  rayid.Node // of the newest session it was found of
	asked time.Time  // the dashboard
}

// askGap is the shortest time between two questions to the dashboard.
const askGap = 10 * time.Second

// ErrUnknown says that nothing tells the node's ID yet.
var ErrUnknown = errors.New("the node's ID is not known yet: no *_port_{node ID} file in the session's folder, no raylet_node_id file, and no answer of the dashboard")

// Node is the ID of the node whose files a session's folder holds.
func (f *Finder) Node(ctx context.Context, session string) (rayid.Node, error) {
	node, err := fromSession(filepath.Join(f.Dir, session), f.Head)
	if errors.Is(err, ErrUnknown) {
		node, err = fromFile(filepath.Join(f.Dir, "raylet_node_id"))
	}
	if errors.Is(err, ErrUnknown) && f.Get != nil && f.IP != "" {
		node, err = f.fromDashboard(ctx)
	}
	if err == nil {
		f.mu.Lock()
		f.last = node
		f.mu.Unlock()
	}
	return node, err
}

// Last is the node that was found last; false before any was.
func (f *Finder) Last() (rayid.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.last != rayid.Node{}
}

// portFile is one {what}_port_{node ID} file.
type portFile struct {
	node    rayid.Node
	rank    int
	written time.Time
}

// fromSession reads the names of the port files. Of several nodes' (raylets of one machine share the folder, and a raylet that was
// restarted has a new ID) the head's is the one with a GCS, the last written the one that runs.
func fromSession(dir string, head bool) (rayid.Node, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return rayid.Node{}, ErrUnknown
	}
	if err != nil {
		return rayid.Node{}, fmt.Errorf("look for the node's ID: %w", err)
	}
	var files []portFile
	for _, entry := range entries {
		what, hex, ok := strings.Cut(entry.Name(), "_port_")
		if !ok {
			continue
		}
		id, err := rayid.Parse[rayid.Node](hex)
		if err != nil || id.Nil() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue
		}
		p := portFile{node: id, written: info.ModTime()}
		switch {
		case head && what == "gcs_server":
			p.rank = 2
		case what == "metrics_agent":
			p.rank = 1
		}
		files = append(files, p)
	}
	if len(files) == 0 {
		return rayid.Node{}, ErrUnknown
	}
	return slices.MaxFunc(files, func(a, b portFile) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.written.Compare(b.written), strings.Compare(a.node.String(), b.node.String()))
	}).node, nil
}

func fromFile(path string) (rayid.Node, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rayid.Node{}, ErrUnknown
	}
	if err != nil {
		return rayid.Node{}, fmt.Errorf("look for the node's ID: %w", err)
	}
	id, err := rayid.Parse[rayid.Node](strings.TrimSpace(string(data)))
	if err != nil {
		return rayid.Node{}, fmt.Errorf("look for the node's ID in %s: %w", path, err)
	}
	return id, nil
}

// fromDashboard asks which living node has the pod's address.
func (f *Finder) fromDashboard(ctx context.Context) (rayid.Node, error) {
	f.mu.Lock()
	soon := time.Since(f.asked) < askGap
	if !soon {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if soon {
		return rayid.Node{}, ErrUnknown
	}
	body, err := f.Get(ctx, "/api/v0/nodes?limit=10000&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE")
	if err != nil {
		return rayid.Node{}, fmt.Errorf("%w (%w)", ErrUnknown, err)
	}
	defer body.Close()
	var answer struct {
		Data struct {
			Result struct {
				Result []struct {
					ID    string `json:"node_id"`
					IP    string `json:"node_ip"`
					State string `json:"state"`
				} `json:"result"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return rayid.Node{}, fmt.Errorf("%w (read the dashboard's list of nodes: %w)", ErrUnknown, err)
	}
	for _, n := range answer.Data.Result.Result {
		if n.IP == f.IP && n.State == "ALIVE" {
			return rayid.Parse[rayid.Node](n.ID)
		}
	}
	return rayid.Node{}, fmt.Errorf("%w (the dashboard knows no living node at %s)", ErrUnknown, f.IP)
}
