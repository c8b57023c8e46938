package findings

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// waiting matches a line of the autoscaler's status about tasks and actors that wait: "{'GPU': 8.0}: 1+ pending
// tasks/actors".
var waiting = lazyregexp.New(`(?m)^ ?(\{[^\n]*\}): (\d+)\+ pending tasks/actors`)

// demandLines returns where an expression matches the autoscaler's log. The log is searched once, however many wait.
func (b *builder) demandLines(line *regexp.Regexp) []match {
	known, searched := b.demanded[line]
	if !searched {
		known = b.loggedByHead("monitor.log", line)
		b.demanded[line] = known
	}
	return known
}

// showDemand searches the autoscaler's log for the last line that matches an expression and that about accepts. It adds
// the line to the evidence.
func (b *builder) showDemand(f *finding, line *regexp.Regexp, about func(m match) bool) {
	for _, m := range slices.Backward(b.demandLines(line)) {
		if about(m) {
			f.addEvidence(b.lineOf(m))
			return
		}
	}
}

const notScheduledYet = "PENDING_NODE_ASSIGNMENT" // the state of an attempt that no node runs yet

// pendingStates holds the states of attempts that no worker had begun to run.
var pendingStates = map[string]bool{
	"PENDING_ARGS_AVAIL": true, notScheduledYet: true, "PENDING_OBJ_STORE_MEM_AVAIL": true,
	"PENDING_ARGS_FETCH": true,
}

const maxPending = 5000 // attempts whose demands one report examines

// readPending finds tasks, actors and placement groups that waited until their session or their job ended. The findings
// say whether no node could have taken them, or others held the resources.
func (b *builder) readPending() {
	running, err := b.countUnended()
	if b.fail(err) {
		return
	}
	demand := demands{b: b, running: running > 0, lacked: map[string]string{}}
	b.readAtWork()
	demand.holdings = b.readHoldings()
	for _, g := range b.groups {
		if b.stopped() != nil {
			return
		}
		if g.waited(b) {
			demand.group(g)
		}
	}
	b.queued = b.attempts("state", notScheduledYet, maxPending, b.r.At)
	for _, a := range slices.Concat(b.queued, b.abandoned) {
		if b.stopped() != nil {
			return
		}
		// actors are examined below; their calls wait only for them
		if string(a.row.Type()) == eventjson.TypeNormal && a.state == notScheduledYet {
			demand.add(a.name(), callerOf(a.row), demandOf(a.row), selectorOf(a.row), a.since,
				b.taskEntity(a.row.ID(), string(a.row.Name())))
		}
	}
	for i := range b.s.Actors {
		if since, waited := demand.waitedSince(&b.s.Actors[i]); waited {
			demand.actor(&b.s.Actors[i], since)
		}
	}
	for _, f := range demand.found {
		b.showDemand(f, waiting(), func(match) bool { return true })
	}
}

// countUnended counts what had not ended, and returns how many attempts were running.
func (b *builder) countUnended() (running int, err error) {
	states, err := b.s.Tasks.CountStates(tasktable.Query{ExcludeDriver: true, At: b.r.At, Stop: b.stopped})
	if err != nil {
		return 0, err
	}
	for _, c := range states {
		if c.State == tasktable.StateFinished || c.State == tasktable.StateFailed {
			continue
		}
		b.counts.Tasks += c.Count
		if !pendingStates[c.State] {
			running += c.Count
		}
	}
	u := b.s.Unfinished()
	b.counts.Jobs, b.counts.Actors = u.Jobs, u.Actors
	return running, nil
}

// readAtWork remembers the attempts that were running when the session ended.
func (b *builder) readAtWork() {
	for _, a := range b.attempts("state", tasktable.StateRunning, maxPending, b.r.At) {
		switch kind := string(a.row.Type()); {
		case a.state != tasktable.StateRunning: // nobody said that it had ended
		case kind == eventjson.TypeNormal:
			b.atWork = append(b.atWork, a)
		case kind == eventjson.TypeActorCreation:
			b.constructors = append(b.constructors, a)
		default:
			b.calls = append(b.calls, a)
		}
	}
}

// demands compares the resources for which tasks, actors and placement groups waited with what the nodes had.
type demands struct {
	b       *builder
	running bool // something ran when the session ended
	holdings
	lacked map[string]string // results of builder.lacking, by the resources and labels as text
	found  []*finding        // about tasks and actors
}

