package state

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// ObjectColumns are the list's columns, in Ray's order (ObjectState in ray/util/state/common.py).
var ObjectColumns = []Column{
	Filterable("object_id"), Filterable("object_size").Of(IntKind), Filterable("task_status"),
	Filterable("attempt_number").Of(IntKind), Filterable("reference_type"), Filterable("call_site"), Filterable("type"),
	Filterable("pid").Of(IntKind), Filterable("ip"),
}

// ObjectRows returns the rows of the State API's objects (list_objects in ray/dashboard/state_aggregator.py).
func ObjectRows(r *request.Request) (RowSet, error) {
	set, found, err := snapshotRows(r, "/api/v0/objects", ObjectColumns)
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

// SummarizeObjects counts objects by call site (ObjectSummaries in ray/util/state/common.py).
func SummarizeObjects(w http.ResponseWriter, r *request.Request) error {
	q, refused := ParseSummaryQuery(r)
	if refused != nil {
		return WriteError(w, refused)
	}
	set, err := ObjectRows(r)
	if err != nil {
		return err
	}
	picked, refused := set.Query(ObjectColumns, q)
	if refused != nil {
		return WriteError(w, refused)
	}
	groups := map[string]*objectGroup{}
	var sites []string
	total, callSites := 0.0, true
	for _, row := range picked.Rows {
		site := row.String("call_site")
		if site == "disabled" {
			callSites = false
		}
		g := groups[site]
		if g == nil {
			g = &objectGroup{workers: map[string]bool{}, nodes: map[string]bool{}, states: pyjson.Obj(), attempts: pyjson.Obj(), refTypes: pyjson.Obj()}
			groups[site] = g
			sites = append(sites, site)
		}
		total += g.add(row)
	}
	summary := &pyjson.Object{}
	for _, site := range sites {
		summary.Set(site, groups[site].object())
	}
	return WriteSummary(w, r, picked, pyjson.Obj("summary", summary, "total_objects", len(picked.Rows), "total_size_mb", total,
		"callsite_enabled", callSites, "summary_by", "callsite"))
}

// add counts an object and gives its size in MiB, 0 if that is not known.
func (g *objectGroup) add(row *pyjson.Object) float64 {
	g.objects++
	Count(g.states, row.String("task_status"))
	Count(g.attempts, strconv.FormatInt(row.Int("attempt_number"), 10))
	Count(g.refTypes, row.String("reference_type"))
	g.workers[strings.TrimSpace(string(pyjson.Append(nil, row.Get("pid"))))] = true
	g.nodes[row.String("ip")] = true
	size := row.Int("object_size")
	if size == -1 {
		return 0
	}
	mb := float64(size) / (1 << 20)
	g.mb += mb
	return mb
}

func (g *objectGroup) object() *pyjson.Object {
	return pyjson.Obj("total_objects", g.objects, "total_size_mb", g.mb, "total_num_workers", len(g.workers), "total_num_nodes", len(g.nodes),
		"task_state_counts", g.states, "task_attempt_number_counts", g.attempts, "ref_type_counts", g.refTypes)
}
