package findings

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// taskDemandLine matches a line of the autoscaler's status about tasks and actors that wait: "{'GPU': 8.0}: 1+ pending
// tasks/actors".
var taskDemandLine = lazyregexp.New(`(?m)^ ?(\{[^\n]*\}): (\d+)\+ pending tasks/actors`)

const autoscalerLog = "monitor.log"

// showDemand adds to the evidence the last match of an expression in the autoscaler's log for which accepts returns
// true.
func (b *builder) showDemand(f *finding, line *regexp.Regexp, accepts func(m match) bool) {
	for _, m := range slices.Backward(b.logs.inHeads(autoscalerLog, line)) {
		if accepts(m) {
			f.addEvidence(b.lineEvidence(m))
			return
		}
	}
}

const notScheduledYet = "PENDING_NODE_ASSIGNMENT" // the state of an attempt that no node runs yet

const maxPending = 5000 // attempts whose demands one report examines

// readPending finds tasks, actors and placement groups that waited until their session or their job ended. The findings
// say that no node could have taken them, or who held the resources.
func (b *builder) readPending() {
	running, err := b.countUnended()
	if b.stopOn(err) {
		return
	}
	demand := demands{b: b, tasksRan: running > 0, noNodeHas: map[string]string{},
		inConstructor: map[rayid.Actor]bool{}}
	b.addUnended(tasktable.StateRunning)
	b.addUnended(notScheduledYet)
	for _, a := range b.unended {
		if a.isRunningConstructor() {
			demand.inConstructor[actorIDOf(a.row)] = true
		}
	}
	demand.holdings = b.readHoldings()
	demand.addGroups() // before what waited in them, which adds itself to their findings
	demand.addTasks()
	demand.addActors()
	for _, f := range demand.found {
		b.showDemand(f, taskDemandLine(), func(match) bool { return true })
	}
}

// countUnended counts in b.counts what had not ended, and returns how many attempts of tasks had begun to run.
func (b *builder) countUnended() (running int, err error) {
	all := tasktable.Query{ExcludeDriver: true, At: b.moment.At, Stop: b.requestErr}
	states, err := b.session.Tasks.CountStates(all)
	if err != nil {
		return 0, err
	}
	for _, c := range states {
		if c.State == tasktable.StateFinished || c.State == tasktable.StateFailed {
			continue
		}
		b.counts.Tasks += c.Count
		if state, _ := taskstate.ByName([]byte(c.State)); !state.IsPending() {
			running += c.Count
		}
	}
	u := b.session.Unfinished()
	b.counts.Jobs, b.counts.Actors = u.Jobs, u.Actors
	return running, nil
}

// demands compares the resources for which tasks, actors and placement groups waited with what the nodes had.
type demands struct {
	b        *builder
	tasksRan bool // some were running when the session ended
	holdings
	inConstructor map[rayid.Actor]bool // of unended
	noNodeHas     map[string]string    // results of builder.whatNoNodeHas, by the resources and labels as text
	living        map[int64]int        // results of livingAt
	found         []*finding           // about tasks and actors
}

// addGroups adds the findings about placement groups that waited.
func (d *demands) addGroups() {
	for _, g := range d.b.groups {
		if d.b.requestErr() != nil {
			return
		}
		if g.hasWaited(d.b) {
			d.addGroup(g)
		}
	}
}

// addTasks adds the findings about tasks that no node ran yet. Calls of actors wait only for their actors.
func (d *demands) addTasks() {
	b := d.b
	for _, a := range b.unended {
		if b.requestErr() != nil {
			return
		}
		if a.isTask() && a.state == notScheduledYet {
			job := b.callerJob(a.row)
			d.addWaiting(a.name(), job, demandOf(a.row), selectorOf(a.row), a.since,
				b.waitedUntil(job, a.since), b.taskEntity(a.row.ID(), string(a.row.Name())))
		}
	}
}

