package findings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
)

var (
	// clientGaveUp matches what clients of HTTP say of an answer that did not come in time.
	clientGaveUp = lazyregexp.New(`(?i)\btimed? ?out\b|^(?:Read|ServerTimeout|Server)?Timeout|\b(?:408|504)\b`)
	// lateAnswer matches exceptions of clients of any service that did not answer in time.
	lateAnswer = lazyregexp.New(`^\w*Timeout|(?i:\btimed out\b)`)
	// cutRequest matches a record of a replica about a request whose client, or Serve's proxy, gave up waiting
	// (access_log_msg in ray/serve/_private/logging_utils.py).
	cutRequest = lazyregexp.New(
		`(?m)INFO \S+ \S+ (\S{1,200}) \S{1,40} \S{1,100} -- (\S{1,20} [^\n]{1,200}) CANCELLED ([\d.]{1,20})ms$`)
)

// What says that an answer did not come, though nobody raised an exception about it.
var (
	// gotNoAnswer matches what programs say at their end that handled what their clients had raised.
	gotNoAnswer = lazyregexp.New(`(?i)\bno (?:answers?|repl(?:y|ies)|responses?|results?|predictions?)\b|` +
		`\bnothing (?:came|back)\b|\b(?:gave|giving) up\b|` +
		`\btimed? ?out\b|\bunanswered\b|(?:not|n't) (?:answer|respond|repl)\w*|` +
		`\b(?:gave|got|returned|received|brought) (?:nothing|none)\b|\bunresponsive\b`)
	// noQueueLength matches what a router of Serve logs of a replica that is too busy to say how many requests it has
	// (ray/serve/_private/request_router/request_router.py).
	noQueueLength = lazyregexp.New(`WARNING \S+ \S+ [^\n]{0,200}-- Failed to get queue length from ` +
		`Replica\(id='[^'\n]*', deployment='([^'\n]*)', app='([^'\n]*)'\) within ([\d.]{1,20})s`)
)

// requestCut returns, for the title of root, which request a replica of Serve had not answered when the job of end gave
// up waiting, as its client or in words of its own about answers that it did not get; "" if no replica's log tells of
// one. In the latter case also a replica counts that was too busy to say how many requests it has. Ray has no events of
// calls of Serve.
func (b *builder) requestCut(end, root *finding) string {
	ownWords := root == end && isGeneric(end.raised) && gotNoAnswer().MatchString(root.Title)
	if !ownWords && !clientGaveUp().MatchString(root.raised.String()) {
		return ""
	}
	cut := b.lastInLogs(end, root, cutRequest(), pathBegins("serve/replica_"), func(m match) string {
		took, _ := time.ParseDuration(m.groups[3] + "ms") // "0s" if it is no number
		return fmt.Sprintf("a replica of Serve, %s, had not answered %s for %s", m.groups[1], m.groups[2],
			took.Round(time.Second))
	})
	if cut != "" || !ownWords {
		return cut
	}
	isOfRouter := func(path string) bool {
		return strings.HasPrefix(path, "serve/") || path == moment.SubmissionLog(end.SubmissionID)
	}
	return b.lastInLogs(end, root, noQueueLength(), isOfRouter, func(m match) string {
		return fmt.Sprintf("a replica of deployment %s of application %s did not tell Serve within %s s how many requests it had",
			m.groups[1], m.groups[2], m.groups[3])
	})
}

// tooFewReplicas returns, for the title of root, which deployment of Serve waited in vain for more replicas when a
// client of a job got no answer in time; "" if none did. Ray's own timeouts are about tasks. If other jobs ran then,
// or a program's own words are not about an answer but about a lock, say, they must name the deployment or application.
func (b *builder) tooFewReplicas(end, root *finding) string {
	if root.raised.Type == "GetTimeoutError" || !clientGaveUp().MatchString(root.raised.String()) {
		return ""
	}
	own := sync.OnceValue(func() string { return b.driverLog(end.ended).ownLines() + root.raised.String() })
	ofClient := !root.raised.Own || root.raised.Message == "" || gotNoAnswer().MatchString(root.raised.Message)
	only, named := len(b.jobs) == 1, map[string]bool{} // by deployment and application
	for _, m := range slices.Backward(b.slowToGrow) {
		if m.at < end.ended.Start || m.at > end.last {
			continue
		}
		name, app := m.groups[2], m.groups[3]
		alone := ofClient && (only || end.ended.hasDriver(b.soleJobAt(m.at)))
		if _, known := named[name+"#"+app]; !alone && !known && len(named) < maxDeletions {
			named[name+"#"+app] = namesDeployment(own(), app, name)
		}
		if alone || named[name+"#"+app] {
			root.addEvidence(b.lineEvidence(m))
			return m.groups[1]
		}
	}
	return ""
}

