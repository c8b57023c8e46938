package inject

import (
	"slices"
	"strconv"
	"strings"
)

// portSet are the ports that programs of a pod use.
type portSet struct {
	single     map[int]string // what uses it
	least, max int            // of Ray's worker processes
}

// usedBy returns what of Ray uses a port; "" if nothing does.
func (s portSet) usedBy(port int) string {
	if what := s.single[port]; what != "" {
		return what
	}
	if s.least > 0 && port >= s.least && port <= s.max {
		return "Ray's worker processes"
	}
	return ""
}

// freePort is the port itself, or the next one that nothing in the pod is known to use.
func (s portSet) freePort(port, taken int) int {
	for port < 65535 && (port == taken || s.usedBy(port) != "") {
		port++
	}
	return port
}

// portFlags are the flags of `ray start` that choose a port, with Ray's or KubeRay's defaults; 0 for none.
var portFlags = map[string]int{
	"port": 6379, "dashboard-port": 8265, "metrics-export-port": 8080, "dashboard-agent-listen-port": 52365,
	"ray-client-server-port":    10001,
	"dashboard-agent-grpc-port": 0, "runtime-env-agent-port": 0, "object-manager-port": 0, "node-manager-port": 0,
}

// portsOf returns the ports that are used in a pod: those of Ray's flags or their defaults, and those that the pod's
// other containers declare.
func portsOf(g group, start rayStart) portSet {
	s := portSet{single: map[int]string{}}
	number := func(text string) int { // 0 if it is none
		n, _ := strconv.Atoi(text)
		return n
	}
	for name, usual := range portFlags {
		port := usual
		if v, given := start.flags[name]; given {
			port = number(v.text)
		}
		if port > 0 {
			s.single[port] = "Ray's --" + name
		}
	}
	if v, given := start.flags["worker-port-list"]; given {
		for port := range strings.SplitSeq(v.text, ",") {
			s.single[number(port)] = "Ray's --worker-port-list"
		}
	}
	s.least, s.max = number(start.flags["min-worker-port"].text), number(start.flags["max-worker-port"].text)
	for _, other := range slices.Concat(g.containers, slices.DeleteFunc(slices.Clone(g.inits), endsFirst)) {
		m, _ := other.(map[string]any)
		if text(m, "name") == containerName {
			continue
		}
		declared, _ := list(m, "ports")
		for _, p := range declared {
			if p, ok := p.(map[string]any); ok {
				s.single[number(scalarText(p["containerPort"]))] = "container " + text(m, "name")
			}
		}
	}
	delete(s.single, 0)
	return s
}

// endsFirst reports whether an init container ends before the pod's containers begin: native sidecars do not.
func endsFirst(init any) bool {
	m, _ := init.(map[string]any)
	return text(m, "restartPolicy") != "Always"
}
