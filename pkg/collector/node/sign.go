package node

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// ErrNoRay is the error of Node for a folder that is named like a session and holds nothing that Ray makes: somebody
// else made it.
var ErrNoRay = errors.New("the folder holds nothing that Ray makes")

// rayLogs are what the names of the logs of Ray's own processes begin with.
var rayLogs = []string{
	"raylet", "gcs_server", "dashboard", "monitor", "log_monitor", "runtime_env", "worker-", "python-core-", "job-driver-", "ray_client_server",
}

// ofRay says whether a session's folder holds anything that Ray makes: the folder of its sockets, which is there from
// the first moment and stays, a file of a port, or a log of its processes. A folder that cannot be read may be Ray's.
func ofRay(root *os.Root, session string) bool {
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
