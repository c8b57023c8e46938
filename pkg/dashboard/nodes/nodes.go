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
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// detailedSummaries are the summaries with all that is known of the nodes' processes.
func detailedSummaries(r *request.Request) (summary.Nodes, error) {
	all, err := summary.Read(r)
	if err != nil || len(all.Unsaved) == 0 {
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
	for id := range all.Unsaved {
		all.ByID[id] = complete(all.ByID[id], facts[summary.Find(r.Session, id).ID], workers[id])
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
	rows := make([]any, len(all.Order))
	for i, id := range all.Order {
		if rows[i] = all.ByID[id]; request.FromBrowser(r.Request) {
			rows[i] = withoutNulls(all.ByID[id])
		}
	}
	logical := data.Object("nodeLogicalResources")
	if logical == nil || !r.Believes(taken) {
		logical = pyjson.Obj()
	}
	return reply.OK(w, "Node summary fetched.", "summary", rows, "nodeLogicalResources", logical)
}

func hostnames(w http.ResponseWriter, r *request.Request) error {
	all, err := summary.Read(r)
	if err != nil {
		return err
	}
	names := []string{}
	for _, id := range all.Order {
		raylet := all.ByID[id].Object("raylet")
		if name := raylet.String("nodeManagerHostname"); raylet.String("state") == moment.Alive && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return reply.OK(w, "Node hostname list fetched.", "hostNameList", names)
}

// One is /nodes/{node_id} (get_node_info in ray/dashboard/modules/node/datacenter.py). An unknown node has empty details.
func One(w http.ResponseWriter, r *request.Request) error {
	id := r.Params["node_id"]
	all, err := detailedSummaries(r)
	if err != nil {
		return err
	}
	row := all.ByID[id]
	if row == nil {
		raylet := pyjson.Obj("objectStoreUsedMemory", 0, "objectStoreAvailableMemory", 0, "stateMessage", nil)
		return reply.OK(w, "Node details fetched.", "detail", pyjson.Obj("raylet", raylet, "tpus", []any{}, "actors", pyjson.Obj(), "workers", []any{}))
	}
	detail, err := nodeDetail(r, id, row)
	if err != nil {
		return err
	}
	rows, err := actors.Logical(r)
	if err != nil {
		return err
	}
	saved, onNode := detail.Object("actors"), &pyjson.Object{}
	for _, row := range rows {
		if row.Object("address").String("nodeId") == id || ranOn(r, row.String("actorId"), id) {
			if row = reply.GoogleStyle(row); r.At == 0 {
				row = actors.Fuller(row, saved.Object(row.String("actorId")))
			}
			onNode.Set(row.String("actorId"), row)
		}
	}
	detail.Set("actors", onNode)
	if request.FromBrowser(r.Request) {
		detail = withoutNulls(detail)
	}
	return reply.OK(w, "Node details fetched.", "detail", detail)
}

// ranOn says whether an actor had a process on a node: Ray still lists it there after it was restarted on another one.
func ranOn(r *request.Request, actor, node string) bool {
	id, err := rayid.Parse[rayid.Actor](actor)
	if err != nil {
		return false
	}
	a := r.Session.Actor(id)
	if a == nil {
		return false
	}
	state, _ := moment.ActorAt(a, r.At)
	return state.Node.String() == node || slices.ContainsFunc(state.FormerProcesses, func(p moment.ActorProcess) bool { return p.Node.String() == node })
}

// nodeDetail is the node's own snapshot if there is one, else its summary with a row for each of its workers.
func nodeDetail(r *request.Request, id string, row *pyjson.Object) (*pyjson.Object, error) {
	data, taken, err := r.SavedData(r.Context(), "/nodes/"+id)
	if err != nil {
		return nil, err
	}
	n := summary.Find(r.Session, id)
	if detail := data.Object("detail"); detail.Object("raylet").String("nodeId") == id {
		if n != nil {
			state, _ := moment.NodeAt(n, r.At)
			detail = summary.Overlay(detail, &state, r.Believes(taken))
		}
		detail = summary.HardwareOf(detail.Clone(), row, r.At)
		processes, err := nodeProcesses(r, id, detail.List("workers"))
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
	if raylet.String("state") == moment.Alive && n != nil {
		facts, err := factsOf(r)
		if err != nil {
			return nil, err
		}
		if pid := facts[n.ID].runtimeEnvAgent; pid != 0 {
			processes = append(processes, agentProcess(pid, runtimeEnvAgentTitle))
		}
	}
	raylet.Delete("coreWorkersStats")
	detail.Set("raylet", raylet)
	detail.Set("workers", processes)
	return detail, nil
}