// waitedSince reports whether an actor waited for resources at the end, and since when (Unix ns).
func (d *demands) waitedSince(a *entities.Actor) (since int64, waited bool) {
	now, existed := moment.ActorAt(a, d.b.r.At)
	switch {
	case !existed:
		return 0, false
	case now.State == "PENDING_CREATION" || now.State == moment.Restarting:
		return now.Changed, true
	case now.State == moment.Dead && intended(now.Cause()):
		if last, _ := moment.ActorAt(a, now.Ended-1); last.State == moment.Restarting {
			return last.Changed, now.Ended-last.Changed >= longWait // Ray had not started it again
		}
	}
	switch {
	case now.State != moment.Dead || now.Started != 0 && now.Ended-now.Started >= minHung:
		return 0, false
	}
	// It was given up or killed before it ran, or as it began, as drivers that end free what others waited for: for
	// what it waited until then, if its constructor had not begun.
	if d.lacking(a.Resources, a.LabelSelector) != "" {
		return now.Changed, true
	}
	before, _ := moment.ActorAt(a, cmp.Or(now.Started, now.Ended)-longWait)
	inConstructor := func(c attempt) bool { return actorOf(c.row) == a.ID }
	return before.Changed, before.State == "PENDING_CREATION" && intended(now.Cause()) &&
		!slices.ContainsFunc(d.b.constructors, inConstructor)
}

// actor adds an actor that had waited since a time (Unix ns).
func (d *demands) actor(a *entities.Actor, since int64) {
	name := "actor " + actorName(a)
	submission, ok := strings.CutPrefix(a.Name, moment.SupervisorActor)
	if ok {
		name = "The entrypoint of job " + submission
	}
	if f := d.add(name, a.Job, a.Resources, a.LabelSelector, since, d.b.actorEntity(a)); f != nil && ok {
		f.SubmissionID = submission
		f.addName(a.Name)
		f.addEntity(Entity{Type: "job", ID: submission, Name: submission, Link: d.b.link("#/jobs/%s", submission)})
	}
}

// attempts returns the first attempts for which a field had a value at a moment, with their states then.
func (b *builder) attempts(field, value string, limit int, at int64) (all []attempt) {
	found, err := b.s.Tasks.Select(tasktable.Query{
		Filters: []tasktable.Filter{{Key: field, Value: value}}, Limit: limit, ExcludeDriver: true, At: at,
		Stop: b.stopped,
	})
	if b.fail(err) {
		return nil
	}
	for i := range found.Rows {
		row, err := found.Row(i)
		if b.fail(err) {
			return nil
		}
		all = append(all, attemptOf(row))
	}
	return all
}

func attemptOf(row tasktable.Row) attempt {
	a := attempt{row: row, state: row.State()}
	var buf [8]tasktable.StateTime
	for _, s := range row.States(buf[:0]) {
		a.since = max(a.since, s.Time)
	}
	if a.state == tasktable.StateRunning {
		if end, _ := a.endedUnseen(); end != 0 {
			a.state, a.since = tasktable.StateFinished, end
		}
	}
	return a
}

// lacking returns what builder.lacking does, which it asks once for the same resources and labels; but "" if some are
// of a placement group, such as CPU_group_…: what asks for these waits for the group, or in it.
func (d *demands) lacking(resources map[string]float64, labels map[string]string) string {
	for r := range resources {
		if strings.Contains(r, "_group_") {
			return ""
		}
	}
	key := resourceText(resources) + labelText(labels)
	lacking, known := d.lacked[key]
	if !known {
		lacking = d.b.lacking(resources, labels)
		d.lacked[key] = lacking
	}
	return lacking
}

// add adds one task or actor that waited and returns the finding about it; nil if there is none.
func (d *demands) add(name string, job rayid.Job, resources map[string]float64, labels map[string]string, at int64,
	e Entity) *finding {
	key, lacking := resourceText(resources), d.lacking(resources, labels)
	if strings.Contains(key, "_group_") {
		d.inGroup(key, e)
	}
	if len(resources)+len(labels) == 0 || strings.Contains(key, "_group_") {
		return nil
	}
	if d.b.jobOfID(job).succeededOrStopped() {
		return nil
	}
	var f *finding
	if lacking != "" {
		f = d.b.find(Unschedulable, name+job.String()+key+labelText(labels))
		asked := key + labelText(labels)
		if len(resources) == 0 {
			asked = strings.TrimPrefix(labelText(labels), " on ")
		}
		f.Title = fmt.Sprintf("%s could never be scheduled: it asks for %s, and %s", name, asked, lacking)
	} else if holders, lost := d.heldOrLost(resources, at, d.b.waitedUntil(job, at)); holders == "" && lost == nil {
		return nil // it waited for something else
	} else if lost != nil {
		lacking = "no node that was left has all of that"
		f = d.b.find(Unschedulable, name+job.String()+key)
		f.Title = fmt.Sprintf("%s could not be scheduled any more: it asks for %s, and %s", name, key, lacking)
		f.causedBy(lost)
		at = max(at, lost.last) // until then it waited for its turn
	} else {
		lacking = holders
		f = d.starved(name+job.String()+key, name, key, holders)
	}
	f.demand = key
	said := fmt.Sprintf("%s %s (%s) was pending and asked for %s; %s", e.Type, e.Name, e.ID, key, lacking)
	shown := Evidence{Source: "event", Time: stamp(at), Text: said, Link: e.Link}
	f.add(occurrence{at: at, job: job, name: name, entity: e, evidence: []Evidence{shown}})
	if j := d.b.jobOfID(job); j != nil {
		f.last = max(f.last, j.End) // it waited until its driver ended
	}
	if !slices.Contains(d.found, f) {
		d.found = append(d.found, f)
	}
	return f
}

