package findings

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// headLogs are logs of a head that are written again and again while it lives.
var headLogs = []string{"monitor.log", "gcs_server.out", "raylet.out", "dashboard.log"}

// silence is how much longer than the head another node must have written logs (ns).
const silence = int64(5 * time.Second)

// head returns the session's head node; nil if it is not known.
func (b *builder) head() (id rayid.Node) {
	for _, n := range b.nodes.All {
		if n.Head {
			id, _ = rayid.Parse[rayid.Node](n.ID) // nil if it is no ID
			return id
		}
	}
	for _, node := range b.s.Logs.Nodes() {
		if slices.Contains(b.s.Logs.Paths(node), "gcs_server.out") {
			return node
		}
	}
	return id
}

// lostHead returns the finding about the head's loss; nil if it was not lost.
func (b *builder) lostHead() *finding { return b.lost[b.head()] }

// readSilentHead finds a head that ended without a word: after its last line other nodes say that they cannot reach it.
// If its collector lived on, it stored the end of the session, as that of a cluster that is deleted; but then Ray is
// told to end, or all nodes end within the same grace.
func (b *builder) readSilentHead() {
	head, least := b.head(), silence
	if b.s.EndStored {
		least = standsStill
	}
	if b.running || b.r.At != 0 || head.Nil() || b.lost[head] != nil ||
		!slices.ContainsFunc(b.jobs, func(j job) bool { return !jobstatus.Ended(j.Status) }) {
		return
	}
	if told, _ := b.toldToEnd(head); b.s.EndStored && (told != "" || b.gcs() != nil) {
		return
	}
	last, shown := int64(0), Evidence{}
	for _, path := range headLogs {
		log := b.log(head, path)
		if at, from, to := b.lastTime(log); at > last {
			last, shown = at, b.evidence(log, from, to)
		}
	}
	if last == 0 {
		return
	}
	for log := range b.nodeLogs(maxRaylets, called("raylet.out")) {
		if end, _, _ := b.lastTime(log); log.file.Node == head || end-last < least {
			continue
		}
		for _, m := range b.withoutGCS(log) {
			if m.at < last {
				continue
			}
			f := b.nodeLost(head)
			if f.Count == 0 {
				f.Title = fmt.Sprintf("%s ended without notice: its logs stop at %s, and then node %s could not "+
					"reach it any more",
					b.nodeTitle(head), b.clock(last), b.nodeName(log.file.Node))
				f.add(occurrence{at: last, node: head, evidence: []Evidence{shown}})
			}
			f.addEvidence(b.lineOf(m))
			break
		}
	}
}

// lastTime returns the time of the last line of a log that says one (Unix ns), and where that line is; 0 if none of its
// last lines does.
func (b *builder) lastTime(log *logText) (at int64, from, to int) {
	const maxLines = 50
	for end, n := len(log.text), 0; end > 0 && n < maxLines; n++ {
		begin := strings.LastIndexByte(log.text[:end-1], '\n') + 1
		if at = b.logTime(log.text[begin:end]); at != 0 {
			return at, begin, end
		}
		end = begin
	}
	return 0, 0, 0
}

// gcsGone match the lines in which a raylet says that it cannot reach the GCS: those of its syncer, of which the GCS
// has the ID of no node (src/ray/ray_syncer/ray_syncer.cc; before Ray 2.58 "Connection is broken"), and of its client
// (src/ray/rpc/retryable_grpc_client.cc).
var gcsGone = []func() *regexp.Regexp{
	lazyregexp.New(`Connection (?:to the node was|is) broken[^\n]*node(?:_id=|: )0{56}`),
	lazyregexp.New(`GCS has been unavailable for more than`), lazyregexp.New(`Failed to connect to GCS`),
}

// withoutGCS returns the lines in which a raylet says that it cannot reach the GCS.
func (b *builder) withoutGCS(raylet *logText) (all []match) {
	for _, expression := range gcsGone {
		all = append(all, b.matches(raylet, expression())...)
	}
	slices.SortFunc(all, func(x, y match) int { return cmp.Compare(x.from, y.from) })
	return all
}

// round matches what the autoscaler logs, every 5 s, when the GCS has answered it
// (python/ray/autoscaler/_private/autoscaler.py). Its second version logs nothing of the kind.
var round = lazyregexp.New(`The autoscaler took [^\n]* seconds to complete the update iteration`)

const (
	// threeRounds is the longest time of the autoscaler's last three rounds, if it had a rhythm (ns).
	threeRounds = int64(20 * time.Second)
	// standsStill is how long the head's raylet must have gone on after the last lines of the GCS and of the
	// autoscaler, if nothing else tells of the GCS (ns).
	standsStill = int64(20 * time.Second)
	// longGrace is longer than what is left of a pod that ends, of which the autoscaler's container ended first (ns).
	longGrace = int64(2 * time.Minute)
)

// noAnswer matches what a driver's core logs, once, if the GCS had not answered it for a second
// (src/ray/core_worker/task_event_buffer.cc).
var noAnswer = lazyregexp.New(`hasn't replied to the previous flush [^\n]*\bgcs_grpc_in_progress=1\b`)

