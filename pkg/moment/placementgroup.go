package moment

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Removed is the last state of a placement group.
const Removed = "REMOVED"

// Group is a placement group at one moment. Its saved row is the one of the State API's list.
type Group struct {
	Stored[entities.PlacementGroup, GroupState]
	Name, State, SchedulingState string
	Strategy                     string // "" if it is not known
	Job                          rayid.Job
	Bundles                      []entities.Bundle // of a saved row without their indices
	Requested                    int64             // Unix ns; 0: not known
	Placed                       bool              // it is, or was
}

// Groups returns the placement groups that existed at the moment: those of the saved list in its order, then the
// others.
func (m *Moment) Groups(ctx context.Context) ([]Group, error) {
	list, taken, err := m.SavedList(ctx, "/api/v0/placement_groups")
	if err != nil {
		return nil, err
	}
	var groups []Group
	for _, k := range join(m, kind[entities.PlacementGroup, GroupState]{
		events:   m.Session.PlacementGroups,
		id:       func(g *entities.PlacementGroup) string { return g.ID.String() },
		eventsOf: func(id string) *entities.PlacementGroup { return findIn(id, m.Session.PlacementGroup) },
		stateAt:  groupAt,
		savedID:  func(row *pyjson.Object) string { return row.String("placement_group_id") },
		began:    func(row *pyjson.Object) int64 { return row.Object("stats").Int(requested) },
		ended:    func(row *pyjson.Object) bool { return row.String("state") == Removed },
		sameState: func(row *pyjson.Object, s *GroupState) bool {
			// A group that was placed again, or that cannot be placed any more, has the same state as before.
			return row.String("state") == s.State && (taken == 0 || s.Time <= taken)
		},
	}, list.List("result"), taken) {
		groups = append(groups, groupOf(k))
	}
	return groups, nil
}

// requested is when a group was requested, in the stats of a saved row.
const requested = "creation_request_received_ns"

// groupOf returns a placement group with what its saved row and its events say of it. Its state is from the events if
// thing.Newer says that they count, see Moment.Overrides. The strategy is only in events.
func groupOf(thing Stored[entities.PlacementGroup, GroupState]) Group {
	stats := thing.Saved.Object("stats")
	g := Group{
		Stored: thing, Name: thing.Saved.String("name"), State: thing.Saved.String("state"),
		SchedulingState: stats.String("scheduling_state"),
		Requested:       stats.Int(requested), Placed: stats.Int("end_to_end_creation_latency_us") > 0,
	}
	g.Job, _ = rayid.Parse[rayid.Job](thing.Saved.String("creator_job_id")) // nil if it is not known
	for _, bundle := range Objects(thing.Saved.List("bundles")) {
		b := entities.Bundle{Resources: map[string]float64{}, LabelSelector: map[string]string{}}
		for name, amount := range bundle.Object("unit_resources").All() {
			b.Resources[name] = Float(amount)
		}
		for name := range bundle.Object("label_selector").All() {
			b.LabelSelector[name] = bundle.Object("label_selector").String(name)
		}
		g.Bundles = append(g.Bundles, b)
	}
	e := thing.Events
	if e == nil {
		return g.withPlaced()
	}
	g.Strategy, g.Requested = e.Strategy, cmp.Or(g.Requested, thing.ByEvents.Created)
	if thing.Saved == nil {
		g.Name, g.Job = e.Name, e.CreatorJob
	}
	// Newer: its events are newer than its saved row. Bundles of a group that no event defined are the saved ones.
	if len(e.Bundles) > 0 && (thing.Newer || len(g.Bundles) == 0) {
		g.Bundles = e.Bundles
	}
	if thing.Newer || stats == nil {
		g.SchedulingState = thing.ByEvents.ShownSchedulingState()
		g.Placed = thing.ByEvents.CreationTime() >= time.Microsecond
	}
	if thing.Newer {
		g.State = thing.ByEvents.State
	}
	return g.withPlaced()
}

// withPlaced returns the group with Placed set if its state says that it is placed now.
func (g Group) withPlaced() Group {
	g.Placed = g.Placed || g.State == "CREATED"
	return g
}

// GroupState is the state of a placement group at one moment, from events: its last transition, and when it was
// requested, when its placement was last tried, and when it was first placed (Unix ns, 0: not yet, or not known).
type GroupState struct {
	entities.PlacementGroupTransition
	Created, Started, Placed int64
}

// groupAt returns a placement group's state at a moment (Unix ns; 0: the session's end) by its events, and whether it
// existed then: it exists from its request on or, if no event tells of that, from its first transition. Bundles stay
// where they were placed until they are placed again.
func groupAt(g *entities.PlacementGroup, at int64) (s GroupState, existed bool) {
	s.State, s.Created = Pending, g.Created
	existed = at == 0 || g.Created <= at && (g.Created != 0 || len(g.Transitions) == 0)
	for _, t := range g.Transitions {
		if at != 0 && t.Time > at {
			continue // not the last one: an end may have an earlier time than what was before it
		}
		existed = true
		s.Created = cmp.Or(s.Created, t.Time)
		if t.SchedulingState == "SCHEDULING_STARTED" {
			s.Started = t.Time
		}
		if t.State == "CREATED" && s.Placed == 0 {
			s.Placed = t.Time
		}
		if len(t.Placements) == 0 {
			t.Placements = s.Placements
		}
		s.PlacementGroupTransition = t
	}
	return s, existed
}

// CreationTime returns the time from a group's request to its placement; 0 if it was not placed.
func (s *GroupState) CreationTime() time.Duration {
	if s.Placed == 0 {
		return 0
	}
	return time.Duration(max(0, s.Placed-s.Created))
}

// ShownSchedulingState returns the scheduling state as Ray's dashboard shows it. Ray's events have a longer name for
// REMOVED.
func (s *GroupState) ShownSchedulingState() string {
	return strings.Replace(s.SchedulingState, "SCHEDULING_REMOVED", Removed, 1)
}
