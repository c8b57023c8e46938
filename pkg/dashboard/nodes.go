package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// headResource is the resource that only a head node has.
const headResource = "node:__internal_head__"

// nodeState is what events tell of a node at one moment.
type nodeState struct {
	state           string
	resources       map[string]float64 // the last told
	reason, message string             // of death
	ended           int64              // Unix ns, 0: alive
}

// nodeAt gives a node's state at a moment (0: the end) and whether it was there at all.
func nodeAt(n *session.Node, at int64) (s nodeState, existed bool) {
	s.state = alive
	if at != 0 && n.Start > at {
		return s, false
	}
	for i, t := range n.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0 || n.Start != 0
		}
		s.state = t.State
		if len(t.Resources) > 0 {
			s.resources = t.Resources
		}
		if t.State == dead {
			s.reason, s.message, s.ended = t.DeathReason, t.DeathMessage, t.Time
		}
	}
	return s, true
}

// stateMessage is compose_state_message in ray/dashboard/utils.py.
func (s *nodeState) stateMessage() any {
	text := map[string]string{
		"EXPECTED_TERMINATION": "Expected termination", "UNEXPECTED_TERMINATION": "Unexpected termination",
		"AUTOSCALER_DRAIN_PREEMPTED": "Terminated due to preemption", "AUTOSCALER_DRAIN_IDLE": "Terminated due to idle (no Ray activity)",
	}[s.reason]
	switch {
	case s.message == "" && text == "":
		return nil
	case text == "":
		return s.message
	case s.message == "":
		return text
	}
	return text + ": " + s.message
}

// nodeSummaries are the nodes as /nodes?view=summary shows them, by ID in hex.
type nodeSummaries struct {
	order   []string
	byID    map[string]*pyjson.Object
	unsaved map[string]bool // those of which there is no snapshot
	session *session.Session
}

func (n nodeSummaries) node(id string) *pyjson.Object { return n.byID[id] }

// ip is a node's address; Ray's own summary of a dead node may have lost it.
func (n nodeSummaries) ip(id string) string {
	ip := n.byID[id].Object("raylet").String("nodeManagerAddress")
	if known := nodeOf(n.session, id); ip == "" && known != nil {
		ip = known.IP
	}
	return ip
}

// summaries gives all nodes (get_all_node_summary in ray/dashboard/modules/node/datacenter.py).
func (d *Dashboard) summaries(r *Request) (nodeSummaries, error) {
	data, taken, err := savedData(r, "/nodes?view=summary")
	if err != nil {
		return nodeSummaries{}, err
	}
	all := nodeSummaries{byID: map[string]*pyjson.Object{}, unsaved: map[string]bool{}, session: r.Session}
	for _, v := range data.List("summary") {
		row, ok := v.(*pyjson.Object)
		if !ok {
			continue
		}
		id := row.Object("raylet").String("nodeId")
		known := nodeOf(r.Session, id)
		switch {
		case known != nil:
			state, existed := nodeAt(known, r.At)
			if !existed {
				continue
			}
			row = overlayNode(row, &state, believes(r, taken))
		case r.At != 0 && row.Object("raylet").Int("startTimeMs") > toMs(r.At):
			continue
		}
		all.order = append(all.order, id)
		all.byID[id] = row
	}
	for i := range r.Session.Nodes {
		n := &r.Session.Nodes[i]
		state, existed := nodeAt(n, r.At)
		if id := n.ID.String(); existed && all.byID[id] == nil {
			all.order = append(all.order, id)
			all.byID[id] = newNode(r.Session, n, &state)
			all.unsaved[id] = true
		}
	}
	return all, showHardware(r, all)
}

// detailedSummaries are the summaries with all that is known of the nodes' processes.
func (d *Dashboard) detailedSummaries(r *Request) (nodeSummaries, error) {
	all, err := d.summaries(r)
	if err != nil || len(all.unsaved) == 0 {
		return all, err
	}
	facts, err := d.nodeFacts(r)
	if err != nil {
		return all, err
	}
	workers, err := d.livingWorkers(r)
	if err != nil {
		return all, err
	}
	for id := range all.unsaved {
		all.byID[id] = completeNode(all.byID[id], facts[nodeOf(r.Session, id).ID], workers[id])
	}
	return all, nil
}

// nodeOf finds a node by its ID in hex; nil if no event told of it.
func nodeOf(s *session.Session, id string) *session.Node {
	parsed, err := rayid.Parse[rayid.Node](id)
	if err != nil {
		return nil
	}
	return s.Node(parsed)
}

