package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// detailedSummaries returns the nodes with their rows, as readSummaries, and completes the rows of nodes that no saved
// answer has by what is known of their processes.
func detailedSummaries(r *Request) (nodeSummaries, error) {
	all, err := readSummaries(r)
	unsaved := func(n *moment.Node) bool { return n.Saved == nil }
	if err != nil || !slices.ContainsFunc(all.All, unsaved) {
		return all, err
	}
	facts, err := factsOf(r)
	if err != nil {
		return all, err
	}
	workers, err := livingWorkers(r)
	if err != nil {
		return all, err
	}
	for _, n := range all.All {
		if unsaved(n) {
			all.rows[n.ID] = withProcesses(all.rows[n.ID], facts[n.Events.ID], workers[n.ID])
		}
	}
	return all, nil
}

// allNodes is /nodes with its views (get_all_nodes in ray/dashboard/modules/node/node_head.py).
func allNodes(w http.ResponseWriter, r *Request) error {
	view := r.Query().Get("view")
	switch {
	case view == "summary":
		return nodeSummary(w, r)
	case strings.EqualFold(view, "hostNameList"):
		return hostnames(w, r)
	case !r.Query().Has("view"):
		view = "None"
	}
	return writeEnvelope(w, http.StatusInternalServerError, "Unknown view "+view, nil)
}

// nodeSummary is /nodes?view=summary: all nodes with their hardware figures, without nulls for browsers. What Ray
// reports of the use of logical resources is only shown if it was saved by the requested moment.
func nodeSummary(w http.ResponseWriter, r *Request) error {
	all, err := detailedSummaries(r)
	if err != nil {
		return err
	}
	data, taken, err := r.SavedData(r.Context(), "/nodes?view=summary")
	if err != nil {
		return err
	}
	rows := make([]any, len(all.All))
	for i, n := range all.All {
		row := all.rows[n.ID]
		if FromBrowser(r.Request) {
			row = withoutNulls(row)
		}
		rows[i] = row
	}
	logical := data.Object("nodeLogicalResources")
	if logical == nil || !r.InTime(taken) {
		logical = pyjson.Obj()
	}
	return writeOK(w, "Node summary fetched.", "summary", rows, "nodeLogicalResources", logical)
}

// hostnames is /nodes?view=hostNameList: the host names of the nodes that are alive, each once.
func hostnames(w http.ResponseWriter, r *Request) error {
	all, err := r.Nodes(r.Context())
	if err != nil {
		return err
	}
	names := []string{}
	for _, n := range all.All {
		if n.State == moment.Alive && !slices.Contains(names, n.Hostname) {
			names = append(names, n.Hostname)
		}
	}
	return writeOK(w, "Node hostname list fetched.", "hostNameList", names)
}

// oneNode is /nodes/{node_id} (get_node_info in ray/dashboard/modules/node/datacenter.py): a node's details, with its
// processes and all actors that ran on it. An unknown node has empty details.
func oneNode(w http.ResponseWriter, r *Request) error {
	id := r.PathValue("node_id")
	nodes, err := detailedSummaries(r)
	if err != nil {
		return err
	}
	row := nodes.rows[id]
	if row == nil {
		raylet := pyjson.Obj("objectStoreUsedMemory", 0, "objectStoreAvailableMemory", 0, "stateMessage", nil)
		return writeOK(w, "Node details fetched.", "detail",
			pyjson.Obj("raylet", raylet, "tpus", []any{}, "actors", pyjson.Obj(), "workers", []any{}))
	}
	detail, err := nodeDetail(r, nodes.ByID[id], row)
	if err != nil {
		return err
	}
	actors, err := readActors(r)
	if err != nil {
		return err
	}
	saved, onNode := detail.Object("actors"), &pyjson.Object{}
	ranHere := func(p moment.ActorProcess) bool { return p.Node.String() == id }
	for i := range actors.all {
		a := &actors.all[i]
		row := actors.row(a)
		// Ray still lists an actor on its node after it was restarted on another one.
		if row.Object("address").String("nodeId") == id || slices.ContainsFunc(a.Processes(), ranHere) {
			if row = googleStyle(row); r.At == 0 {
				row = fullerRow(row, saved.Object(a.ID))
			}
			onNode.Set(a.ID, row)
		}
	}
	detail.Set("actors", onNode)
	if FromBrowser(r.Request) {
		detail = withoutNulls(detail)
	}
	return writeOK(w, "Node details fetched.", "detail", detail)
}

