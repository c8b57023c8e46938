package findings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
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
	total   map[string]float64 // of all nodes, and of placed groups, by the names that their resources have for Ray
	all     []holding
	amounts map[string][]amountAt // of each resource what was held, in order of time
}

// amountAt is how much of a resource was held from a time on.
type amountAt struct {
	at   int64
	held float64
}

// readHoldings reads who held resources, and when: actors while they lived, tasks that still ran when their driver or
// the session ended, and placement groups from their request on. Tasks that ended before are left out.
func (b *builder) readHoldings() holdings {
	h := holdings{total: map[string]float64{}}
	for i := range b.session.Nodes {
		node, _ := moment.NodeAt(&b.session.Nodes[i], b.moment.At)
		for r, amount := range node.Resources {
			h.total[r] += amount
		}
	}
	for i := range b.session.Actors {
		h.addActor(&b.session.Actors[i])
	}
	for _, a := range b.unended {
		actor := b.session.Actor(actorIDOf(a.row))
		switch {
		case a.state != tasktable.StateRunning:
		case a.isTask():
			h.add(holding{a.since, heldUntil(a), string(a.row.GivenName()), demandOf(a.row)})
		case a.isConstructor() && actor != nil: // it is not alive before its constructor has returned
			h.add(holding{a.since, heldUntil(a), actorName(actor), actor.Resources})
		}
	}
	for _, g := range b.groups {
		until := g.ended
		if g.State == "CREATED" {
			until = math.MaxInt64
		}
		if g.Placed {
			h.add(holding{g.Requested, until, "placement group " + cmp.Or(g.Name, g.ID), g.totalDemand()})
			h.addBundles(g)
		}
	}
	h.sumAmounts()
	return h
}

// addBundles adds what there is in a placed group: of each resource in all bundles, and in each of them
// (src/ray/common/bundle_spec.cc).
func (h *holdings) addBundles(g *group) {
	for i, bundle := range g.Bundles {
		for r, amount := range bundle.Resources {
			h.total[r+ofGroup+g.ID] += amount
			h.total[fmt.Sprintf("%s%s%d_%s", r, ofGroup, i, g.ID)] = amount
		}
	}
}

// splitGroup returns resources of a placement group by the names that people gave them, and the group's ID; "" if they
// are of no group.
func splitGroup(resources map[string]float64) (plain map[string]float64, id string) {
	plain = map[string]float64{}
	for r, amount := range resources {
		name, of, found := strings.Cut(r, ofGroup)
		if found {
			id = of[strings.LastIndexByte(of, '_')+1:]
		}
		if name != "bundle" { // of which each that is in the group holds a little
			plain[name] = amount
		}
	}
	return plain, id
}

// heldUntil returns until when an attempt held its resources, Unix ns: until its driver ended it, or for ever.
func heldUntil(a attempt) int64 { return cmp.Or(failedAt(a.row), math.MaxInt64) }

// addActor adds the times in which an actor was alive.
func (h *holdings) addActor(a *entities.Actor) {
	aliveSince := int64(0) // 0: it is not alive
	for _, t := range a.Transitions {
		switch {
		case t.State == moment.Alive:
			aliveSince = cmp.Or(aliveSince, t.Time)
		case aliveSince != 0:
			h.add(holding{aliveSince, t.Time, actorName(a), a.Resources})
			aliveSince = 0
		}
	}
	if aliveSince != 0 {
		h.add(holding{aliveSince, math.MaxInt64, actorName(a), a.Resources})
	}
}

// add adds who held resources for some time. It leaves out what held nothing.
func (h *holdings) add(one holding) {
	if one.from < one.to && len(one.resources) > 0 {
		h.all = append(h.all, one)
	}
}

// sumAmounts fills amounts from all: how much of each resource was held at each time of a change.
func (h *holdings) sumAmounts() {
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

// heldAt returns how much of a resource was held at a time (Unix ns), rounded to ten-thousandths, as Ray counts
// resources.
func (h *holdings) heldAt(resource string, at int64) float64 {
	changes := h.amounts[resource]
	after, _ := slices.BinarySearchFunc(changes, at, func(x amountAt, at int64) int {
		return cmp.Or(cmp.Compare(x.at, at), -1) // a change at this time counts
	})
	if after == 0 {
		return 0
	}
	return math.Round(changes[after-1].held*1e4) / 1e4
}

// holders says who held a resource that something waited for at a time (Unix ns), and how much of it, if the rest was
// less than what it asked for. It is "" if no resource was lacking, or if nothing stored shows who held it.
func (h *holdings) holders(resources map[string]float64, at int64) string {
	for _, r := range slices.Sorted(maps.Keys(resources)) {
		held := h.heldAt(r, at)
		if h.total[r]-held >= resources[r] || held <= 0 || h.total[r] < resources[r] {
			continue
		}
		plain, _, _ := strings.Cut(r, ofGroup)
		return fmt.Sprintf("%s held %s of %s %s", listNames(h.names(r, at)), amountText(plain, held),
			amountText(plain, h.total[r]), plain)
	}
	return ""
}

// names returns who held some of a resource at a time (Unix ns), at most maxEntities. The replicas of a deployment have
// one name together.
func (h *holdings) names(resource string, at int64) (names []string) {
	for i := range h.all {
		one := &h.all[i]
		if one.from > at || at >= one.to || one.resources[resource] <= 0 {
			continue
		}
		name := one.name
		if strings.HasPrefix(name, replicaClass) {
			name = withPlainNames(name)
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
