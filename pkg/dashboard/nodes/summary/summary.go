// Package summary computes the summary of every node at one moment: its state, addresses and hardware figures. Answers about actors,
// workers and jobs use it to say where these ran.
package summary

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// headResource is the resource that only a head node has.
const headResource = "node:__internal_head__"

// Nodes are the nodes as /nodes?view=summary shows them, by ID in hex.
type Nodes struct {
	Order   []string
	ByID    map[string]*pyjson.Object
	Unsaved map[string]bool // nodes without a snapshot
	session *session.Session
}

// Node returns a node's summary, nil if there is none; a nil summary reads as empty.
func (n Nodes) Node(id string) *pyjson.Object { return n.ByID[id] }

// IP is a node's address; Ray's own summary of a dead node may have lost it.
func (n Nodes) IP(id string) string {
	ip := n.ByID[id].Object("raylet").String("nodeManagerAddress")
	if known := Find(n.session, id); ip == "" && known != nil {
		ip = known.IP
	}
	return ip
}

// Read returns all nodes (get_all_node_summary in ray/dashboard/modules/node/datacenter.py).
func Read(r *request.Request) (Nodes, error) {
	data, taken, err := r.SavedData(r.Context(), "/nodes?view=summary")
	if err != nil {
		return Nodes{}, err
	}
	all := Nodes{ByID: map[string]*pyjson.Object{}, Unsaved: map[string]bool{}, session: r.Session}
	for _, v := range data.List("summary") {
		row, ok := v.(*pyjson.Object)
		if !ok {
			continue
		}
		id := row.Object("raylet").String("nodeId")
		known := Find(r.Session, id)
		switch {
		case known != nil:
			state, existed := moment.NodeAt(known, r.At)
			if !existed {
				continue
			}
			row = Overlay(row, &state, r.Believes(taken))
		case r.At != 0 && row.Object("raylet").Int("startTimeMs") > moment.Milliseconds(r.At):
			continue
		}
		all.Order = append(all.Order, id)
		all.ByID[id] = row
	}
	for i := range r.Session.Nodes {
		n := &r.Session.Nodes[i]
		state, existed := moment.NodeAt(n, r.At)
		if id := n.ID.String(); existed && all.ByID[id] == nil {
			all.Order = append(all.Order, id)
			all.ByID[id] = newNode(r.Session, n, &state)
			all.Unsaved[id] = true
		}
	}
	return all, showHardware(r, all)
}

// Find finds a node by its ID in hex; nil if it has no events.
func Find(s *session.Session, id string) *entities.Node {
	parsed, err := rayid.Parse[rayid.Node](id)
	if err != nil {
		return nil
	}
	return s.Node(parsed)
}

// Overlay sets the state of a node's snapshot from its events.
func Overlay(row *pyjson.Object, s *moment.NodeState, believed bool) *pyjson.Object {
	raylet := row.Object("raylet")
	if was := raylet.String("state"); was == s.State || was == moment.Dead && believed {
		return row
	}
	row, raylet = row.Clone(), raylet.Clone()
	setNodeState(raylet, s)
	row.Set("raylet", raylet)
	return row
}

func setNodeState(raylet *pyjson.Object, s *moment.NodeState) {
	raylet.Set("state", s.State)
	raylet.Set("endTimeMs", reply.NumberString(moment.Milliseconds(s.Ended)))
	raylet.Set("stateMessage", s.StateMessage())
	if s.State == moment.Dead && s.Reason != "" {
		raylet.Set("deathInfo", pyjson.Obj("reason", s.Reason, "reasonMessage", s.Message))
	} else {
		raylet.Delete("deathInfo")
	}
}

// newNode makes the summary of a node without a snapshot. Hardware figures that are not recorded are zeros, or left out where Ray's
// frontend would draw a full bar for them.
func newNode(s *session.Session, n *entities.Node, state *moment.NodeState) *pyjson.Object {
	tmp := "/tmp/ray/" + s.Ref.Name
	raylet := pyjson.Obj(
		"storeStats", pyjson.Obj(), "objectStoreUsedMemory", 0, "objectStoreAvailableMemory", int64(state.Resources["object_store_memory"]),
		"nodeId", n.ID.String(), "nodeManagerAddress", n.IP, "rayletSocketName", tmp+"/sockets/raylet",
		"objectStoreSocketName", tmp+"/sockets/plasma_store", "nodeManagerPort", 0, "objectManagerPort", 0,
		"nodeManagerHostname", n.Hostname, "metricsExportPort", 0, "resourcesTotal", reply.GoogleStyleValue(ResourceMap(state.Resources)),
		"nodeName", cmp.Or(n.Name, n.IP), "startTimeMs", reply.NumberString(moment.Milliseconds(n.Start)), "labels", reply.GoogleStyleValue(reply.StringMap(n.Labels)),
		"runtimeEnvAgentPort", 0, "metricsAgentPort", 0, "dashboardAgentListenPort", 0, "tempDir", "/tmp/ray", "sessionDir", tmp,
		"instanceId", n.InstanceID, "nodeTypeName", "", "instanceTypeName", n.InstanceType, "isHeadNode", IsHead(state.Resources),
	)
	setNodeState(raylet, state)
	cpus := int64(state.Resources["CPU"])
	return pyjson.Obj(
		"now", float64(moment.Milliseconds(n.Start))/float64(moment.MillisPerSecond), "hostname", n.Hostname, "ip", n.IP, "cpu", 0.0, "cpus", []any{cpus, cpus},
		"shm", 0, "raylet", raylet, "agent", pyjson.Obj(), "bootTime", float64(moment.Milliseconds(n.Start))/float64(moment.MillisPerSecond), // the machine's own is not known
		"loadAvg", []any{[]any{0.0, 0.0, 0.0}, []any{0.0, 0.0, 0.0}}, "disk", pyjson.Obj(), "diskIo", []any{0, 0, 0, 0},
		"diskIoSpeed", []any{0.0, 0.0, 0.0, 0.0}, "gpus", []any{}, "tpus", []any{}, "network", []any{0, 0},
		"networkSpeed", []any{0.0, 0.0}, "cmdline", []any{}, "gcs", nil,
	)
}

// ResourceMap is m, or an empty map: Ray writes maps that are not set as {}.
func ResourceMap(m map[string]float64) map[string]float64 {
	if m == nil {
		return map[string]float64{}
	}
	return m
}

// IsHead reports whether these are the resources of a head node.
func IsHead(resources map[string]float64) bool {
	_, is := resources[headResource]
	return is
}
