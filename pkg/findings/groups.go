package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// strategies holds the names of placement strategies by their numbers (ray.rpc.PlacementStrategy).
var strategies = []string{"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}

// group is a placement group, with what the GCS's log and the autoscaler's add. Its bundles are empty if they are not
// known.
type group struct {
	moment.Group
	ended        int64 // when it was removed, Unix ns; 0 if it was not removed, or the time is not known
	endedWithJob bool  // it was removed because its job ended
	lostBundle   bool  // it had been placed, and lost a bundle with its node
	lostAt       int64 // when the GCS noticed that, Unix ns; 0 if it is not known
	evident      []Evidence
	finding      *finding // the finding that it waited; nil if there is none
}

const maxBundles = 64 // the most that are kept of one group

// totalDemand returns how much of each resource all bundles of the group ask for together.
func (g *group) totalDemand() map[string]float64 {
	sum := map[string]float64{}
	for _, bundle := range g.Bundles {
		for r, amount := range bundle.Resources {
			sum[r] += amount
		}
	}
	return sum
}

// longWait is how long a group or an actor must have waited, when its job ended, to get a finding (ns).
const longWait = 5e9

// hasWaited reports whether the group was still waiting when the session ended, or had waited for at least longWait
// when its job failed and it was removed, or when its program gave up and removed it shortly before it failed.
func (g *group) hasWaited(b *builder) bool {
	j := b.jobOfID(g.Job)
	switch g.State {
	case "PENDING", "PREPARED", "RESCHEDULING", "INFEASIBLE":
		return !j.succeededOrStopped()
	case "REMOVED":
		gaveUp := j != nil && j.Status == jobstatus.Failed && g.ended != 0 && j.End >= g.ended &&
			j.End-g.ended <= atTheEnd
		return !g.Placed && (g.endedWithJob || gaveUp) && g.ended-g.Requested >= longWait &&
			(j == nil || j.SubmissionID == "" || j.Status == jobstatus.Failed)
	}
	return false
}

var (
	groupRegistered = lazyregexp.New(`Registering placement group, placement group id = ([0-9a-f]{36}), name = (.*), strategy = (\d)`)
	// groupLine matches a later line of the GCS's log about a group.
	groupLine = lazyregexp.New(`lacement.*\b([0-9a-f]{36})\b.*`)
	// groupDemandLine matches a line of the autoscaler's status about bundles that wait: "{'CPU': 1.0} * 8
	// (STRICT_SPREAD): 1+ pending placement groups".
	groupDemandLine = lazyregexp.New(`(?m)^ ?(\{.*\}.*\((\w+)\)): (\d+)\+ pending placement groups`)
)

// readGroups reads the placement groups: from events and the saved list, and what the GCS's log adds.
func (b *builder) readGroups() {
	groups, err := b.moment.Groups(b.ctx)
	if b.stopOn(err) {
		return
	}
	known := map[string]*group{}
	for i := range groups {
		g := &group{Group: groups[i]}
		g.addState()
		known[g.ID], b.groups = g, append(b.groups, g)
	}
	b.loggedGroups(known)
	b.loggedEnds(known)
}

// addState keeps at most maxBundles of the group's bundles, and adds the group's state to its evidence.
func (g *group) addState() {
	g.Bundles = g.Bundles[:min(len(g.Bundles), maxBundles)]
	var texts []string
	for _, bundle := range g.Bundles {
		texts = append(texts, string(pyjson.Append(nil, bundle.Resources)))
	}
	source := "event"
	if g.Events == nil {
		source = "snapshot"
	}
	g.lostBundle = g.State == "RESCHEDULING"
	g.evident = append(g.evident, Evidence{Source: source, Time: timestamp(g.Requested),
		Text: fmt.Sprintf("placement group %s (%s) is %s, %s: %s",
			g.Name, g.ID, g.State, g.SchedulingState, strings.Join(texts, ", "))})
}

// loggedGroups adds to known, and to b.groups, the groups that only the GCS's log mentions, and to all groups what that
// log says of their registration.
func (b *builder) loggedGroups(known map[string]*group) {
	for _, m := range b.logs.inHeads("gcs_server.out", groupRegistered()) {
		id := m.groups[1]
		g := known[id]
		if g == nil {
			g = &group{Group: moment.Group{Name: output.Clip(m.groups[2], output.MaxTitle), State: moment.Pending,
				Requested: m.at}}
			g.ID = id
			if parsed, err := rayid.Parse[rayid.PlacementGroup](id); err == nil {
				g.Job = parsed.Job()
			}
			known[id], b.groups = g, append(b.groups, g)
		}
		if n, err := strconv.Atoi(m.groups[3]); err == nil && n < len(strategies) && g.Strategy == "" {
			g.Strategy = strategies[n]
		}
		g.evident = append(g.evident, b.lineEvidence(m))
	}
}

// loggedEnds reads from the GCS's log which of the known groups were placed, which were removed, when, and whether
// because their job had ended.
func (b *builder) loggedEnds(known map[string]*group) {
	for _, m := range b.logs.inHeads("gcs_server.out", groupLine()) {
		g, line := known[m.groups[1]], m.lines()
		if g == nil {
			continue
		}
		created := strings.Contains(line, "Successfully created")
		switch {
		case strings.Contains(strings.ToLower(line), "remov"):
			if g.State == "PENDING" {
				g.State = "REMOVED"
			}
			if g.ended == 0 {
				g.ended = m.at
			}
			if strings.Contains(line, "because its job") {
				g.endedWithJob = true
				g.evident = append(g.evident, b.lineEvidence(m))
			}
		case strings.Contains(line, "Rescheduling a bundle when a node dies"):
			g.lostBundle, g.lostAt = true, m.at
			g.evident = append(g.evident, b.lineEvidence(m))
		case strings.Contains(line, "placement group id={") || created:
			// Of a group without bundles no event is stored: a line that names its placement is all that is known.
			g.Placed = g.Placed || len(g.Bundles) == 0 || created
			if g.State == "PENDING" && len(g.Bundles) == 0 {
				g.State = "" // how it ended is not known
			}
		}
	}
}

// addGroup adds the finding about a placement group that waited, because no node has what it asks for or because others
// held that.
func (d *demands) addGroup(g *group) {
	b := d.b
	name := b.groupName(g)
	if len(g.Bundles) == 0 {
		b.loggedBundles(g)
	}
	// the largest first: of unlike bundles it is the one that most likely fits nowhere
	size := func(of entities.Bundle) float64 {
		return slices.Max(slices.AppendSeq([]float64{0}, maps.Values(of.Resources)))
	}
	g.Bundles = slices.SortedStableFunc(slices.Values(g.Bundles),
		func(x, y entities.Bundle) int { return cmp.Compare(size(y), size(x)) })
	holders := ""
	if d.fitsIfFree(g) {
		holders = cmp.Or(d.holders(g.totalDemand(), g.Requested), b.placedBefore(g.Requested))
	}
	var f *finding
	demand, key := g.totalDemand(), "group "+g.Name+g.Strategy+g.Job.String()
	if holders != "" {
		f = d.starved(key, "Placement group "+name, resourceText(demand), holders)
	} else {
		f = b.findOrAdd(Unschedulable, key)
		how := "was never placed"
		if g.lostBundle {
			how = "could not be placed again"
		}
		f.Title = fmt.Sprintf("Placement group %s %s%s", name, how, d.requestText(g))
	}
	if g.State == "REMOVED" {
		f.Severity = Warning // it becomes an error if the job failed because of it
	} else {
		b.counts.PlacementGroups++
	}
	if len(g.Bundles) > 0 {
		f.demand = resourceText(g.Bundles[0].Resources)
	}
	g.finding = f
	f.add(occurrence{
		at: g.Requested, job: g.Job, name: name, entity: Entity{Type: "placement_group", ID: g.ID, Name: name},
		evidence: g.evident,
	})
	f.last = max(f.last, g.ended)
	d.addLostNodes(f, g)
	b.showDemand(f, groupDemandLine(), func(m match) bool {
		for r := range demand {
			if !strings.Contains(m.groups[1], "'"+r+"'") {
				return false
			}
		}
		return g.Strategy == "" || m.groups[2] == g.Strategy
	})
}

// addLostNodes makes the deaths of nodes causes of f, the finding that a group waited: if it had lost a bundle with the
// node, or lacked the node.
func (d *demands) addLostNodes(f *finding, g *group) {
	for _, lost := range d.b.findings {
		near := g.lostAt == 0 || max(lost.first-g.lostAt, g.lostAt-lost.first) <= nodeNoticedLate
		again := g.lostBundle && near && lost.first >= g.Requested
		if lost.Kind == NodeDied && (again || d.lacksNode(g, lost)) {
			f.last = max(f.last, lost.first) // it waited after that
			f.causedBy(lost)
		}
	}
}

// lacksNode reports whether a group that wants a node for each bundle had too few because of a node that had been lost
// since its job began, and before the group was given up.
func (d *demands) lacksNode(g *group, lost *finding) bool {
	j, n := d.b.jobOfID(g.Job), len(g.Bundles)
	return j != nil && g.Strategy == "STRICT_SPREAD" && lost.first >= j.Start && lost.first > 0 &&
		(g.ended == 0 || lost.first <= g.ended) && n > d.livingAt(g.ended) && n <= d.livingAt(lost.first-1)
}

// livingAt returns how many nodes were alive at a time, as livingNodes does. Each group asks it about each lost node.
func (d *demands) livingAt(at int64) int {
	n, known := d.living[at]
	if !known {
		n = len(d.b.livingNodes(at))
		if d.living == nil {
			d.living = map[int64]int{}
		}
		d.living[at] = n
	}
	return n
}

// placedBefore names the groups that had been placed at a time (Unix ns) and of which it is not known what they hold;
// "" if there are none.
func (b *builder) placedBefore(at int64) string {
	var names []string
	for _, g := range b.groups {
		had := g.Placed && g.Requested <= at && (g.ended == 0 || g.ended > at)
		if had && len(g.Bundles) == 0 && len(names) < maxEntities {
			names = append(names, "placement group "+cmp.Or(g.Name, g.ID))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return listNames(names) + " had been placed before"
}

// fitsIfFree reports whether the group could be placed if nobody held any resources: each bundle fits on a node. With
// STRICT_PACK all bundles must fit on one node together, and with STRICT_SPREAD there must be a node for each bundle.
// It is false if the bundles are not known.
func (d *demands) fitsIfFree(g *group) bool {
	for _, bundle := range g.Bundles {
		if d.whatNoNodeHas(bundle.Resources, bundle.LabelSelector) != "" {
			return false
		}
	}
	switch g.Strategy {
	case "STRICT_PACK":
		return len(g.Bundles) > 0 && d.whatNoNodeHas(g.totalDemand(), nil) == ""
	case "STRICT_SPREAD":
		return len(g.Bundles) > 0 && len(g.Bundles) <= d.livingAt(g.ended)
	}
	return len(g.Bundles) > 0
}

// livingNodes returns the nodes that were alive at a time (Unix ns; 0 is the requested moment).
func (b *builder) livingNodes(at int64) (all []moment.NodeState) {
	for i := range b.session.Nodes {
		node, existed := moment.NodeAt(&b.session.Nodes[i], cmp.Or(at, b.moment.At))
		if existed && node.State != moment.Dead {
			all = append(all, node)
		}
	}
	for _, node := range b.nodes.All { // without events only the saved list tells
		if len(b.session.Nodes) == 0 && node.State != moment.Dead {
			all = append(all, moment.NodeState{State: node.State})
		}
	}
	return all
}

// requestText says what a group asks for, and what no node has or how many nodes there are, as the end of a title; ""
// if it is not known what the group asks for.
func (d *demands) requestText(g *group) string {
	var wishes []string
	lacking := ""
	if n := len(g.Bundles); n > 0 {
		shown, between := g.Bundles[0], " of "
		for _, bundle := range g.Bundles {
			if lacking = d.whatNoNodeHas(bundle.Resources, bundle.LabelSelector); lacking != "" {
				shown = bundle
				break
			}
		}
		if g.Strategy == "STRICT_PACK" && lacking == "" {
			lacking = d.whatNoNodeHas(g.totalDemand(), nil)
		}
		if !maps.Equal(g.Bundles[0].Resources, g.Bundles[n-1].Resources) {
			between = ", the largest of "
		}
		wishes = append(wishes, human.Count(n, "bundle")+between+resourceText(shown.Resources)+
			labelText(shown.LabelSelector))
	}
	if g.Strategy != "" {
		wishes = append(wishes, g.Strategy)
	}
	if len(wishes) == 0 {
		return ""
	}
	return fmt.Sprintf(": it asks for %s, %s", strings.Join(wishes, ", "),
		cmp.Or(encloseIfAny("and ", lacking, ""),
			"the cluster has "+nodesHave(d.b.livingNodes(g.ended), g.totalDemand())))
}

// nodesHave says how many nodes there are, and how much they have of what is asked for, if that is stored: "2 nodes
// with 4 CPU each", "2 nodes with 2 to 8 CPU".
func nodesHave(nodes []moment.NodeState, asked map[string]float64) string {
	least, most := map[string]float64{}, map[string]float64{}
	for _, node := range nodes {
		if len(node.Resources) == 0 {
			continue
		}
		for r := range asked {
			amount := node.Resources[r]
			if _, seen := least[r]; !seen {
				least[r] = amount
			}
			least[r], most[r] = min(least[r], amount), max(most[r], amount)
		}
	}
	return human.Count(len(nodes), "node") + encloseIfAny(" with ", joinAmounts(most, func(r string, n float64) string {
		if least[r] == n {
			return amountText(r, n) + " " + r + " each"
		}
		return amountText(r, least[r]) + " to " + amountText(r, n) + " " + r
	}), "")
}

// demandedBundle matches the bundles of one kind in a line of the autoscaler's status.
var demandedBundle = lazyregexp.New(`(\{[^{}]*\}) \* (\d{1,4})`)

// loggedBundles sets the bundles of a group of which none are known. They are those that the autoscaler's log says
// wait, if all its lines about groups with this strategy name the same bundles.
func (b *builder) loggedBundles(g *group) {
	said := ""
	for _, m := range b.logs.inHeads(autoscalerLog, groupDemandLine()) {
		switch {
		case m.groups[2] != g.Strategy || m.groups[1] == said:
		case said != "":
			return
		default:
			said = m.groups[1]
		}
	}
	for _, m := range demandedBundle().FindAllStringSubmatch(said, -1) {
		n, _ := strconv.Atoi(m[2]) // the expression matched digits
		for range min(n, maxBundles-len(g.Bundles)) {
			g.Bundles = append(g.Bundles, entities.Bundle{Resources: resourcesIn(m[1])})
		}
	}
}

// groupName returns a group's name, or, if nobody gave it one, the beginning of its ID and its job.
func (b *builder) groupName(g *group) string {
	if j := b.jobOfID(g.Job); g.Name == "" && j != nil {
		return fmt.Sprintf("%.8s%s%s", g.ID, unnamedGroup, j.name())
	}
	return cmp.Or(g.Name, g.ID)
}

// addWaiting adds a task or an actor that waited in the placement group to the finding that the group itself waited. It
// reports whether there is one.
func (g *group) addWaiting(e Entity) bool {
	if g.finding == nil {
		return false
	}
	g.finding.addEntity(e)
	g.finding.addEvidence(Evidence{Source: "event",
		Text: fmt.Sprintf("%s %s (%s) waits in it", e.Type, e.Name, e.ID), Link: e.Link})
	return true
}