// starved returns the finding about something that waited for resources that others held.
func (d *demands) starved(key, name, resources, holders string) *finding {
	f := d.b.find(Starved, key)
	f.Title = fmt.Sprintf("%s waited for %s: %s", name, resources, holders)
	if d.running {
		f.Severity = Warning // tasks were running at the end: then it is normal to wait for others
	}
	return f
}

// lacking returns a text that says which of the resources no node with the labels ever had in the session; "" if one
// node had all of them, or if the resources of no node are known.
func (b *builder) lacking(resources map[string]float64, labels map[string]string) string {
	nodes, labelled := 0, 0
	largest := map[string]float64{}
	fits := false
	for i := range b.s.Nodes {
		node, existed := moment.NodeAt(&b.s.Nodes[i], b.r.At)
		if !existed || len(node.Resources) == 0 {
			continue
		}
		nodes++
		if !selects(labels, &b.s.Nodes[i]) {
			continue
		}
		labelled++
		for r := range resources {
			largest[r] = max(largest[r], node.Resources[r])
		}
		fits = fits || has(node.Resources, resources)
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

// lostWith returns the finding about the death of the last node that had all of these resources; nil if no node had
// them, or one that has them did not die.
func (b *builder) lostWith(resources map[string]float64) (lost *finding) {
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if node, existed := moment.NodeAt(n, b.r.At); !existed || !has(node.Resources, resources) {
			continue
		}
		if b.lost[n.ID] == nil {
			return nil
		}
		lost = b.lost[n.ID]
	}
	return lost
}

// refusal is what the autoscaler said about a demand that no node type can fulfil.
type refusal struct {
	demand   string // in the form of resourceText
	at       int64
	evidence Evidence
}

// readRefusals adds each refusal to the evidence of the findings about the same demand. If there is no such finding,
// the refusal becomes a finding of its own.
func (b *builder) readRefusals() {
	for _, said := range b.refused {
		known := false
		for _, f := range b.all {
			if f.demand == said.demand {
				f.addEvidence(said.evidence)
				known = true
			}
		}
		if known {
			continue
		}
		f := b.find(Unschedulable, "autoscaler"+said.demand)
		f.Title = output.Clip("The autoscaler could not provide what was asked for: "+
			output.FirstSentence(said.evidence.Text), output.MaxTitle)
		f.count(said.at)
		f.Severity = Warning
		f.addEvidence(said.evidence)
	}
}

// heldOrLost returns who held resources when something began to wait for them, or at the end of its wait, as those that
// are made together begin to hold them later; or else the lost node that had them.
func (d *demands) heldOrLost(resources map[string]float64, since, until int64) (holders string, lost *finding) {
	if holders = cmp.Or(d.holders(resources, since), d.holders(resources, until)); holders != "" {
		return holders, nil
	}
	if lost = d.b.lostWith(resources); lost != nil {
		return "", lost
	}
	return d.b.placedBefore(since), nil
}

// waitedUntil returns until when something of a job waited that had begun to wait at a time and did not get what it
// asked for: shortly before its driver's end, or the session's, when others let go of what they hold. It is the time
// when it began if the job may have ended well, as a driver without a submission that ended, whose actors take turns.
func (b *builder) waitedUntil(job rayid.Job, since int64) int64 {
	j := b.jobOfID(job)
	if j == nil || j.SubmissionID == "" && j.End != 0 {
		return since
	}
	until := min(b.end, b.s.End)
	if j.End > since {
		until = min(until, j.End)
	}
	return max(since, until-2*minHung)
}
