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

// head returns the session's head node: the one that Ray marks, or else one that has a log of the GCS; nil if there is
// none.
func (b *builder) head() (id rayid.Node) {
	for _, n := range b.nodes.All {
		if n.Head {
			id, _ = rayid.Parse[rayid.Node](n.ID) // nil if it is no ID: no other node is taken for the head
			return id
		}
	}
	for _, node := range b.session.Logs.Nodes() {
		if slices.Contains(b.session.Logs.Paths(node), "gcs_server.out") {
			return node
		}
	}
	return id
}

// lostHead returns the finding about the head's loss; nil if it was not lost.
func (b *builder) lostHead() *finding { return b.lostNodes[b.head()] }

// readSilentHead finds a head that ended without a word: after the last line of its logs, other nodes say that they
// cannot reach it. It does so only if a job had not ended.
//
// If the head's collector stored the end of the session, the cluster may have been deleted: then Ray was told to end,
// or all nodes ended within the same grace period, so the other nodes must have gone on for longer.
func (b *builder) readSilentHead() {
	head, minSilence := b.head(), silence
	if b.session.EndStored {
		minSilence = standsStill
	}
	if b.isOpen() || head.Nil() || b.lostNodes[head] != nil ||
		!slices.ContainsFunc(b.jobs, func(j job) bool { return !jobstatus.Ended(j.Status) }) {
		return
	}
	if told, _ := b.rayletToldToEnd(head); b.session.EndStored && (told != "" || b.gcsFinding() != nil) {
		return
	}
	last, shown := b.lastLogged(head)
	if last == 0 {
		return
	}
	for log := range b.logs.ofNodes(pathIs("raylet.out")) {
		if end, _, _ := b.lastTime(log); log.file.Node == head || end-last < minSilence {
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
			f.addEvidence(b.lineEvidence(m))
			break
		}
	}
}

// lastLogged returns when a head last wrote a line (Unix ns), and that line; 0 if that is not known.
func (b *builder) lastLogged(head rayid.Node) (last int64, shown Evidence) {
	for _, path := range headLogs {
		log := b.logs.ofNode(head, path)
		if at, from, to := b.lastTime(log); at > last {
			last, shown = at, b.evidence(log, from, to)
		}
	}
	return last, shown
}

