package dashboard

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// Only snapshots tell of objects: the state of processes at the time they were taken.

// snapshotRows are the rows of a saved list with what the list said of itself; found is false where none was saved.
func snapshotRows(r *Request, path string, columns []column) (set rowSet, found bool, err error) {
	list, _, err := savedList(r, path)
	if list == nil || err != nil {
		return rowSet{}, false, err
	}
	set = rowSet{total: int(list.Int("total")), partialFailure: list.Get("partial_failure_warning"), fit: fitTo(columns, list)}
	for _, v := range list.List("result") {
		if row, ok := v.(*pyjson.Object); ok {
			set.rows = append(set.rows, row)
		}
	}
	for _, v := range list.List("warnings") {
		if text, ok := v.(string); ok {
			set.warnings = append(set.warnings, text)
		}
	}
	return set, true, nil
}

// objectRows gives the rows of the State API's objects (list_objects in ray/dashboard/state_aggregator.py).
func (d *Dashboard) objectRows(r *Request) (rowSet, error) {
	set, found, err := snapshotRows(r, "/api/v0/objects", objectColumns)
	if !found {
		set.warnings = []string{"The objects of this session were not saved while it ran."}
	}
	return set, err
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// objectGroup counts the objects of one call site (ObjectSummaryPerKey in ray/util/state/common.py).
type objectGroup struct {
	objects                    int
	mb                         float64
	workers, nodes             map[string]bool
	states, attempts, refTypes *pyjson.Object
}

// summarizeObjects counts objects by call site (ObjectSummaries in ray/util/state/common.py).
func (d *Dashboard) summarizeObjects(w http.ResponseWriter, r *Request) error {
	q, refused := d.parseSummaryQuery(r)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	set, err := d.objectRows(r)
	if err != nil {
		return err
	}
	picked, refused := set.query(objectColumns, q)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	groups := map[string]*objectGroup{}
	var sites []string
	total, callSites := 0.0, true
	for _, row := range picked.rows {
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
	writeSummary(w, r, picked, pyjson.Obj("summary", summary, "total_objects", len(picked.rows), "total_size_mb", total,
		"callsite_enabled", callSites, "summary_by", "callsite"))
	return nil
}

// add counts an object and gives its size in MiB, 0 if that is not known.
func (g *objectGroup) add(row *pyjson.Object) float64 {
	g.objects++
	count(g.states, row.String("task_status"))
	count(g.attempts, strconv.FormatInt(row.Int("attempt_number"), 10))
	count(g.refTypes, row.String("reference_type"))
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