// addActors adds the findings about actors that waited, of which it looks at maxPending.
func (d *demands) addActors() {
	waiting := 0
	for i := range d.b.session.Actors {
		since, waited := d.waitedSince(&d.b.session.Actors[i])
		if !waited {
			continue
		}
		if d.b.requestErr() != nil {
			return
		}
		if waiting++; waiting > maxPending {
			d.b.noteMissing("Only %d of the actors that waited for resources were looked at.", maxPending)
			return
		}
		d.addActor(&d.b.session.Actors[i], since)
	}
}

// waitedSince reports whether an actor waited for resources when the session or its driver ended, and since when (Unix
// ns).
func (d *demands) waitedSince(a *entities.Actor) (since int64, waited bool) {
	now, existed := moment.ActorAt(a, d.b.moment.At)
	switch {
	case !existed:
		return 0, false
	case now.State == "PENDING_CREATION" || now.State == moment.Restarting:
		return now.Changed, true
	case now.State == moment.Dead && wasIntendedDeath(now.Cause()):
		if last, _ := moment.ActorAt(a, now.Ended-1); last.State == moment.Restarting {
			return last.Changed, now.Ended-last.Changed >= longWait // Ray had not started it again
		}
	}
	if now.State != moment.Dead || now.Started != 0 && now.Ended-now.Started >= minHung {
		return 0, false
	}
	// The actor was given up or killed before it ran, or as it began: drivers that end free what others waited for.
	// Until then it had waited for resources that no node has, or, if its constructor had not begun, that others held.
	if d.whatNoNodeHas(a.Resources, a.LabelSelector) != "" {
		return now.Changed, true
	}
	before, _ := moment.ActorAt(a, cmp.Or(now.Started, now.Ended)-longWait)
	return before.Changed, before.State == "PENDING_CREATION" && wasIntendedDeath(now.Cause()) && !d.inConstructor[a.ID]
}

// addActor adds the finding about an actor that had waited for resources since a time (Unix ns). The actor that starts
// a submission's driver stands for the job.
func (d *demands) addActor(a *entities.Actor, since int64) {
	name := "actor " + actorName(a)
	submission, ok := strings.CutPrefix(a.Name, moment.SupervisorActor)
	if ok {
		name = "The entrypoint of job " + submission
	}
	job := d.b.jobThen(a.Job, since)
	until := d.b.waitedUntil(job, since)
	if now, _ := moment.ActorAt(a, d.b.moment.At); now.Started > since { // then it held what it had waited for
		until = min(until, now.Started-1)
	}
	f := d.addWaiting(name, job, a.Resources, a.LabelSelector, since, until, d.b.actorEntity(a))
	if f != nil && ok {
		f.SubmissionID = submission
		f.addName(a.Name)
		f.addEntity(Entity{Type: "job", ID: submission, Name: submission,
			Link: d.b.link("#/jobs/%s", url.PathEscape(submission))})
	}
}

// selectAttempts returns the first attempts, at most limit, for which a field of the table of tasks had a value at a
// moment (Unix ns; 0 is the session's end), with their states then. The attempts of drivers are left out.
func (b *builder) selectAttempts(at int64, field, value string, limit int) (all []attempt) {
	found, err := b.session.Tasks.Select(tasktable.Query{
		Filters: []tasktable.Filter{{Key: field, Value: value}}, Limit: limit, ExcludeDriver: true, At: at,
		Stop: b.requestErr,
	})
	if b.stopOn(err) {
		return nil
	}
	for i := range found.Rows {
		row, err := found.Row(i)
		if b.stopOn(err) {
			return nil
		}
		all = append(all, attemptOf(row))
	}
	return all
}

// attemptOf returns the attempt of a row. One that Ray shows as running counts as finished if its worker says that its
// function had ended.
func attemptOf(row tasktable.Row) attempt {
	a := attempt{row: row, state: row.State()}
	var buf [8]tasktable.StateTime
	for _, s := range row.States(buf[:0]) {
		a.since = max(a.since, s.Time)
	}
	if a.state == tasktable.StateRunning {
		if end, _ := unreportedEnd(row); end != 0 {
			a.state, a.since = tasktable.StateFinished, end
		}
	}
	return a
}

