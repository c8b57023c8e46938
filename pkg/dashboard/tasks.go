package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// listTasks is the State API's list of task attempts (list_tasks in ray/dashboard/state_aggregator.py). Rows go to the
// client as they are written.
func listTasks(w http.ResponseWriter, r *Request) error {
	q, err := parseListQuery(r)
	if err != nil {
		return err
	}
	picked, err := r.Session.Tasks.Select(q)
	if err != nil {
		return refusedFilter(err)
	}
	redact, err := mustRedact(r)
	if err != nil {
		return err
	}
	e := taskEncoder{detail: q.Detail, redact: redact}
	var failed error
	rows := streamed(func(out *stream) {
		out.list(len(picked.Rows), func(i int) {
			row, err := picked.Row(i)
			if err != nil {
				out.gone, failed = true, cutAnswer(&out.Answer, r, err)
				return
			}
			out.buf = e.append(out.buf, row)
			out.flushFull()
		})
	})
	writeState(w, r, stateReply{total: picked.Listed, listed: picked.Listed, matching: picked.Matching, rows: rows,
		partialFailure: ""})
	return failed // of a row, while the rows were written
}

// refusedFilter returns err or, if it is about a request's filter, Ray's refusal of the filter.
func refusedFilter(err error) error {
	if unknown, ok := errors.AsType[*tasktable.UnknownColumnError](err); ok {
		return unknownColumn(tasktable.FilterColumns(), unknown.Column)
	}
	if _, ok := errors.AsType[*tasktable.FilterError](err); ok {
		return badRequest("%s", err)
	}
	return err
}

// maxLineageChildren is how many tasks each group shows in the lineage of a large session.
const maxLineageChildren = 100

// summarizeTasks counts tasks by name, or shows them as a tree by what submitted them (summarize_tasks in
// ray/dashboard/state_aggregator.py).
func summarizeTasks(w http.ResponseWriter, r *Request) error {
	q, err := parseSummaryQuery(r)
	if err != nil {
		return err
	}
	summarize, memory := taskSummary, summaryMemory
	switch r.Query().Get("summary_by") {
	case "", "func_name", "task_name": // Ray makes no difference between these either
	case "lineage":
		summarize, memory = taskLineage, lineageMemory
	default:
		return badRequest(`summary_by must be one of "func_name", "task_name", or "lineage".`)
	}
	release, err := r.Memory.Reserve(r.Context(), budget.Work, memory(r))
	if err != nil {
		return fmt.Errorf("count the tasks: %w", err)
	}
	defer release()
	l, err := summarize(r, q)
	if err != nil {
		return refusedFilter(err)
	}
	return writeState(w, r, l)
}

// summaryMemory estimates the bytes that taskSummary takes. There may be a group for each actor that shows itself by a
// name of its own, because its methods' names begin with that.
func summaryMemory(r *Request) int64 {
	named := 0
	for i := range r.Session.Actors {
		if actorRepr(&r.Session.Actors[i]) != "" {
			named++
		}
	}
	return r.Session.Tasks.SummaryBytes(named)
}

// lineageMemory estimates the bytes that taskLineage takes.
func lineageMemory(r *Request) int64 { return r.Session.Tasks.LineageBytes() }

// taskSummary answers with the number of tasks in each state, by their name. Before 2.57 Ray summarised them by
// function, whatever their names.
func taskSummary(r *Request, q tasktable.Query) (stateReply, error) {
	byFunction, err := r.OlderThan(r.Context(), 57)
	if err != nil {
		return stateReply{}, err
	}
	s, err := r.Session.Tasks.Summarize(q, byFunction)
	if err != nil {
		return stateReply{}, err
	}
	groups := func(yield func(name string, group any) bool) {
		for _, g := range s.Groups {
			if !yield(g.Name, pyjson.Obj("func_or_class_name", g.Name, "type", g.Type, "state_counts",
				stateCounts(g.States))) {
				return
			}
		}
	}
	rows := streamed(func(out *stream) { out.object(groups) })
	return taskSummaryReply(rows, "func_name", s.TaskCounts, s.Listed, s.Matching), nil
}

// taskLineage answers with the tasks as a tree of what submitted what, with the number of attempts in each state.
func taskLineage(r *Request, q tasktable.Query) (stateReply, error) {
	s, err := r.Session.Tasks.Lineage(q, func(id rayid.Actor) string { return actorTitle(r.Session.Actor(id)) },
		maxLineageChildren)
	if err != nil {
		return stateReply{}, err
	}
	l := taskSummaryReply(lineageTree(s.Tops), "lineage", s.TaskCounts, s.Listed, s.Matching)
	if s.Cut {
		l.warnings = append(l.warnings,
			fmt.Sprintf("Groups of more than %d tasks list the first %d; their counts are complete.",
				maxLineageChildren, maxLineageChildren))
	}
	if s.Orphans > 0 {
		l.warnings = append(l.warnings,
			fmt.Sprintf("What submitted %d of the tasks and actors is not in this list: they are shown at the top "+
				"level.", s.Orphans))
	}
	if s.Deep {
		l.warnings = append(l.warnings,
			"Tasks are nested too deep; some tasks that others submitted are shown at the top level.")
	}
	return l, nil
}

// actorTitle returns the name of an actor's group: as the actor shows itself, or its class; "" if no event has either.
func actorTitle(a *entities.Actor) string {
	if a == nil {
		return ""
	}
	return cmp.Or(actorRepr(a), a.Class)
}

// actorRepr is how an actor shows itself; "" if no event says that.
func actorRepr(a *entities.Actor) string {
	for _, t := range slices.Backward(a.Transitions) {
		if t.ReprName != "" {
			return t.ReprName
		}
	}
	return ""
}

// missingData is Ray's warning if a summary counts fewer attempts than there are.
const missingData = "There is missing data in this aggregation. Possibly due to task data being evicted to preserve " +
	"memory."

// taskSummaryReply is a summary's answer. by is what its groups are of, listed how many attempts there are, matching
// how many of them the filters kept.
func taskSummaryReply(groups any, by string, c tasktable.TaskCounts, listed, matching int) stateReply {
	l := stateReply{total: listed, listed: listed, matching: matching, partialFailure: ""}
	if c.Tasks+c.ActorTasks+c.ActorsScheduled < matching {
		l.warnings = []string{missingData}
	}
	cluster := pyjson.Obj("summary", groups, "total_tasks", c.Tasks, "total_actor_tasks", c.ActorTasks,
		"total_actor_scheduled", c.ActorsScheduled, "summary_by", by)
	l.rows = pyjson.Obj("node_id_to_summary", pyjson.Obj("cluster", cluster))
	return l
}

// stateCounts returns the numbers of attempts by state as a JSON object.
func stateCounts(states []tasktable.StateCount) *pyjson.Object {
	o := pyjson.Obj()
	for _, s := range states {
		o.Set(s.State, s.Count)
	}
	return o
}

// lineageTree writes nodes, and what is below them, as a JSON list while it is sent.
func lineageTree(nodes []*tasktable.Node) streamed {
	return func(s *stream) {
		s.list(len(nodes), func(i int) {
			n := nodes[i]
			o := pyjson.Obj("name", n.Name, "key", n.Key, "type", n.Type, "timestamp", nil, "state_counts",
				stateCounts(n.States),
				"children", lineageTree(n.Children), "link", nil)
			if n.Time != 0 {
				o.Set("timestamp", n.Time)
			}
			if n.LinkType != "" {
				o.Set("link", pyjson.Obj("type", n.LinkType, "id", n.LinkID))
			}
			s.value(o)
		})
	}
}
