package logs

import (
	"os"
	"path"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// previousLogs is where KubeRay's manifests move the logs of a container that ended, before the next one starts:
// prev-logs/{session}/{node}/logs.
const previousLogs = "prev-logs"

// movedLogs finds the folders that a session's logs were moved to, and their nodes.
func movedLogs(root *os.Root, session string) (dirs []string, nodes map[string]rayid.Node) {
	parent, err := regular.OpenFolder(root, path.Join(previousLogs, session))
	if err != nil {
		return nil, nil // the usual case: there is none
	}
	defer parent.Close()
	names, err := parent.Readdirnames(-1)
	if err != nil {
		return nil, nil
	}
	nodes = make(map[string]rayid.Node)
	for _, name := range names {
		if node, err := rayid.Parse[rayid.Node](name); err == nil {
			dir := path.Join(previousLogs, session, name, "logs")
			dirs = append(dirs, dir)
			nodes[dir] = node
		}
	}
	return dirs, nodes
}

// setNode sets the node that writes the logs from now on.
func (t *tree) setNode(node rayid.Node) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.node = node
}

// passToNode gives logs that are still written to the node that writes them now: a raylet that was restarted in its pod has a new ID and
// continues writing to the same files. The bytes until then remain the old node's.
func (t *tree) passToNode() {
	for _, f := range t.files {
		s := f.stream
		if s.node == t.node || !s.isHome(f) {
			continue
		}
		if f.limit == 0 {
			f.limit, t.dirty = max(f.size, 1), true // a file that is still empty stays with the old node up to its first byte
			continue
		}
		if f.size <= f.limit || s.state != listed || s.consumed(f) < f.limit {
			continue
		}
		rest := *f
		rest.read, rest.limit, rest.oldest = f.limit, 0, f.grown
		f.read, f.size = f.limit, f.limit
		f.on(fileFinished)
		if s.current != f {
			s.drop(f)
		}
		t.streamOf(t.node, s.path).add(&rest)
		t.files[rest.id], t.dirty = &rest, true
	}
}
