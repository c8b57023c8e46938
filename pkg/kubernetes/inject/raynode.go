package inject

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// rayNode is where the Ray node of a group's pods keeps its files and serves its dashboard.
//
// Ray's rules (ray/_private/node.py, ray/_common/utils.py, checked with 2.53 to 2.60): a head uses --temp-dir, else
// /ray below RAY_TMPDIR, else TMPDIR, else /tmp. A worker uses --temp-dir from 2.55 on, else the folder of its head; it
// does not read the variables. Ports and hosts come from flags only.
type rayNode struct {
	// folders are where Ray keeps its files. A worker has two, its own and the head's, if only the running Ray tells
	// which of them.
	folders []string
	// dashboard is the head's address as its own pod reaches it; empty: there is none.
	dashboard string
	// ports are those that the manifest gives to programs of the pod.
	ports    portSet
	warnings []string
}

func (n *rayNode) warn(format string, args ...any) {
	n.warnings = append(n.warnings, fmt.Sprintf(format, args...))
}

// group is what a pod of a group is made of.
type group struct {
	role   string
	pod    map[string]any // its specification
	ray    map[string]any // Ray's container
	params map[string]any // rayStartParams
	// containers are all of the pod, inits those that begin before them.
	containers, inits []any
}

// readNode finds out where a group's Ray node keeps its files and serves its dashboard, from rayStartParams and the
// variables and command of Ray's container. head is the head's node, nil for the head itself.
func (c cluster) readNode(g group, head *rayNode) (*rayNode, error) {
	env, err := environmentOf(g.ray)
	if err != nil {
		return nil, err
	}
	l, err := launchOf(g.ray, env, g.role, g.params, c.overwrite)
	if err != nil {
		return nil, err
	}
	n := &rayNode{}
	start, found := l.startOf(g.role)
	if !found {
		start = rayStart{vars: l.vars}
	}
	c.readFolders(n, head, env, start)
	if head == nil {
		c.readDashboard(n, start)
	} else {
		n.dashboard = head.dashboard
	}
	c.warnUnread(n, l, start, found)
	n.ports = portsOf(g, start)
	return n, nil
}

// readFolders finds Ray's temporary folder and puts it into n.folders: what the options say, else --temp-dir, else what
// variables say. A worker uses the head's unless it has its own, and in some versions of Ray the head's even then: if
// it is not certain, n.folders has both, the worker's own first.
func (c cluster) readFolders(n, head *rayNode, env environment, start rayStart) {
	if c.options.RayTmpDir != "" {
		n.folders = []string{path.Clean(c.options.RayTmpDir)}
		return
	}
	if flag, given := start.flags["temp-dir"]; given {
		if folder, ok := n.cleanFolder(flag, "--temp-dir"); ok {
			n.folders = []string{folder}
			isRead := head == nil || !rayversion.Before(c.version, rayversion.Version{2, 55})
			if !isRead && folder != head.folders[0] {
				n.warn("Ray %s does not read --temp-dir in workers: they use the folder of the head, %s", c.version,
					head.folders[0])
				n.folders = append(n.folders, head.folders[0])
			}
			return
		}
	}
	own, ok := n.folderByVariables(env, start)
	switch {
	case head == nil && ok:
		n.folders = []string{own}
	case head == nil:
		n.folders = []string{DefaultTmpDir}
	default:
		n.folders = slices.Clone(head.folders)
		if ok && own != DefaultTmpDir && own != head.folders[0] {
			n.folders = []string{own, head.folders[0]}
		}
	}
}

// folderByVariables returns Ray's temporary folder as the environment says, or else the default. ok is false if a
// variable that moves it cannot be read here; a warning says so.
func (n *rayNode) folderByVariables(env environment, start rayStart) (folder string, ok bool) {
	for _, name := range []string{"RAY_TMPDIR", "TMPDIR"} {
		if v, set := start.vars[name]; set {
			return n.cleanFolder(value{text: path.Join(v.text, "ray"), why: v.why}, name)
		}
		for _, from := range env.from {
			n.warn("envFrom %s may set %s, which moves Ray's folder: %s", from, name, adviceFolder)
		}
		if len(env.from) > 0 {
			break // TMPDIR has the same warning
		}
	}
	return DefaultTmpDir, true
}