// lastTime returns the time of the last line of a log that begins with a time (Unix ns), and where that line begins and
// ends. All are 0 if none of the log's last 50 lines begins with a time.
func (b *builder) lastTime(log *logText) (at int64, from, to int) {
	const maxLines = 50
	for end, n := len(log.text), 0; end > 0 && n < maxLines; n++ {
		begin := strings.LastIndexByte(log.text[:end-1], '\n') + 1
		if at = b.logs.timeOf(log.text[begin:end]); at != 0 {
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

// withoutGCS returns the lines in which a raylet says that it cannot reach the GCS, in the log's order.
func (b *builder) withoutGCS(raylet *logText) (all []match) {
	for _, expression := range gcsGone {
		all = append(all, b.logs.matches(raylet, expression())...)
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

// gcsEnded returns the finding about a GCS that failed while the rest of the head lived on; nil if none did. Either it
// ended: nothing more is in its log, and the head's raylet says for a while that it cannot reach it. Or it stood still,
// see gcsStoodStill.
func (b *builder) gcsEnded() *finding {
	head := b.head()
	if head.Nil() {
		return nil
	}
	ended, _, _ := b.lastTime(b.logs.ofNode(head, "gcs_server.out"))
	if ended == 0 {
		return nil
	}
	raylet := b.logs.ofNode(head, "raylet.out")
	gone := slices.DeleteFunc(b.withoutGCS(raylet), func(m match) bool { return m.at < ended })
	last, from, to := b.lastTime(raylet)
	how, shown := "ended without notice", []Evidence(nil)
	if len(gone) >= 2 && last-gone[0].at >= silence { // heads that are ended in order say it once or twice
		ended = gone[0].at
		shown = []Evidence{b.lineEvidence(gone[0]), b.lineEvidence(gone[len(gone)-1])}
	} else {
		if ended = b.gcsStoodStill(head, ended, raylet); ended == 0 {
			return nil
		}
		how, shown = "stopped answering", []Evidence{b.evidence(raylet, from, to)}
	}
	f := b.findOrAdd(GCSDied, head.String())
	f.Title = fmt.Sprintf("The GCS on the head (%s) %s at %s", b.nodeName(head), how, b.clock(ended))
	said, crash := b.crashIn([]match{b.logs.ofNode(head, "gcs_server.err").whole(),
		b.logs.ofNode(head, "gcs_server.out").whole()})
	f.Title += encloseIfAny(": ", said, "")
	f.add(occurrence{at: ended, node: head, entity: b.nodeEntity(head), evidence: append([]Evidence{crash}, shown...)})
	b.showGCS(f)
	return f
}

// gcsStoodStill returns when the GCS stood still (Unix ns); 0 if it did not. lastLogged is the time of its last line.
//
// No process says that the GCS stands still. The autoscaler, which waits for its answers, has no more rounds, while the
// raylet beside them goes on. That alone is not enough: where the raylet was told to end, or the head was lost, the
// autoscaler may only have ended first, and a GCS that has nothing to do logs little. So one more sign is needed: the
// autoscaler logged something else long after its last round, the raylet went on for longer than a pod that ends, or a
// driver logged that it got no answer. Only an autoscaler with a rhythm tells anything: one whose last three rounds
// came soon after each other.
func (b *builder) gcsStoodStill(head rayid.Node, lastLogged int64, raylet *logText) (at int64) {
	monitor := b.logs.ofNode(head, "monitor.log")
	rounds := b.logs.matches(monitor, round())
	n := len(rounds)
	if b.running || b.lostNodes[head] != nil || n < 3 || rounds[n-1].at-rounds[n-3].at > threeRounds {
		return 0
	}
	last, _, _ := b.lastTime(raylet)
	if told := b.logs.matches(raylet, sigterm()); len(told) > 0 {
		last = told[0].at
	}
	answered := rounds[n-1].at
	at = max(lastLogged, answered)
	wentOn := lastLogged-answered > silence // the GCS still logged when the autoscaler had no more rounds
	if wentOn || last-at < standsStill {
		return 0
	}
	said, _, _ := b.lastTime(monitor)
	if said-answered >= standsStill || last-at >= longGrace || b.unansweredDriver(head, at) {
		return at
	}
	return 0
}

// unansweredDriver reports whether a driver on the head logged, after a time (Unix ns), that the GCS had not answered
// it.
func (b *builder) unansweredDriver(head rayid.Node, since int64) bool {
	for log := range b.logs.ofNodes(pathBegins("python-core-driver-")) {
		if log.file.Node == head && slices.ContainsFunc(b.logs.matches(log, noAnswer()),
			func(m match) bool { return m.at > since }) {
			return true
		}
	}
	return false
}

// showGCS adds the last lines that the GCS logged to the evidence.
func (b *builder) showGCS(f *finding) {
	for log := range b.logs.ofNodes(pathIs("gcs_server.err", "gcs_server.out")) {
		f.addEvidence(b.tailEvidence(log, gcsTail))
	}
}

// gcsLost matches the last line that a process of Ray prints when it cannot reach the GCS any more.
var gcsLost = lazyregexp.New(`(?m)^\[[^\n]* (Failed to connect to GCS within \d+ seconds)\. [^\n]*$\s*\z`)

// driverLostGCS adds the finding about a driver that ended because the GCS was gone, and reports whether the driver's
// log shows that. Such a job may never have got the status FAILED: the process that reports a job's end may have ended
// with the GCS.
func (b *builder) driverLostGCS(j *job, log *logText) (lost bool) {
	m := gcsLost().FindStringSubmatchIndex(log.text)
	if m == nil {
		return false
	}
	f := b.jobFinding(JobFailed, j, "Job %s failed because the cluster's GCS was gone: %s", j.name(),
		log.text[m[2]:m[3]])
	from, to := log.lineBounds(m[0])
	f.addEvidence(b.evidence(log, from, to))
	f.addEvidence(b.jobEvidence(j, ""))
	b.showGCS(f)
	b.linkGCS(f, j)
	return true
}

// linkGCS links a finding about a job's end to the finding about a GCS that had ended, or stood still, before that end.
// It reports whether it did.
func (b *builder) linkGCS(f *finding, j *job) (linked bool) {
	gcs := b.gcsFinding()
	if gcs == nil || j.End != 0 && gcs.last > j.End {
		return false
	}
	f.causedBy(gcs)
	gcs.addName("job " + j.name())
	return slices.Contains(f.because, gcs)
}
