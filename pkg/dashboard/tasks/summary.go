package tasks

import (
	"fmt"
	"net/http"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/dashboard/cluster"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// maxLineageChildren is how many tasks each group shows in the lineage of a large session.
const maxLineageChildren = 100

// Summarize counts tasks by name, or shows them as a tree by what submitted them (summarize_tasks in ray/dashboard/state_aggregator.py).
func Summarize(w http.ResponseWriter, r *request.Request) error {
	q, refused := state.ParseSummaryQuery(r)
	if refused != nil {
		return state.WriteError(w, refused)
	}
	by := r.Query().Get("summary_by")
	switch by {
	case "", "func_name", "task_name":
		by = "func_name"
	case "lineage":
	default:
		return state.WriteError(w, reply.BadRequest(`summary_by must be one of "func_name", "task_name", or "lineage".`))
	}
	// Before 2.57 tasks were summarised by function, whatever their names.
	byFunction, err := cluster.OlderThan(r, 57)
	if err != nil {
		return err
	}
	var l state.Reply
	if by == "lineage" {
		release, err := r.Memory.Reserve(r.Context(), budget.Work, r.Session.Tasks.LineageBytes())
		if err != nil {
			return fmt.Errorf("build the tree of tasks: %w", err)
		}
		defer release()
		if l, err = lineage(r, q); err != nil {
			return refusedFilter(w, err)
		}
	} else {
		l, err = summary(r, q, byFunction)
	}
	if err != nil {
		return refusedFilter(w, err)
	}
	return state.Write(w, r, l)
}

func summary(r *request.Request, q tasktable.Query, byFunction bool) (state.Reply, error) {
	s, err := r.Session.Tasks.Summarize(q, byFunction)
	if err != nil {
		return state.Reply{}, err
	}
	groups := pyjson.Obj()
	for _, g := range s.Groups {
		groups.Set(g.Name, pyjson.Obj("func_or_class_name", g.Name, "type", g.Type, "state_counts", stateCounts(g.States)))
	}
	return summaryReply(groups, "func_name", s.TaskCounts, s.Listed, s.Matching), nil
}

func lineage(r *request.Request, q tasktable.Query) (state.Reply, error) {
	s, err := r.Session.Tasks.Lineage(q, func(id rayid.Actor) string { return actorTitle(r.Session.Actor(id)) }, maxLineageChildren)
	if err != nil {
		return state.Reply{}, err
	}
	l := summaryReply(tree(s.Tops), "lineage", s.TaskCounts, s.Listed, s.Matching)
	if s.Cut {
		l.Warnings = append(l.Warnings, fmt.Sprintf("Groups of more than %d tasks list the first %d; their counts are complete.",
			maxLineageChildren, maxLineageChildren))
	}
	if s.Orphans > 0 {
		l.Warnings = append(l.Warnings, fmt.Sprintf("What submitted %d of the tasks and actors is not in this list: they are shown at the top level.", s.Orphans))
	}
	if s.Deep {
		l.Warnings = append(l.Warnings, "Tasks are nested too deep; some tasks that others submitted are shown at the top level.")
	}
	return l, nil
}

// actorTitle returns the name of an actor's group: as the actor shows itself, or its class; "" if no event has either.
func actorTitle(a *entities.Actor) string {
	if a == nil {
		return ""
	}
	for i := len(a.Transitions) - 1; i >= 0; i-- {
		if name := a.Transitions[i].ReprName; name != "" {
			return name
		}
	}
	return a.Class
}

// missingData is Ray's warning if a summary counts fewer attempts than there are.
const missingData = "There is missing data in this aggregation. Possibly due to task data being evicted to preserve memory."

func summaryReply(groups any, by string, c tasktable.TaskCounts, listed, matching int) state.Reply {
	l := state.Reply{Total: listed, AfterTruncation: listed, Filtered: matching, PartialFailure: ""}
	if c.Tasks+c.ActorTasks+c.ActorsScheduled < matching {
		l.Warnings = []string{missingData}
	}
	cluster := pyjson.Obj("summary", groups, "total_tasks", c.Tasks, "total_actor_tasks", c.ActorTasks,
		"total_actor_scheduled", c.ActorsScheduled, "summary_by", by)
	l.Rows = pyjson.Obj("node_id_to_summary", pyjson.Obj("cluster", cluster))
	return l
}

func stateCounts(states []tasktable.StateCount) *pyjson.Object {
	o := pyjson.Obj()
	for _, s := range states {
		o.Set(s.State, s.Count)
	}
	return o
}

// tree writes a list of the tree's nodes, one after the other.
func tree(nodes []*tasktable.Node) reply.Streamed {
	return func(s *reply.Stream) {
		s.List(len(nodes), func(i int) {
			n := nodes[i]
			o := pyjson.Obj("name", n.Name, "key", n.Key, "type", n.Type, "timestamp", nil, "state_counts", stateCounts(n.States),
				"children", tree(n.Children), "link", nil)
			if n.Time != 0 {
				o.Set("timestamp", n.Time)
			}
			if n.LinkType != "" {
				o.Set("link", pyjson.Obj("type", n.LinkType, "id", n.LinkID))
			}
			s.Value(o)
		})
	}
}
