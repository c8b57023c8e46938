// Package nodes answers requests about nodes and the processes on them (ray/dashboard/modules/node).
package nodes

import (
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/actors"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/workers"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// detailedSummaries are the summaries with all that is known of the nodes' processes.
func detailedSummaries(r *request.Request) (summary.Nodes, error) {
	all, err := summary.Read(r)
	unsaved := func(n *moment.Node) bool { return n.Saved == nil }
	if err != nil || !slices.ContainsFunc(all.All, unsaved) {
		return all, err
	}
	facts, err := factsOf(r)
	if err != nil {
		return all, err
	}
	workers, err := workers.Living(r)
	if err != nil {
		return all, err
	}
	for _, n := range all.All {
		if unsaved(n) {
			all.SetRow(n.ID, complete(all.Row(n.ID), facts[n.Events.ID], workers[n.ID]))
		}
	}
	return all, nil
}

// All is /nodes with its views (get_all_nodes in ray/dashboard/modules/node/node_head.py).
func All(w http.ResponseWriter, r *request.Request) error {
	view := r.Query().Get("view")
	switch {
	case view == "summary":
		return nodeSummary(w, r)
	case strings.EqualFold(view, "hostNameList"):
		return hostnames(w, r)
	case !r.Query().Has("view"):
		view = "None"
	}
	return reply.Envelope(w, http.StatusInternalServerError, "Unknown view "+view, nil)
}

func nodeSummary(w http.ResponseWriter, r *request.Request) error {
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
		row := all.Row(n.ID)
		if request.FromBrowser(r.Request) {
			row = withoutNulls(row)
		}
		rows[i] = row
	}
	logical := data.Object("nodeLogicalResources")
	if logical == nil || !r.Believes(taken) {
		logical = pyjson.Obj()
	}
	return reply.OK(w, "Node summary fetched.", "summary", rows, "nodeLogicalResources", logical)
}

func hostnames(w http.ResponseWriter, r *request.Request) error {
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
	return reply.OK(w, "Node hostname list fetched.", "hostNameList", names)
}

// One is /nodes/{node_id} (get_node_info in ray/dashboard/modules/node/datacenter.py). An unknown node has empty details.
func One(w http.ResponseWriter, r *request.Request) error {
	id := r.Params["node_id"]
	nodes, err := detailedSummaries(r)
	if err != nil {
		return err
	}
	row := nodes.Row(id)
	if row == nil {
		raylet := pyjson.Obj("objectStoreUsedMemory", 0, "objectStoreAvailableMemory", 0, "stateMessage", nil)
		return reply.OK(w, "Node details fetched.", "detail", pyjson.Obj("raylet", raylet, "tpus", []any{}, "actors", pyjson.Obj(), "workers", []any{}))
	}
	detail, err := nodeDetail(r, nodes.ByID[id], row)
	if err != nil {
		return err
	}
	all, actorRow, err := actors.Read(r)
	if err != nil {
		return err
	}
	saved, onNode := detail.Object("actors"), &pyjson.Object{}
	onThis := func(p moment.ActorProcess) bool { return p.Node.String() == id }
	for _, a := range all {
		row := actorRow(a)
		// Ray still lists an actor on its node after it was restarted on another one.
		if row.Object("address").String("nodeId") == id || slices.ContainsFunc(a.Processes(), onThis) {
			if row = reply.GoogleStyle(row); r.At == 0 {
				row = actors.Fuller(row, saved.Object(a.ID))
			}
			onNode.Set(a.ID, row)
		}
	}
	detail.Set("actors", onNode)
	if request.FromBrowser(r.Request) {
		detail = withoutNulls(detail)
	}
	return reply.OK(w, "Node details fetched.", "detail", detail)
}

// nodeDetail is the node's own snapshot if there is one, else its summary with a row for each of its workers.
func nodeDetail(r *request.Request, n *moment.Node, row *pyjson.Object) (*pyjson.Object, error) {
	data, taken, err := r.SavedData(r.Context(), "/nodes/"+n.ID)
	if err != nil {
		return nil, err
	}
	if detail := data.Object("detail"); detail.Object("raylet").String("nodeId") == n.ID {
		was := detail.Object("raylet").String("state")
		if n.Events != nil && r.Overrides(taken, was == n.Told.State, was == moment.Dead) {
			detail = summary.WithState(detail, &n.Told)
		}
		detail = summary.HardwareOf(detail.Clone(), row, r.At)
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
		if pid := facts[n.Events.ID].runtimeEnvAgent; pid != 0 {
			processes = append(processes, agentProcess(pid, runtimeEnvAgentTitle))
		}
	}
	raylet.Delete("coreWorkersStats")
	detail.Set("raylet", raylet)
	detail.Set("workers", processes)
	return detail, nil
}
