package dashboard

import (
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// objectColumns are the list's columns, in Ray's order (ObjectState in ray/util/state/common.py).
var objectColumns = []column{
	filterable("object_id"), filterable("object_size").ofKind(intKind), filterable("task_status"),
	filterable("attempt_number").ofKind(intKind), filterable("reference_type"), filterable("call_site"),
	filterable("type"),
	filterable("pid").ofKind(intKind), filterable("ip"),
}

// objectRows returns the rows of the State API's objects (list_objects in ray/dashboard/state_aggregator.py).
func objectRows(r *Request) (rowSet, error) {
	set, found, err := savedRows(r, "/api/v0/objects", objectColumns)
	if !found {
		set.warnings = []string{"The objects of this session were not saved while it ran."}
		if r.At != 0 {
			set.warnings = []string{"No objects of this session were saved before this moment."}
		}
	}
	return set, err
}

// objectGroup counts the objects of one call site (ObjectSummaryPerKey in ray/util/state/common.py).
type objectGroup struct {
	objects                    int
	mb                         float64
	workers, nodes             map[string]bool
	states, attempts, refTypes *pyjson.Object
}

// countObjects makes the summary of objects from their rows: for each call site how many there are, of which kinds, and
// their size (ObjectSummaries in ray/util/state/common.py).
func countObjects(rows []*pyjson.Object) *pyjson.Object {
	groups := map[string]*objectGroup{}
	var sites []string
	total, callSites := 0.0, true
	for _, row := range rows {
		site := row.String("call_site")
		if site == "disabled" {
			callSites = false
		}
		g := groups[site]
		if g == nil {
			g = &objectGroup{workers: map[string]bool{}, nodes: map[string]bool{}, states: pyjson.Obj(),
				attempts: pyjson.Obj(), refTypes: pyjson.Obj()}
			groups[site] = g
			sites = append(sites, site)
		}
		total += g.add(row)
	}
	summary := &pyjson.Object{}
	for _, site := range sites {
		summary.Set(site, groups[site].object())
	}
	return pyjson.Obj("summary", summary, "total_objects", len(rows), "total_size_mb", total, "callsite_enabled",
		callSites, "summary_by", "callsite")
}

// add counts an object and gives its size in MiB, 0 if that is not known.
func (g *objectGroup) add(row *pyjson.Object) float64 {
	g.objects++
	countIn(g.states, row.String("task_status"))
	countIn(g.attempts, strconv.FormatInt(row.Int("attempt_number"), 10))
	countIn(g.refTypes, row.String("reference_type"))
	g.workers[strings.TrimSpace(string(pyjson.Append(nil, row.Get("pid"))))] = true
	g.nodes[row.String("ip")] = true
	size := row.Int("object_size")
	if size == -1 { // Ray does not know it
		return 0
	}
	mb := float64(size) / (1 << 20)
	g.mb += mb
	return mb
}

// object returns the group's counts under the names of Ray's ObjectSummaryPerKey.
func (g *objectGroup) object() *pyjson.Object {
	return pyjson.Obj("total_objects", g.objects, "total_size_mb", g.mb, "total_num_workers", len(g.workers),
		"total_num_nodes", len(g.nodes),
		"task_state_counts", g.states, "task_attempt_number_counts", g.attempts, "ref_type_counts", g.refTypes)
}