// nodeDetail returns a node's details: its own saved answer, with the state and figures of the moment, if there is one,
// otherwise row, its summary, with an entry for each of its processes.
func nodeDetail(r *Request, n *moment.Node, row *pyjson.Object) (*pyjson.Object, error) {
	data, taken, err := r.SavedData(r.Context(), "/nodes/"+n.ID)
	if err != nil {
		return nil, err
	}
	if detail := data.Object("detail"); detail.Object("raylet").String("nodeId") == n.ID {
		savedState := detail.Object("raylet").String("state")
		// the node's events say more of its state than the snapshot does
		if n.Events != nil && r.Overrides(taken, savedState == n.ByEvents.State, savedState == moment.Dead) {
			detail = withNodeState(detail, &n.ByEvents)
		}
		detail = hardwareOf(detail.Clone(), row, r.At)
		processes, err := nodeProcesses(r, n.ID, detail.List("workers"))
		detail.Set("workers", processes)
		return detail, err
	}
	detail, raylet := row.Clone(), row.Object("raylet").Clone()
	processes := []any{}
	for _, v := range raylet.List("coreWorkersStats") {
		if stats, ok := v.(*pyjson.Object); ok {
			processes = append(processes, workerProcess(r, stats))
		}
	}
	if raylet.String("state") == moment.Alive && n.Events != nil {
		facts, err := factsOf(r)
		if err != nil {
			return nil, err
		}
		if pid := facts[n.Events.ID][runtimeEnvAgent]; pid != 0 {
			processes = append(processes, agentProcess(pid, runtimeEnvAgentTitle))
		}
	}
	raylet.Delete("coreWorkersStats")
	detail.Set("raylet", raylet)
	detail.Set("workers", processes)
	return detail, nil
}

// nodeSummaries are the nodes with their rows as /nodes?view=summary shows them.
type nodeSummaries struct {
	moment.Nodes
	rows map[string]*pyjson.Object // by ID in hex
}

// readSummaries returns the nodes that existed at the moment, with their rows as /nodes?view=summary shows them.
func readSummaries(r *Request) (nodeSummaries, error) {
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return nodeSummaries{}, err
	}
	all := nodeSummaries{nodes, map[string]*pyjson.Object{}}
	for _, n := range nodes.All {
		switch {
		case n.Saved == nil:
			all.rows[n.ID] = newSummary(r.Session, n)
		case n.Newer: // its events are newer than its saved row
			all.rows[n.ID] = withNodeState(n.Saved, &n.ByEvents)
		default:
			all.rows[n.ID] = n.Saved
		}
	}
	return all, showHardware(r, all)
}

func withNodeState(row *pyjson.Object, s *moment.NodeState) *pyjson.Object {
	row, raylet := row.Clone(), row.Object("raylet").Clone()
	setNodeState(raylet, s)
	row.Set("raylet", raylet)
	return row
}

// setNodeState puts a node's state by its events into its summary.
func setNodeState(raylet *pyjson.Object, s *moment.NodeState) {
	raylet.SetAll(
		"state", s.State, "endTimeMs", numberString(moment.Milliseconds(s.Ended)),
		"stateMessage", orNone(s.StateMessage()),
	)
	if s.State == moment.Dead && s.Reason != "" {
		raylet.Set("deathInfo", pyjson.Obj("reason", s.Reason, "reasonMessage", s.Message))
	} else {
		raylet.Delete("deathInfo")
	}
}

// newSummary makes the row of a node that no saved answer has, from its events. Hardware figures, which no event has,
// are zeros, or left out where Ray's frontend would draw a full bar for them.
func newSummary(s *session.Session, node *moment.Node) *pyjson.Object {
	n, state := node.Events, &node.ByEvents
	tmp := "/tmp/ray/" + s.Ref.Name
	raylet := pyjson.Obj(
		"storeStats", pyjson.Obj(), "objectStoreUsedMemory", 0, "objectStoreAvailableMemory",
		int64(state.Resources[storeMemory]),
		"nodeId", n.ID.String(), "nodeManagerAddress", n.IP, "rayletSocketName", tmp+"/sockets/raylet",
		"objectStoreSocketName", tmp+"/sockets/plasma_store", "nodeManagerPort", 0, "objectManagerPort", 0,
		"nodeManagerHostname", n.Hostname, "metricsExportPort", 0, "resourcesTotal",
		camelKeys(orEmpty(state.Resources)),
		"nodeName", cmp.Or(n.Name, n.IP), "startTimeMs", numberString(moment.Milliseconds(n.Start)), "labels",
		camelKeys(orEmpty(n.Labels)),
		"runtimeEnvAgentPort", 0, "metricsAgentPort", 0, "dashboardAgentListenPort", 0, "tempDir", "/tmp/ray",
		"sessionDir", tmp,
		"instanceId", n.InstanceID, "nodeTypeName", "", "instanceTypeName", n.InstanceType, "isHeadNode", state.Head(),
	)
	setNodeState(raylet, state)
	cpus := int64(state.Resources["CPU"])
	return pyjson.Obj(
		"now", float64(moment.Milliseconds(n.Start))/float64(moment.MillisPerSecond), "hostname", n.Hostname, "ip",
		n.IP, "cpu", 0.0, "cpus", []any{cpus, cpus},
		// the machine's own is not known
		"shm", 0, "raylet", raylet, "agent", pyjson.Obj(), "bootTime",
		float64(moment.Milliseconds(n.Start))/float64(moment.MillisPerSecond),
		"loadAvg", []any{[]any{0.0, 0.0, 0.0}, []any{0.0, 0.0, 0.0}}, "disk", pyjson.Obj(), "diskIo", []any{0, 0, 0, 0},
		"diskIoSpeed", []any{0.0, 0.0, 0.0, 0.0}, "gpus", []any{}, "tpus", []any{}, "network", []any{0, 0},
		"networkSpeed", []any{0.0, 0.0}, "cmdline", []any{}, "gcs", nil,
	)
}