const adviceFolder = "the collector looks in " + DefaultTmpDir + "; if Ray's files are elsewhere, set --ray-tmp-dir"

// cleanFolder returns the clean path of a value for Ray's folder; false, and a warning, if it cannot be used. what
// names where the value is from.
func (n *rayNode) cleanFolder(v value, what string) (string, bool) {
	if !v.isKnown() {
		n.warn("%s depends on %s, which cannot be read here: %s", what, v.why, adviceFolder)
		return "", false
	}
	if !path.IsAbs(v.text) {
		n.warn("%s is not absolute (%s): %s", what, v.text, adviceFolder)
		return "", false
	}
	return path.Clean(v.text), true
}

// readDashboard finds the address of the head's dashboard, and puts it into n.dashboard; "" if there is none.
func (c cluster) readDashboard(n *rayNode, start rayStart) {
	switch address := c.options.RayDashboardAddress; address {
	case "":
	case "none":
		return
	default:
		n.dashboard = address
		return
	}
	if include, given := start.flags["include-dashboard"]; given {
		switch {
		case !include.isKnown():
			n.warn("--include-dashboard depends on %s, which cannot be read here: without a dashboard, set "+
				"--ray-dashboard-address=none", include.why)
		case slices.Contains([]string{"false", "f", "0", "no", "n", "off"}, strings.ToLower(include.text)):
			n.warn("include-dashboard is %s: without a dashboard the statuses of jobs, nodes and Serve are not "+
				"stored, nor metrics (unless --arg=--metrics=on)", include.text)
			return
		}
	}
	n.dashboard = DefaultDashboard
	host, port := "127.0.0.1", "8265"
	if v, given := start.flags["dashboard-port"]; given {
		if number, err := strconv.ParseUint(v.text, 10, 16); !v.isKnown() || err != nil || number == 0 {
			n.warn("--dashboard-port (%s) cannot be read here: the collector asks %s; if the dashboard is elsewhere, "+
				"set --ray-dashboard-address", v.forMessage(), DefaultDashboard)
			return
		}
		port = v.text
	}
	if v, given := start.flags["dashboard-host"]; given {
		if !v.isKnown() {
			n.warn("--dashboard-host depends on %s, which cannot be read here: if the dashboard does not listen on "+
				"127.0.0.1, set --ray-dashboard-address", v.why)
		} else {
			host = addressInPod(v.text)
		}
	}
	n.dashboard = "http://" + net.JoinHostPort(host, port)
}

// forMessage is the value for a message.
func (v value) forMessage() string {
	if !v.isKnown() {
		return v.why
	}
	return v.text
}

// addressInPod is the address at which its own pod reaches a server that listens on host. 127.0.0.1 does not reach one
// that listens on "::": Python's asyncio then takes no IPv4.
func addressInPod(host string) string {
	switch strings.Trim(host, "[]") {
	case "", "0.0.0.0", "localhost", "127.0.0.1":
		return "127.0.0.1"
	case "::", "::1", "0:0:0:0:0:0:0:0", "0:0:0:0:0:0:0:1":
		return "::1"
	}
	return strings.Trim(host, "[]")
}

// warnUnread warns of scripts, programs and variables that cannot be read here and may move Ray's folder or dashboard,
// unless the options say where both are. found says that a call of `ray start` was found; otherwise any of the programs
// may call it.
func (c cluster) warnUnread(n *rayNode, l launch, start rayStart, found bool) {
	if c.options.RayTmpDir != "" && c.options.RayDashboardAddress != "" {
		return
	}
	all := slices.Concat(l.unread, start.unread)
	if !found {
		all = append(all, l.programs...)
		if len(all) == 0 {
			all = append(all, "the image's own command")
		}
	}
	slices.Sort(all)
	for _, what := range slices.Compact(all) {
		if _, given := start.flags["temp-dir"]; given &&
			(strings.HasPrefix(what, "source ") || strings.HasPrefix(what, ". ")) {
			continue // a script that is sourced sets variables, and --temp-dir counts more
		}
		n.warn("%s cannot be read here: if it moves Ray's folder or dashboard (--temp-dir, RAY_TMPDIR, TMPDIR, "+
			"--dashboard-port), set --ray-tmp-dir and --ray-dashboard-address", what)
	}
}