// failedRequest has what matches Serve's record of a request that failed, with the exception below it, and then what
// matches any error of a replica. That may be about a request, too: an application for language models or the program's
// own handler logs it. Or the program got over it.
var failedRequest = []func() *regexp.Regexp{lazyregexp.New(errorOfReplica + `Request failed\.`), lazyregexp.New(errorOfReplica)}

const errorOfReplica = `(?m)^ERROR \S+ \S+ (\S{1,200}) [^\n]{1,300}?-- `

// requestFailed returns, for the title of root, what a replica of Serve had raised, as its log says, when the client of
// a job was told that the server had failed; "" if no replica's log tells of that.
func (b *builder) requestFailed(end, root *finding) string {
	if !serverError().MatchString(root.raised.Message) {
		return ""
	}
	raisedBy := func(m match) string {
		said, shown := b.logEntry(m)
		root.addEvidence(shown)
		return encloseIfAny("a replica of Serve, "+m.groups[1]+", raised ", output.ExceptionOf(said).String(), "")
	}
	for _, record := range failedRequest {
		if said := b.lastInLogs(end, root, record(), pathBegins("serve/replica_"), raisedBy); said != "" {
			return said
		}
	}
	return ""
}

// serviceGone matches exceptions of clients of a server that has gone, and of handles of a deployment that has.
var serviceGone = lazyregexp.New(`^(?:Remote(?:Disconnected|ProtocolError)|ServerDisconnectedError|MaxRetryError|URLError|` +
	`Connect(?:ion)?Timeout|DeploymentUnavailableError|ReplicaUnavailableError|RayServeException|` +
	`RequestCancelledError|Actor(?:Died|Unavailable)Error)\b|` +
	`^TimeoutError: Timed out resolving to ObjectRef\b|` + // of a handle whose request no replica took
	`(?i:\bHTTP error (?:404|503)\b|\b(?:404|503) (?:client|server) error\b|\b(?:client|server) error '(?:404|503))`)

const maxDeletions = 1000 // of applications, and deployments, that are compared with the log of one job

// applicationDeleted returns, for the title of root, that an application of Serve was deleted, also by shutting Serve
// down, shortly before a job ended; "" if none was that may explain the end. It may if the job's exception is one of a
// client or has words of the program's own, if the job's log names the application, and if another job, which may have
// deleted it, began or ended at that time. end is the finding about the job's end.
func (b *builder) applicationDeleted(end, root *finding) string {
	raised, j := end.raised.String(), end.ended
	if root != end || !isGeneric(end.raised) && !serviceGone().MatchString(raised) &&
		!connection().MatchString(raised) {
		return ""
	}
	own, compared := b.driverLog(j).ownLines(), 0
	return b.lastInLogs(end, root, appDeleted(), isOfController, func(m match) string {
		app, by := m.groups[1], b.busyWith(m.at, j)
		if by == nil || end.last-m.at > longBroken {
			return ""
		}
		if compared++; compared > maxDeletions || !namesApplication(own, app) {
			return ""
		}
		return fmt.Sprintf("Serve application %s was deleted, while job %s ran", output.Clip(app, output.MaxMessage),
			by.name())
	})
}

// busyWith returns a job, other than one, that ran at a time (Unix ns) and had begun shortly before it or ended shortly
// after it; nil if there is none.
func (b *builder) busyWith(at int64, but *job) *job {
	for i := range b.jobs {
		j := &b.jobs[i]
		ran := j.Start != 0 && j.Start <= at && (j.End == 0 || j.End >= at)
		if ran && j.name() != but.name() && (at-j.Start <= atTheEnd || j.End != 0 && j.End-at <= atTheEnd) {
			return j
		}
	}
	return nil
}

// lastInLogs returns what told says of the last line that an expression matches in some logs while the job of end ran,
// and adds the line to the evidence of root. Lines of which told says "" do not count; "" if no line does.
func (b *builder) lastInLogs(end, root *finding, line *regexp.Regexp, logs func(path string) bool,
	told func(match) string) (said string) {
	var last match
	for log := range b.logs.ofNodes(logs) {
		for _, m := range b.logs.matches(log, line) {
			if m.at < end.ended.Start || m.at > end.last || m.at <= last.at {
				continue
			}
			if how := told(m); how != "" {
				last, said = m, how
			}
		}
	}
	if said != "" {
		root.addEvidence(b.lineEvidence(last))
	}
	return said
}