// ofGroup is in the names of resources of a placement group, such as CPU_group_0_<the group's ID>.
const ofGroup = "_group_"

// whatNoNodeHas returns what builder.whatNoNodeHas does, which it asks once for the same resources and labels. It
// returns "" if some of the resources are of a placement group, such as CPU_group_…: who asks for these waits for the
// group, or in it.
func (d *demands) whatNoNodeHas(resources map[string]float64, labels map[string]string) string {
	for r := range resources {
		if strings.Contains(r, ofGroup) {
			return ""
		}
	}
	key := resourceText(resources) + labelText(labels)
	lacking, known := d.noNodeHas[key]
	if !known && len(d.noNodeHas) < maxPending {
		lacking = d.b.whatNoNodeHas(resources, labels)
		d.noNodeHas[key] = lacking
	}
	return lacking
}

// addWaiting adds one task or actor that had waited from one time to another (Unix ns), and returns the finding about
// it; nil if it did not wait for resources. name is the one for the title, and e the task or actor.
func (d *demands) addWaiting(name string, job rayid.Job, resources map[string]float64, labels map[string]string,
	at, until int64, e Entity) *finding {
	plain, groupID := splitGroup(resources)
	key, lacking := resourceText(plain), d.whatNoNodeHas(resources, labels)
	if groupID != "" {
		i := slices.IndexFunc(d.b.groups, func(g *group) bool { return g.ID == groupID })
		if i < 0 || d.b.groups[i].addWaiting(e) {
			return nil
		}
		key += " in placement group " + d.b.groupName(d.b.groups[i])
	}
	if len(resources)+len(labels) == 0 || d.b.jobOfID(job).succeededOrStopped() {
		return nil
	}
	var f *finding
	reason, since := lacking, at
	holders, lost := "", (*finding)(nil)
	if lacking == "" {
		holders, lost = d.heldOrLost(resources, at, until)
	}
	switch {
	case lacking != "":
		f = d.b.findOrAdd(Unschedulable, name+job.String()+key+labelText(labels))
		asked := key + labelText(labels)
		if len(resources) == 0 {
			asked = strings.TrimPrefix(labelText(labels), " on ")
		}
		f.Title = fmt.Sprintf("%s could never be scheduled: it asks for %s, and %s", name, asked, lacking)
	case holders == "" && lost == nil:
		return nil // it waited for something else
	case lost != nil:
		reason = "no node that was left has all of that"
		f = d.b.findOrAdd(Unschedulable, name+job.String()+key)
		f.Title = fmt.Sprintf("%s could not be scheduled any more: it asks for %s, and %s", name, key, reason)
		f.causedBy(lost)
		since = max(at, lost.last) // until then it waited for its turn
	default:
		reason = holders
		f = d.starved(name+job.String()+key, name, key, holders)
	}
	f.demand = key
	said := fmt.Sprintf("%s %s (%s) was pending and asked for %s; %s", e.Type, e.Name, e.ID, key, reason)
	shown := Evidence{Source: "event", Time: timestamp(since), Text: said, Link: e.Link}
	f.add(occurrence{at: since, job: job, name: name, entity: e, evidence: []Evidence{shown}})
	if j := d.b.jobOfID(job); j != nil {
		f.last = max(f.last, j.End) // it waited until its driver ended
	}
	if !slices.Contains(d.found, f) {
		d.found = append(d.found, f)
	}
	return f
}

// starved returns the finding about something, called name in the title, that waited for resources that others held.
func (d *demands) starved(key, name, resources, holders string) *finding {
	f := d.b.findOrAdd(Starved, key)
	f.Title = fmt.Sprintf("%s waited for %s: %s", name, resources, holders)
	if d.tasksRan {
		f.Severity = Warning // it is normal to wait for others that run
	}
	return f
}