// shownNode is a node with its row of the summary.
type shownNode struct {
	*moment.Node
	raylet *pyjson.Object
}

// rayletField is a field of the raylet in a node's summary.
func rayletField(name string) func(*shownNode) any {
	return func(n *shownNode) any { return n.raylet.Get(name) }
}

// byEventsOr is a value of a node by its events; without events it is a field of the raylet.
func byEventsOr(name string, by func(*shownNode) any) func(*shownNode) any {
	return func(n *shownNode) any {
		if n.Events == nil {
			return n.raylet.Get(name)
		}
		return by(n)
	}
}

// nodeFields are the State API's columns, in Ray's order (NodeState in ray/util/state/common.py). Events have the names
// of resources and labels unchanged; the summary has them in camelCase.
var nodeFields = []field[shownNode]{
	{filterable("node_id"), rayletField("nodeId"), keepsSaved},
	{filterable("node_ip"), rayletField("nodeManagerAddress"), keepsSaved},
	{filterable("is_head_node").ofKind(boolKind), func(n *shownNode) any { return n.Head }, keepsSaved},
	{filterable("state"), func(n *shownNode) any { return n.State }, followsEvents},
	{shownOnly("state_message"), func(n *shownNode) any { return orNone(n.StateMessage) }, followsEvents},
	{filterable("node_name"), byEventsOr("nodeName", func(n *shownNode) any {
		return cmp.Or(n.raylet.String("nodeName"), n.Events.Name)
	}), keepsSaved},
	{shownOnly("resources_total"),
		byEventsOr("resourcesTotal", func(n *shownNode) any { return orEmpty(n.ByEvents.Resources) }),
		keepsSaved},
	{shownOnly("labels"), byEventsOr("labels", func(n *shownNode) any { return orEmpty(n.Events.Labels) }), keepsSaved},
	{detailOnly("start_time_ms"), func(n *shownNode) any { return n.raylet.Int("startTimeMs") }, keepsSaved},
	{detailOnly("end_time_ms"), func(n *shownNode) any { return moment.Milliseconds(n.End) }, followsEvents},
}

// nodeChecks are what Ray's node table refuses (get_all_node_info in ray/util/state/state_manager.py).
var nodeChecks = map[string]func(string) error{"state": oneOf("node", moment.Alive, moment.Dead),
	"node_id": hexID(rayid.NodeSize)}

// nodeRows returns the rows of the State API's nodes (list_nodes in ray/dashboard/state_aggregator.py): those of the
// nodes that existed at the moment, then those that only the saved list has.
func nodeRows(r *Request) (rowSet, error) {
	set := rowSet{columns: columnsOf(nodeFields), saved: "/api/v0/nodes", partialFailure: "", checks: nodeChecks,
		drops: func(f typedFilter, row *pyjson.Object) bool { // Ray's own store applies only these filters
			return f.SentLowerCase && !f.Not && (f.Key == "node_id" || f.Key == "state" || f.Key == "node_name") &&
				f.excludes(row)
		}}
	list, taken, err := r.SavedList(r.Context(), set.saved)
	if err != nil {
		return set, err
	}
	left := moment.RowsByKey(list.List("result"), "node_id")
	all, err := readSummaries(r)
	if err != nil {
		return set, err
	}
	for _, n := range all.All {
		row := left[n.ID]
		newer := r.Overrides(taken, row.String("state") == n.State, row.String("state") == moment.Dead)
		set.rows = append(set.rows, rowOf(nodeFields, &shownNode{n, all.rows[n.ID].Object("raylet")}, row, newer))
		delete(left, n.ID)
	}
	set.addOthers(r, list, left)
	return set, nil
}
