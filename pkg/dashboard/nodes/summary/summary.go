// Package summary computes the summary of every node at one moment: its state, addresses and hardware figures. Answers about actors,
// workers and jobs use it to say where these ran.
package summary

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Nodes are the nodes with their rows as /nodes?view=summary shows them.
type Nodes struct {
	moment.Nodes
	rows map[string]*pyjson.Object // by ID in hex
}

// Row returns a node's row, nil if there is none; a nil row reads as empty.
func (n Nodes) Row(id string) *pyjson.Object { return n.rows[id] }

// SetRow replaces a node's row.
func (n Nodes) SetRow(id string, row *pyjson.Object) { n.rows[id] = row }

// Read returns all nodes with their rows.
func Read(r *request.Request) (Nodes, error) {
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return Nodes{}, err
	}
	all := Nodes{nodes, map[string]*pyjson.Object{}}
	for _, n := range nodes.All {
		switch {
		case n.Saved == nil:
			all.rows[n.ID] = newRow(r.Session, n)
		case n.Newer:
			all.rows[n.ID] = WithState(n.Saved, &n.Told)
		default:
			all.rows[n.ID] = n.Saved
		}
	}
	return all, showHardware(r, all)
}

// WithState returns a node's row with a state by events.
func WithState(row *pyjson.Object, s *moment.NodeState) *pyjson.Object {
	row, raylet := row.Clone(), row.Object("raylet").Clone()
	setNodeState(raylet, s)
	row.Set("raylet", raylet)
	return row
}

func setNodeState(raylet *pyjson.Object, s *moment.NodeState) {
	raylet.Set("state", s.State)
	raylet.Set("endTimeMs", reply.NumberString(moment.Milliseconds(s.Ended)))
	raylet.Set("stateMessage", reply.Nullable(s.StateMessage()))
	if s.State == moment.Dead && s.Reason != "" {
		raylet.Set("deathInfo", pyjson.Obj("reason", s.Reason, "reasonMessage", s.Message))
	} else {
		raylet.Delete("deathInfo")
	}
}

// newRow makes the summary of a node without a snapshot. Hardware figures that are not recorded are zeros, or left out where Ray's
// frontend would draw a full bar for them.
func newRow(s *session.Session, of *moment.Node) *pyjson.Object {
	n, state := of.Events, &of.Told
	tmp := "/tmp/ray/" + s.Ref.Name
	raylet := pyjson.Obj(
		"storeStats", pyjson.Obj(), "objectStoreUsedMemory", 0, "objectStoreAvailableMemory", int64(state.Resources["object_store_memory"]),
		"nodeId", n.ID.String(), "nodeManagerAddress", n.IP, "rayletSocketName", tmp+"/sockets/raylet",
		"objectStoreSocketName", tmp+"/sockets/plasma_store", "nodeManagerPort", 0, "objectManagerPort", 0,
		"nodeManagerHostname", n.Hostname, "metricsExportPort", 0, "resourcesTotal", reply.GoogleStyleValue(ResourceMap(state.Resources)),
		"nodeName", cmp.Or(n.Name, n.IP), "startTimeMs", reply.NumberString(moment.Milliseconds(n.Start)), "labels", reply.GoogleStyleValue(reply.StringMap(n.Labels)),
		"runtimeEnvAgentPort", 0, "metricsAgentPort", 0, "dashboardAgentListenPort", 0, "tempDir", "/tmp/ray", "sessionDir", tmp,
		"instanceId", n.InstanceID, "nodeTypeName", "", "instanceTypeName", n.InstanceType, "isHeadNode", state.Head(),
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