// whatNoNodeHas says which of the resources no node with the labels ever had in the session. It is "" if one node had
// all of them, or if the resources of no node are known.
func (b *builder) whatNoNodeHas(resources map[string]float64, labels map[string]string) string {
	nodes, labelled := 0, 0         // nodes whose resources are known, and those of them that have the labels
	largest := map[string]float64{} // the most of each resource that one labelled node had
	fits := false                   // one node had all resources
	for i := range b.session.Nodes {
		node, existed := moment.NodeAt(&b.session.Nodes[i], b.moment.At)
		if !existed || len(node.Resources) == 0 {
			continue
		}
		nodes++
		if !labelsMatch(labels, &b.session.Nodes[i]) {
			continue
		}
		labelled++
		for r := range resources {
			largest[r] = max(largest[r], node.Resources[r])
		}
		fits = fits || covers(node.Resources, resources)
	}
	switch {
	case nodes > 0 && labelled == 0:
		return "no node has such labels"
	case nodes == 0 || fits || len(resources) == 0:
		return ""
	}
	for _, r := range slices.Sorted(maps.Keys(resources)) {
		if largest[r] == 0 {
			return "no node has any " + r
		}
		if largest[r] < resources[r] {
			return fmt.Sprintf("the most that one node has is %s %s", amountText(r, largest[r]), r)
		}
	}
	return "no node has all of that together"
}

// lostWith returns the finding about the death of the last node that had all of these resources. It is nil if no node
// had them, or if one that had them did not die.
func (b *builder) lostWith(resources map[string]float64) (lost *finding) {
	for i := range b.session.Nodes {
		n := &b.session.Nodes[i]
		if node, existed := moment.NodeAt(n, b.moment.At); !existed || !covers(node.Resources, resources) {
			continue
		}
		if b.lostNodes[n.ID] == nil {
			return nil
		}
		lost = b.lostNodes[n.ID]
	}
	return lost
}

// addRefusal adds what the autoscaler said (at a time, Unix ns) of a demand, in the form of resourceText, that no node
// type can fulfil: to the evidence of the findings about that demand, or else as a finding of its own.
func (b *builder) addRefusal(evidence Evidence, at int64, demand string) {
	known := false
	for _, f := range b.findings {
		if f.demand == demand {
			f.addEvidence(evidence)
			known = true
		}
	}
	if known {
		return
	}
	f := b.findOrAdd(Unschedulable, "autoscaler"+demand)
	f.Title = output.Clip("The autoscaler could not provide what was asked for: "+output.FirstSentence(evidence.Text),
		output.MaxTitle)
	f.count(at)
	f.Severity = Warning
	f.addEvidence(evidence)
}

// heldOrLost returns who held resources when something began to wait for them (since, Unix ns), or at the end of its
// wait (until), because actors that are made together begin to hold them later. If nobody did, it returns the finding
// about the lost node that had the resources; nil if there is none.
func (d *demands) heldOrLost(resources map[string]float64, since, until int64) (holders string, lost *finding) {
	if holders = cmp.Or(d.holders(resources, since), d.holders(resources, until)); holders != "" {
		return holders, nil
	}
	if lost = d.b.lostWith(resources); lost != nil {
		return "", lost
	}
	if _, group := splitGroup(resources); group != "" {
		return "", nil
	}
	return d.b.placedBefore(since), nil
}

// waitedUntil returns until when (Unix ns) something of a job waited in vain that had begun to wait at a time: until
// shortly before the end of its driver, or of the session, because then others let go of what they hold. It returns the
// time at which the wait began if the job may have ended well, as a driver without a submission that ended: its actors
// may have taken turns.
func (b *builder) waitedUntil(job rayid.Job, since int64) int64 {
	j := b.jobOfID(job)
	if j == nil || j.SubmissionID == "" && j.End != 0 {
		return since
	}
	until := min(b.end, b.session.End)
	if j.End > since {
		until = min(until, j.End)
	}
	return max(since, until-2*minHung)
}