// overlayNode gives a node's snapshot the state that events tell.
func overlayNode(row *pyjson.Object, s *nodeState, believed bool) *pyjson.Object {
	raylet := row.Object("raylet")
	if was := raylet.String("state"); was == s.state || was == dead && believed {
		return row
	}
	row, raylet = row.Clone(), raylet.Clone()
	setNodeState(raylet, s)
	row.Set("raylet", raylet)
	return row
}

func setNodeState(raylet *pyjson.Object, s *nodeState) {
	raylet.Set("state", s.state)
	raylet.Set("endTimeMs", pyString(toMs(s.ended)))
	raylet.Set("stateMessage", s.stateMessage())
	if s.state == dead && s.reason != "" {
		raylet.Set("deathInfo", pyjson.Obj("reason", s.reason, "reasonMessage", s.message))
	} else {
		raylet.Delete("deathInfo")
	}
}

// newNode makes the summary of a node of which there is no snapshot. Hardware figures that nobody recorded are zeros, or left out where
// Ray's frontend would draw a full bar for them.
func newNode(s *session.Session, n *session.Node, state *nodeState) *pyjson.Object {
	tmp := "/tmp/ray/" + s.Ref.Name
	raylet := pyjson.Obj(
		"storeStats", pyjson.Obj(), "objectStoreUsedMemory", 0, "objectStoreAvailableMemory", int64(state.resources["object_store_memory"]),
		"nodeId", n.ID.String(), "nodeManagerAddress", n.IP, "rayletSocketName", tmp+"/sockets/raylet",
		"objectStoreSocketName", tmp+"/sockets/plasma_store", "nodeManagerPort", 0, "objectManagerPort", 0,
		"nodeManagerHostname", n.Hostname, "metricsExportPort", 0, "resourcesTotal", googleStyleValue(resourceMap(state.resources)),
		"nodeName", cmp.Or(n.Name, n.IP), "startTimeMs", pyString(toMs(n.Start)), "labels", googleStyleValue(stringMap(n.Labels)),
		"runtimeEnvAgentPort", 0, "metricsAgentPort", 0, "dashboardAgentListenPort", 0, "tempDir", "/tmp/ray", "sessionDir", tmp,
		"instanceId", n.InstanceID, "nodeTypeName", "", "instanceTypeName", n.InstanceType, "isHeadNode", isHead(state.resources),
	)
	setNodeState(raylet, state)
	cpus := int64(state.resources["CPU"])
	return pyjson.Obj(
		"now", float64(toMs(n.Start))/float64(msPerSecond), "hostname", n.Hostname, "ip", n.IP, "cpu", 0.0, "cpus", []any{cpus, cpus},
		"shm", 0, "raylet", raylet, "agent", pyjson.Obj(), "bootTime", float64(toMs(n.Start))/float64(msPerSecond), // the machine's own is not known
		"loadAvg", []any{[]any{0.0, 0.0, 0.0}, []any{0.0, 0.0, 0.0}}, "disk", pyjson.Obj(), "diskIo", []any{0, 0, 0, 0},
		"diskIoSpeed", []any{0.0, 0.0, 0.0, 0.0}, "gpus", []any{}, "tpus", []any{}, "network", []any{0, 0},
		"networkSpeed", []any{0.0, 0.0}, "cmdline", []any{}, "gcs", nil,
	)
}

func resourceMap(m map[string]float64) map[string]float64 {
	if m == nil {
		return map[string]float64{}
	}
	return m
}

func isHead(resources map[string]float64) bool {
	_, is := resources[headResource]
	return is
}

// nodes is /nodes with its views (get_all_nodes in ray/dashboard/modules/node/node_head.py).
func (d *Dashboard) nodes(w http.ResponseWriter, r *Request) error {
	view := r.Query().Get("view")
	switch {
	case view == "summary":
		return d.nodeSummary(w, r)
	case strings.EqualFold(view, "hostNameList"):
		return d.hostnames(w, r)
	case !r.Query().Has("view"):
		view = "None"
	}
	writeReply(w, http.StatusInternalServerError, "Unknown view "+view, nil)
	return nil
}

func (d *Dashboard) nodeSummary(w http.ResponseWriter, r *Request) error {
	all, err := d.detailedSummaries(r)
	if err != nil {
		return err
	}
	data, _, err := savedData(r, "/nodes?view=summary")
	if err != nil {
		return err
	}
	rows := make([]any, len(all.order))
	for i, id := range all.order {
		rows[i] = all.byID[id]
	}
	logical := data.Object("nodeLogicalResources")
	if logical == nil {
		logical = pyjson.Obj()
	}
	return reply(w, "Node summary fetched.", "summary", rows, "nodeLogicalResources", logical)
}