// gcsEnded returns the finding about a GCS that ended while the rest of the head lived on: nothing more is in its log,
// and the head's raylet says for a while that it cannot reach it; or about one that stood still. It is nil if neither
// is so.
func (b *builder) gcsEnded() *finding {
	head := b.head()
	if head.Nil() {
		return nil
	}
	ended, _, _ := b.lastTime(b.log(head, "gcs_server.out"))
	if ended == 0 {
		return nil
	}
	raylet := b.log(head, "raylet.out")
	gone := slices.DeleteFunc(b.withoutGCS(raylet), func(m match) bool { return m.at < ended })
	last, from, to := b.lastTime(raylet)
	how, shown := "ended without notice", []Evidence(nil)
	if len(gone) >= 2 && last-gone[0].at >= silence { // heads that are ended in order say it once or twice
		ended = gone[0].at
		shown = []Evidence{b.lineOf(gone[0]), b.lineOf(gone[len(gone)-1])}
	} else {
		if ended = b.gcsStoodStill(head, ended, raylet); ended == 0 {
			return nil
		}
		how, shown = "stopped answering", []Evidence{b.evidence(raylet, from, to)}
	}
	f := b.find(GCSDied, head.String())
	f.Title = fmt.Sprintf("The GCS on the head (%s) %s at %s", b.nodeName(head), how, b.clock(ended))
	said, crash := b.crashIn([]*logText{b.log(head, "gcs_server.err"), b.log(head, "gcs_server.out")})
	f.Title += around(": ", said, "")
	f.add(occurrence{at: ended, node: head, entity: b.nodeEntity(head), evidence: append([]Evidence{crash}, shown...)})
	b.showGCS(f)
	return f
}

// gcsStoodStill returns when a GCS stood still, of which the last line is of the time logged; 0 if it did not. No
// process says so: the autoscaler, which waits for its answers, only has no more rounds, while the raylet beside them
// goes on. Where the raylet was told to end, or the head was lost, the autoscaler may only have ended first, and a GCS
// that has nothing to do logs little: so something else must tell of it, too.
func (b *builder) gcsStoodStill(head rayid.Node, logged int64, raylet *logText) (at int64) {
	monitor := b.log(head, "monitor.log")
	rounds := b.matches(monitor, round())
	n := len(rounds)
	if b.running || b.lost[head] != nil || n < 3 || rounds[n-1].at-rounds[n-3].at > threeRounds {
		return 0
	}
	last, _, _ := b.lastTime(raylet)
	if told := b.matches(raylet, sigterm()); len(told) > 0 {
		last = told[0].at
	}
	answered := rounds[n-1].at
	at = max(logged, answered)
	if at-answered > silence || last-at < standsStill {
		return 0
	}
	said, _, _ := b.lastTime(monitor)
	if said-answered >= standsStill || last-at >= longGrace || b.unansweredDriver(head, at) {
		return at
	}
	return 0
}

// unansweredDriver reports whether a driver on the head logged after a time that the GCS had not answered it.
func (b *builder) unansweredDriver(head rayid.Node, since int64) bool {
	const maxLogs = 20 // logs
	for log := range b.nodeLogs(maxLogs, begins("python-core-driver-")) {
		if log.file.Node == head && slices.ContainsFunc(b.matches(log, noAnswer()),
			func(m match) bool { return m.at > since }) {
			return true
		}
	}
	return false
}

// showGCS adds the last lines that the GCS logged to the evidence.
func (b *builder) showGCS(f *finding) {
	const maxLogs = 2 // both of one head
	for log := range b.nodeLogs(maxLogs, called("gcs_server.err", "gcs_server.out")) {
		f.addEvidence(b.tail(log, 5))
	}
}

// gcsLost matches the last line that a process of Ray prints when it cannot reach the GCS any more.
var gcsLost = lazyregexp.New(`(?m)^\[[^\n]* (Failed to connect to GCS within \d+ seconds)\. [^\n]*$\s*\z`)

// driverLostGCS adds the finding about a driver that ended because the cluster's GCS was gone, with the last lines that
// the GCS logged. lost is false if the driver's log does not show this. Such a job may never have got the status
// FAILED: the process that reports a job's end may have ended with the GCS.
func (b *builder) driverLostGCS(j *job, log *logText) (lost bool) {
	if log == nil {
		return false
	}
	m := gcsLost().FindStringSubmatchIndex(log.text)
	if m == nil {
		return false
	}
	f := b.jobFinding(JobFailed, j, "Job %s failed because the cluster's GCS was gone: %s", j.name(),
		log.text[m[2]:m[3]])
	from, to := log.line(m[0])
	f.addEvidence(b.evidence(log, from, to))
	f.addEvidence(b.jobEvidence(j, ""))
	b.showGCS(f)
	b.linkGCS(f, j)
	return true
}

// linkGCS links a finding about a job's end to that of a GCS that had ended, or stood still, before it. It reports
// whether there is one.
func (b *builder) linkGCS(f *finding, j *job) (linked bool) {
	gcs := b.gcs()
	if gcs == nil || j.End != 0 && gcs.last > j.End {
		return false
	}
	f.causedBy(gcs)
	gcs.addName("job " + j.name())
	return slices.Contains(f.because, gcs)
}
