package findings

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// strategies holds the names of placement strategies by their numbers (ray.rpc.PlacementStrategy).
var strategies = []string{"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}

// group holds what is known about a placement group.
type group struct {
	id, name, strategy string
	bundles            []map[string]float64 // the resources of each bundle; empty if they are not known
	labels             []map[string]string  // the label selector of each bundle
	job                rayid.Job
	status             string
	created            int64 // Unix ns
	placed             bool
	ended              int64 // when it was removed, Unix ns; 0 if it was not removed, or the time is not known
	withJob            bool  // it was removed because its job ended
	evident            []Evidence
	finding            *finding // the finding that it waited; nil if there is none
}

const maxBundles = 64 // the most that are kept of one group

// demand returns the sum of what all bundles ask for.
func (g *group) demand() map[string]float64 {
	sum := map[string]float64{}
	for _, bundle := range g.bundles {
		for r, amount := range bundle {
			sum[r] += amount
		}
	}
	return sum
}

// selector returns the label selector of a bundle; nil if it has none.
func (g *group) selector(bundle int) map[string]string {
	if bundle < len(g.labels) {
		return g.labels[bundle]
	}
	return nil
}

// longWait is how long a group or an actor must have waited, when its job ended, to get a finding (ns).
const longWait = 5e9

// waited reports whether the group was still waiting when the session ended, or had waited for a long time when its job
// failed.
func (g *group) waited(b *builder) bool {
	j := b.jobOfID(g.job)
	switch g.status {
	case "PENDING", "PREPARED", "RESCHEDULING", "INFEASIBLE":
		return !j.wanted()
	case "REMOVED":
		return !g.placed && g.withJob && g.ended-g.created >= longWait &&
			(j == nil || j.SubmissionID == "" || j.Status == "FAILED")
	}
	return false
}

var (
	registered = lazyregexp.New(`Registering placement group, placement group id = ([0-9a-f]{36}), name = (.*), strategy = (\d)`)
	// aboutGroup matches a later line of the GCS's log about a group.
	aboutGroup = lazyregexp.New(`(?m)^.*lacement.*\b([0-9a-f]{36})\b.*$`)
	// demanded matches a line of the autoscaler's status about bundles that wait: "{'CPU': 1.0} * 8 (STRICT_SPREAD): 1+
	// pending placement groups".
	demanded = lazyregexp.New(`(?m)^ ?(\{.*\}.*\((\w+)\)): (\d+)\+ pending placement groups`)
)

// readGroups reads the placement groups from events, the saved list and the GCS's log.
func (b *builder) readGroups() {
	groups, err := b.r.Groups(b.ctx)
	if b.fail(err) {
		return
	}
	known := map[string]*group{}
	for i := range groups {
		g := groupOf(&groups[i])
		known[g.id], b.groups = g, append(b.groups, g)
	}
	b.loggedGroups(known)
	b.loggedEnds(known)
}

// groupOf takes what findings need of a placement group: what it asks for, and its state as evidence.
func groupOf(of *moment.Group) *group {
	g := &group{
		id: of.ID, name: of.Name, status: of.State, created: of.Requested, placed: of.Placed, job: of.Job,
		strategy: of.Strategy,
	}
	var texts []string
	for _, bundle := range of.Bundles[:min(len(of.Bundles), maxBundles)] {
		g.bundles, g.labels = append(g.bundles, bundle.Resources), append(g.labels, bundle.LabelSelector)
		texts = append(texts, string(pyjson.Append(nil, bundle.Resources)))
	}
	source := "event"
	if of.Events == nil {
		source = "snapshot"
	}
	g.evident = append(g.evident, Evidence{Source: source, Time: stamp(g.created),
		Text: fmt.Sprintf("placement group %s (%s) is %s, %s: %s",
			g.name, g.id, g.status, of.SchedulingState, strings.Join(texts, ", "))})
	return g
}

// loggedGroups adds the groups that the GCS's log mentions.
func (b *builder) loggedGroups(known map[string]*group) {
	for _, m := range b.loggedByHead("gcs_server.out", registered()) {
		id := m.groups[1]
		g := known[id]
		if g == nil {
			g = &group{id: id, name: output.Clip(m.groups[2], output.MaxTitle), status: "PENDING", created: m.at}
			if parsed, err := rayid.Parse[rayid.PlacementGroup](id); err == nil {
				g.job = parsed.Job()
			}
			known[id], b.groups = g, append(b.groups, g)
		}
		if n, err := strconv.Atoi(m.groups[3]); err == nil && n < len(strategies) && g.strategy == "" {
			g.strategy = strategies[n]
		}
		from, to := m.log.line(m.from)
		g.evident = append(g.evident, b.evidence(m.log, from, to))
	}
}

// loggedEnds reads from the GCS's log which groups were placed and which were removed.
func (b *builder) loggedEnds(known map[string]*group) {
	for _, m := range b.loggedByHead("gcs_server.out", aboutGroup()) {
		g, line := known[m.groups[1]], m.groups[0]
		if g == nil {
			continue
		}
		switch {
		case strings.Contains(strings.ToLower(line), "remov"):
			if g.status == "PENDING" {
				g.status = "REMOVED"
			}
			if g.ended == 0 {
				g.ended = m.at
			}
			if strings.Contains(line, "because its job") {
				g.withJob = true
				g.evident = append(g.evident, b.evidence(m.log, m.from, m.to))
			}
		case strings.Contains(line, "placement group id={") || strings.Contains(line, "Successfully created"):
			g.placed = g.placed || len(g.bundles) == 0 || strings.Contains(line, "Successfully created")
			if g.status == "PENDING" && len(g.bundles) == 0 {
				g.status = "" // how it ended is not known
			}
		}
	}
}

// group adds the finding about a placement group that waited, because no node has what it asks for or because others
// held it.
func (d *demands) group(g *group) {
	b := d.b
	name := g.name
	if name == "" {
		name = g.id
		if j := b.jobOfID(g.job); j != nil {
			name = fmt.Sprintf("%.8s… of job %s", g.id, j.name())
		}
	}
	if len(g.bundles) == 0 {
		b.loggedBundles(g)
	}
	holders := ""
	if d.fit(g) {
		if holders = d.holders(g.demand(), g.created); holders == "" {
			holders = b.placedBefore(g)
		}
	}
	var f *finding
	if holders != "" {
		f = b.find(Starved, "group "+g.name+g.strategy+g.job.String())
		f.Title = fmt.Sprintf("Placement group %s waited for %s: %s", name, resourceText(g.demand()), holders)
		if d.running {
			f.Severity = Warning // tasks were running at the end: then it is normal to wait for others
		}
	} else {
		f = b.find(Unschedulable, "group "+g.name+g.strategy+g.job.String())
		f.Title = fmt.Sprintf("Placement group %s was never placed%s", name, d.asked(g))
	}
	if g.status == "REMOVED" {
		f.Severity = Warning // it becomes an error if the job failed because of it
	} else {
		b.counts.PlacementGroups++
	}
	if len(g.bundles) > 0 {
		f.demand = resourceText(g.bundles[0])
	}
	g.finding = f
	f.add(occurrence{
		at: g.created, job: g.job, name: name, entity: Entity{Type: "placement_group", ID: g.id, Name: name},
		evidence: g.evident,
	})
	f.last = max(f.last, g.ended)
	b.showDemand(f, demanded(), func(m match) bool {
		return (g.strategy == "" || m.groups[2] == g.strategy) && g.asksFor(m.groups[1])
	})
}

// placedBefore says which groups were placed before another one and not removed, of which only that is stored; "" if
// there are none.
func (b *builder) placedBefore(g *group) string {
	var names []string
	for _, other := range b.groups {
		if other != g && other.placed && len(other.bundles) == 0 && other.ended == 0 && other.created <= g.created &&
			len(names) < maxEntities {
			names = append(names, "placement group "+cmp.Or(other.name, other.id))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return quoted(names) + " had been placed before"
}

// fit reports whether the group could be placed if nobody held any resources. Each bundle must fit on a node. With
// STRICT_PACK all bundles must fit on one node together, with STRICT_SPREAD there must be a node for each bundle.
func (d *demands) fit(g *group) bool {
	for i, bundle := range g.bundles {
		if d.lacking(bundle, g.selector(i)) != "" {
			return false
		}
	}
	switch g.strategy {
	case "STRICT_PACK":
		return len(g.bundles) > 0 && d.lacking(g.demand(), nil) == ""
	case "STRICT_SPREAD":
		return len(g.bundles) > 0 && len(g.bundles) <= d.b.living()
	}
	return len(g.bundles) > 0
}

// living returns how many nodes are alive.
func (b *builder) living() (n int) {
	for _, node := range b.nodes.All {
		if node.State != moment.Dead {
			n++
		}
	}
	return n
}

// asksFor reports whether a text names all resources that the group asks for. It is true if those are not known.
func (g *group) asksFor(text string) bool {
	for r := range g.demand() {
		if !strings.Contains(text, "'"+r+"'") {
			return false
		}
	}
	return true
}

// asked returns a text that says what a group asks for and how many nodes there were; "" if it is not known what the
// group asks for.
func (d *demands) asked(g *group) string {
	var what []string
	if n := len(g.bundles); n > 0 {
		what = append(what, plural(n, "bundle")+" of "+resourceText(g.bundles[0])+labelText(g.selector(0)))
	}
	if g.strategy != "" {
		what = append(what, g.strategy)
	}
	if len(what) == 0 {
		return ""
	}
	for i, bundle := range g.bundles {
		if lacking := d.lacking(bundle, g.selector(i)); lacking != "" {
			return fmt.Sprintf(": it asks for %s, and %s", strings.Join(what, ", "), lacking)
		}
	}
	return fmt.Sprintf(": it asks for %s, the cluster has %s", strings.Join(what, ", "), plural(d.b.living(), "node"))
}

// demandedBundle matches the bundles of one kind in a line of the autoscaler's status.
var demandedBundle = lazyregexp.New(`(\{[^{}]*\}) \* (\d{1,4})`)

// loggedBundles sets a group's bundles to those that the autoscaler says wait, if only one group of its strategy can be
// meant.
func (b *builder) loggedBundles(g *group) {
	said := ""
	for _, m := range b.loggedByHead("monitor.log", demanded()) {
		switch {
		case m.groups[2] != g.strategy || m.groups[1] == said:
		case said != "":
			return
		default:
			said = m.groups[1]
		}
	}
	for _, m := range demandedBundle().FindAllStringSubmatch(said, -1) {
		n, _ := strconv.Atoi(m[2]) // the expression matched digits
		for range min(n, maxBundles-len(g.bundles)) {
			g.bundles = append(g.bundles, resourcesIn(m[1]))
		}
	}
}

// inGroup adds a task or an actor that waited in a placement group to the finding about the group. The names of the
// resources that the task or actor asks for contain the group's ID.
func (d *demands) inGroup(resources string, e Entity) {
	for _, g := range d.b.groups {
		if g.finding != nil && strings.Contains(resources, g.id) {
			g.finding.addEntity(e)
			g.finding.addEvidence(Evidence{Source: "event",
				Text: fmt.Sprintf("%s %s (%s) waits in it", e.Type, e.Name, e.ID), Link: e.Link})
		}
	}
}
