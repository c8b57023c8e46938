package findings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// demandOf returns how much of each resource an attempt asked for; nil if that cannot be read.
func demandOf(row tasktable.Row) (resources map[string]float64) {
	if err := json.Unmarshal(row.Resources(), &resources); err != nil {
		return nil
	}
	return resources
}

// selectorOf returns the label selector of an attempt. It is nil if the attempt has none, or if its fallback strategy
// allows other labels, too.
func selectorOf(row tasktable.Row) (labels map[string]string) {
	if len(row.Fallback()) > 0 || json.Unmarshal(row.Labels(), &labels) != nil {
		return nil
	}
	return labels
}

// joinAmounts joins, in the order of the names, what text returns for each element of a map.
func joinAmounts[V any](byName map[string]V, text func(name string, v V) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parts = append(parts, text(name, byName[name]))
	}
	return strings.Join(parts, ", ")
}

// labelText returns a label selector as a part of a title; "" if it selects all nodes.
func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	return " on a node with the labels " + joinAmounts(labels, func(name, value string) string { return name + "=" + value })
}

// labelsMatch reports whether a node has the labels that a selector asks for. A selector's values are "x", "!x",
// "in(x,y)" and "!in(x,y)" (src/ray/common/scheduling/label_selector.cc of Ray). It is true if no labels of the node
// are known: Ray gives each node some.
func labelsMatch(labels map[string]string, n *entities.Node) bool {
	for name, want := range labels {
		want, negated := strings.CutPrefix(want, "!")
		values := []string{want}
		if list, isList := strings.CutPrefix(want, "in("); isList {
			values = strings.Split(strings.TrimSuffix(list, ")"), ",")
		}
		label, known := n.Labels[name]
		isIn := known && slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == label })
		if isIn == negated && len(n.Labels) > 0 {
			return false
		}
	}
	return true
}

// covers reports whether a node's resources are at least what is asked for.
func covers(total, resources map[string]float64) bool {
	for r, amount := range resources {
		if total[r] < amount {
			return false
		}
	}
	return true
}

// resourceText returns resources as people write them, such as "1 CPU, 2 GPU"; "no resources" if there are none.
func resourceText(resources map[string]float64) string {
	return cmp.Or(joinAmounts(resources, func(r string, n float64) string { return amountText(r, n) + " " + r }),
		"no resources")
}

// amountText returns an amount of a resource as people write it: memory, which Ray counts in bytes, with its unit.
func amountText(resource string, amount float64) string {
	if resource == "memory" || resource == "object_store_memory" {
		return human.Bytes(int64(min(amount, 1<<60)))
	}
	return fmt.Sprintf("%g", amount)
}

// demandAmount matches one resource of a demand as Python prints it, such as {'CPU': 1.0, 'GPU': 8.0}.
var demandAmount = lazyregexp.New(`'([^']{1,200})': ([0-9.]{1,20})`)

// resourcesIn reads the resources that a message has as Python prints them, such as {'CPU': 1.0}.
func resourcesIn(message string) map[string]float64 {
	demand := map[string]float64{}
	for _, m := range demandAmount().FindAllStringSubmatch(output.Clip(message, output.MaxText), -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil {
			demand[m[1]] = n
		}
	}
	return demand
}

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
// the session ended, or when a job ended that had waited in vain, and placement groups from their request on. Other
// tasks are left out.
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
	b.addTasksAtEnds(&h)
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

// maxEnds is of how many jobs one report asks which tasks of others ran at their ends.
const maxEnds = 8

// addTasksAtEnds adds the tasks that ran when a job ended whose own tasks still waited to be scheduled, and that ended
// later. It goes through the table once for all jobs.
func (b *builder) addTasksAtEnds(h *holdings) {
	added, ranAt := map[rayid.Task]bool{}, map[int64][]int{} // the numbers of rows, by the end of a job
	for _, a := range b.unended {
		added[a.row.ID()] = added[a.row.ID()] || a.state == tasktable.StateRunning
	}
	for _, a := range b.unended {
		at := b.waitedUntil(b.callerJob(a.row), a.since)
		if a.state == notScheduledYet && a.abandoned && at > a.since && len(ranAt) < maxEnds {
			ranAt[at] = nil
		}
	}
	if len(ranAt) == 0 {
		return
	}
	query := tasktable.Query{ExcludeDriver: true, Stop: b.requestErr}
	b.stopOn(tasktable.Each(b.session.Tasks, query, func(n int, r tasktable.PlacedRow) {
		from, to, began := r.Span()
		for at, rows := range ranAt {
			if began && from <= at && (to == 0 || at < to) && len(rows) < maxPending {
				ranAt[at] = append(rows, n)
			}
		}
	}))
	for _, at := range slices.Sorted(maps.Keys(ranAt)) {
		for _, n := range ranAt[at] {
			a := attemptOf(b.session.Tasks.Row(n, at))
			if a.isTask() && a.state == tasktable.StateRunning && !added[a.row.ID()] { // in ray.get it holds no CPUs
				h.add(holding{at, at + 1, string(a.row.GivenName()), demandOf(a.row)})
			}
		}
	}
	b.stopOn(b.session.Tasks.Err())
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
func heldUntil(a attempt) int64 { return cmp.Or(stateAt(a.row, tasktable.StateFailed), math.MaxInt64) }

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
