package dashboard

import (
	"fmt"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// maxLineageChildren is how many tasks a group of a large session's lineage shows.
const maxLineageChildren = 100

// summarizeTasks counts tasks by name, or nests them by what submitted them (summarize_tasks in ray/dashboard/state_aggregator.py).
func (d *Dashboard) summarizeTasks(w http.ResponseWriter, r *Request) error {
	q, refused := d.parseSummaryQuery(r)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	markSource(r, q.Filters)
	by := r.Query().Get("summary_by")
	switch by {
	case "", "func_name", "task_name":
		by = "func_name"
	case "lineage":
	default:
		writeStateError(w, badRequest(`summary_by must be one of "func_name", "task_name", or "lineage".`))
		return nil
	}
	// Before 2.57 tasks were summarised by function, whatever their names.
	byFunction, err := d.olderThan(r, 57)
	if err != nil {
		return err
	}
	var l listReply
	if by == "lineage" {
		l, err = lineage(r, q)
	} else {
		l, err = summary(r, q, byFunction)
	}
	if err != nil {
		writeStateError(w, filterRefused(err))
		return nil
	}
	writeList(w, r, l)
	return nil
}

func summary(r *Request, q session.Query, byFunction bool) (listReply, error) {
	s, err := r.Session.Tasks.Summarize(q, byFunction)
	if err != nil {
		return listReply{}, err
	}
	groups := pyjson.Obj()
	for _, g := range s.Groups {
		groups.Set(g.Name, pyjson.Obj("func_or_class_name", g.Name, "type", g.Type, "state_counts", stateCounts(g.States)))
	}
	return summaryReply(groups, "func_name", s.TaskCounts, s.Listed, s.Matching), nil
}

func lineage(r *Request, q session.Query) (listReply, error) {
	s, err := r.Session.Tasks.Lineage(q, func(id rayid.Actor) string { return actorTitle(r.Session.Actor(id)) }, maxLineageChildren)
	if err != nil {
		return listReply{}, err
	}
	l := summaryReply(nests(s.Nests), "lineage", s.TaskCounts, s.Listed, s.Matching)
	if s.Cut {
		l.warnings = append(l.warnings, fmt.Sprintf("Groups of more than %d tasks list the first %d; their counts are complete.",
			maxLineageChildren, maxLineageChildren))
	}
	return l, nil
}

// actorTitle is how an actor's group is called: as the actor shows itself, or by its class; "" if no event told.
func actorTitle(a *session.Actor) string {
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

// missingData is Ray's warning where a summary counts fewer attempts than there are.
const missingData = "There is missing data in this aggregation. Possibly due to task data being evicted to preserve memory."

func summaryReply(groups any, by string, c session.TaskCounts, listed, matching int) listReply {
	l := listReply{total: listed, afterTruncation: listed, filtered: matching, partialFailure: ""}
	if c.Tasks+c.ActorTasks+c.ActorsScheduled < matching {
		l.warnings = []string{missingData}
	}
	cluster := pyjson.Obj("summary", groups, "total_tasks", c.Tasks, "total_actor_tasks", c.ActorTasks,
		"total_actor_scheduled", c.ActorsScheduled, "summary_by", by)
	l.rows = func(b []byte) []byte {
		return pyjson.Append(b, pyjson.Obj("node_id_to_summary", pyjson.Obj("cluster", cluster)))
	}
	return l
}

func stateCounts(states []session.StateCount) *pyjson.Object {
	o := pyjson.Obj()
	for _, s := range states {
		o.Set(s.State, s.Count)
	}
	return o
}

func nests(all []*session.Nest) []*pyjson.Object {
	out := make([]*pyjson.Object, len(all))
	for i, n := range all {
		out[i] = pyjson.Obj("name", n.Name, "key", n.Key, "type", n.Type, "timestamp", nil, "state_counts", stateCounts(n.States),
			"children", nests(n.Children), "link", nil)
		if n.Time != 0 {
			out[i].Set("timestamp", n.Time)
		}
		if n.LinkType != "" {
			out[i].Set("link", pyjson.Obj("type", n.LinkType, "id", n.LinkID))
		}
	}
	return out
}