func (d *Dashboard) hostnames(w http.ResponseWriter, r *Request) error {
	all, err := d.summaries(r)
	if err != nil {
		return err
	}
	names := []string{}
	for _, id := range all.order {
		raylet := all.byID[id].Object("raylet")
		if name := raylet.String("nodeManagerHostname"); raylet.String("state") == alive && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return reply(w, "Node hostname list fetched.", "hostNameList", names)
}

// node is /nodes/{node_id} (get_node_info in ray/dashboard/modules/node/datacenter.py). An unknown node has empty details.
func (d *Dashboard) node(w http.ResponseWriter, r *Request) error {
	id := r.Params["node_id"]
	all, err := d.detailedSummaries(r)
	if err != nil {
		return err
	}
	summary := all.byID[id]
	if summary == nil {
		raylet := pyjson.Obj("objectStoreUsedMemory", 0, "objectStoreAvailableMemory", 0, "stateMessage", nil)
		return reply(w, "Node details fetched.", "detail", pyjson.Obj("raylet", raylet, "tpus", []any{}, "actors", pyjson.Obj(), "workers", []any{}))
	}
	detail, err := d.nodeDetail(r, id, summary)
	if err != nil {
		return err
	}
	rows, err := d.actors(r)
	if err != nil {
		return err
	}
	saved, actors := detail.Object("actors"), &pyjson.Object{}
	for _, row := range rows {
		if row.Object("address").String("nodeId") == id || wasOn(r, row.String("actorId"), id) {
			row = googleStyle(row)
			actors.Set(row.String("actorId"), fuller(row, saved.Object(row.String("actorId"))))
		}
	}
	detail.Set("actors", actors)
	return reply(w, "Node details fetched.", "detail", detail)
}

// wasOn says whether an actor had a process on a node: Ray goes on listing it there after it was restarted elsewhere.
func wasOn(r *Request, actor, node string) bool {
	id, err := rayid.Parse[rayid.Actor](actor)
	if err != nil {
		return false
	}
	a := r.Session.Actor(id)
	if a == nil {
		return false
	}
	state, _ := actorAt(a, r.At)
	return state.node.String() == node || slices.ContainsFunc(state.formerProcesses, func(p actorProcess) bool { return p.node.String() == node })
}

// fuller is an actor's row, or the one in its node's snapshot if that is of the same state and tells of the living process what the row
// does not: Ray learns of a process some seconds after its actor.
func fuller(row, inNode *pyjson.Object) *pyjson.Object {
	if row.String("state") != alive || inNode.String("state") != alive || inNode.String("numRestarts") != row.String("numRestarts") {
		return row
	}
	if _, known := row.Lookup("workerId"); known {
		return row
	}
	return inNode
}

// nodeDetail is the node's own snapshot if there is one, else its summary with a row for each of its workers.
func (d *Dashboard) nodeDetail(r *Request, id string, summary *pyjson.Object) (*pyjson.Object, error) {
	data, taken, err := savedData(r, "/nodes/"+id)
	if err != nil {
		return nil, err
	}
	n := nodeOf(r.Session, id)
	if detail := data.Object("detail"); detail.Object("raylet").String("nodeId") == id {
		if n != nil {
			state, _ := nodeAt(n, r.At)
			detail = overlayNode(detail, &state, believes(r, taken))
		}
		detail = hardwareOf(detail.Clone(), summary, r.At)
		workers, err := d.nodeProcesses(r, id, detail.List("workers"))
		detail.Set("workers", workers)
		return detail, err
	}
	detail, raylet := summary.Clone(), summary.Object("raylet").Clone()
	workers := []any{}
	for _, v := range raylet.List("coreWorkersStats") {
		if stats, ok := v.(*pyjson.Object); ok {
			workers = append(workers, workerProcess(r, stats))
		}
	}
	if raylet.String("state") == alive && n != nil {
		facts, err := d.nodeFacts(r)
		if err != nil {
			return nil, err
		}
		if pid := facts[n.ID].runtimeEnvAgent; pid != 0 {
			workers = append(workers, agentProcess(pid, runtimeEnvAgentTitle))
		}
	}
	raylet.Delete("coreWorkersStats")
	detail.Set("raylet", raylet)
	detail.Set("workers", workers)
	return detail, nil
}
