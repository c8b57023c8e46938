package findings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// holding is an actor, a task or a placement group that held resources from one time to another (Unix ns).
type holding struct {
	from, to  int64
	name      string
	resources map[string]float64
}

// holdings is who held the nodes' resources when. It is read once, however many waited.
type holdings struct {
	total   map[string]float64 // of all nodes
	all     []holding
	amounts map[string][]amountAt // of each resource what was held, in order of time
}

// amountAt is how much of a resource was held from a time on.
type amountAt struct {
	at   int64
	held float64
}

// readHoldings reads what was held by actors while they lived, by tasks that still ran when their driver or the session
// ended, and by placed groups. Tasks that ended before are left out.
func (b *builder) readHoldings() holdings {
	h := holdings{total: map[string]float64{}}
	for i := range b.s.Nodes {
		node, _ := moment.NodeAt(&b.s.Nodes[i], b.r.At)
		for r, amount := range node.Resources {
			h.total[r] += amount
		}
	}
	for i := range b.s.Actors {
		h.addActor(&b.s.Actors[i])
	}
	for _, c := range b.constructors { // an actor is not alive before its constructor has returned
		if a := b.s.Actor(idOf[rayid.Actor](c.row.Actor())); a != nil {
			h.add(holding{c.since, endOf(c), actorName(a), a.Resources})
		}
	}
	for _, a := range slices.Concat(b.abandoned, b.atWork) {
		if a.state == tasktable.StateRunning {
			h.add(holding{a.since, endOf(a), string(a.row.GivenName()), demandOf(a.row)})
		}
	}
	for _, g := range b.groups {
		until := g.ended
		if g.State == "CREATED" {
			until = math.MaxInt64
		}
		if g.Placed {
			h.add(holding{g.Requested, until, "placement group " + cmp.Or(g.Name, g.ID), g.demand()})
		}
	}
	h.sum()
	return h
}

// endOf returns when an attempt's driver ended it, Unix ns.
func endOf(a attempt) int64 { return cmp.Or(failedAt(a.row), math.MaxInt64) }

// addActor adds the times at which an actor was alive.
func (h *holdings) addActor(a *entities.Actor) {
	alive := int64(0)
	for _, t := range a.Transitions {
		switch {
		case t.State == moment.Alive:
			alive = cmp.Or(alive, t.Time)
		case alive != 0:
			h.add(holding{alive, t.Time, actorName(a), a.Resources})
			alive = 0
		}
	}
	if alive != 0 {
		h.add(holding{alive, math.MaxInt64, actorName(a), a.Resources})
	}
}

func (h *holdings) add(one holding) {
	if one.from < one.to && len(one.resources) > 0 {
		h.all = append(h.all, one)
	}
}

// sum computes how much of each resource was held when.
func (h *holdings) sum() {
	h.amounts = map[string][]amountAt{}
	for _, one := range h.all {
		for r, amount := range one.resources {
			h.amounts[r] = append(h.amounts[r], amountAt{one.from, amount}, amountAt{one.to, -amount})
		}
	}
	for _, changes := range h.amounts {
		slices.SortFunc(changes, func(x, y amountAt) int { return cmp.Compare(x.at, y.at) })
		for i := 1; i < len(changes); i++ {
			changes[i].held += changes[i-1].held
		}
	}
}

// held returns how much of a resource was held at a time. Ray counts resources in ten-thousandths.
func (h *holdings) held(resource string, at int64) float64 {
	changes := h.amounts[resource]
	after, _ := slices.BinarySearchFunc(changes, at, func(x amountAt, at int64) int {
		return cmp.Or(cmp.Compare(x.at, at), -1) // a change at this time counts
	})
	if after == 0 {
		return 0
	}
	return math.Round(changes[after-1].held*1e4) / 1e4
}

// holders returns a text that says who held the resources when something first waited for them (Unix ns), if what was
// left of them was less than what was asked for; "" if nothing stored shows that.
func (h *holdings) holders(resources map[string]float64, since int64) string {
	for _, r := range slices.Sorted(maps.Keys(resources)) {
		held := h.held(r, since)
		if h.total[r]-held >= resources[r] || held <= 0 || h.total[r] < resources[r] {
			continue
		}
		return fmt.Sprintf("%s held %s of %s %s", quoted(h.names(resources, since)), amountText(r, held),
			amountText(r, h.total[r]), r)
	}
	return ""
}

// names returns who held some of the resources at a time; the replicas of a deployment are one.
func (h *holdings) names(resources map[string]float64, at int64) (names []string) {
	var asked []string
	for r, amount := range resources {
		if amount > 0 {
			asked = append(asked, r)
		}
	}
	for i := range h.all {
		one := &h.all[i]
		if one.from > at || at >= one.to ||
			!slices.ContainsFunc(asked, func(r string) bool { return one.resources[r] > 0 }) {
			continue
		}
		name := one.name
		if strings.HasPrefix(name, replicaClass) {
			name = plain(name)
		}
		if slices.Contains(names, name) {
			continue
		}
		if names = append(names, name); len(names) == maxEntities {
			break
		}
	}
	return names
}
