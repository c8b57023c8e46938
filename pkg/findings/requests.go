package findings

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/moment"
)

var (
	// clientGaveUp matches what clients of HTTP say of an answer that did not come in time.
	clientGaveUp = lazyregexp.New(`(?i)\btimed? ?out\b|^(?:Read|ServerTimeout|Server)?Timeout|\b(?:408|504)\b`)
	// cutRequest matches a record of a replica about a request whose client, or Serve's proxy, gave up waiting
	// (access_log_msg in ray/serve/_private/logging_utils.py).
	cutRequest = lazyregexp.New(
		`(?m)INFO \S+ \S+ (\S{1,200}) \S{1,40} \S{1,100} -- (\S{1,20} [^\n]{1,200}) CANCELLED ([\d.]{1,20})ms$`)
)

// What says that an answer did not come, though nobody raised an exception about it.
var (
	// gotNoAnswer matches what programs say at their end that handled what their clients had raised.
	gotNoAnswer = lazyregexp.New(`(?i)\bno (?:answers?|repl(?:y|ies)|responses?|results?|predictions?)\b|\bnothing (?:came|back)\b|\b(?:gave|giving) up\b|` +
		`\btimed? ?out\b|\bunanswered\b|(?:not|n't) (?:answer|respond|repl)\w*|\b(?:gave|got|returned|received|brought) (?:nothing|none)\b|\bunresponsive\b`)
	// noQueueLength matches what a router of Serve logs of a replica that is too busy to say how many requests it has
	// (ray/serve/_private/request_router/request_router.py).
	noQueueLength = lazyregexp.New(`WARNING \S+ \S+ [^\n]{0,200}-- Failed to get queue length from ` +
		`Replica\(id='[^'\n]*', deployment='([^'\n]*)', app='([^'\n]*)'\) within ([\d.]{1,20})s`)
)

// requestCut returns, for the title of root, which request a replica of Serve had not answered when the job of end gave
// up waiting; "" if no replica's log tells of one. Ray has no events of calls of Serve.
func (b *builder) requestCut(end, root *finding) string {
	if !clientGaveUp().MatchString(root.raised.String()) {
		return ""
	}
	return b.lastUnanswered(end, root, cutRequest(), pathBegins("serve/replica_"), func(m match) string {
		took, _ := time.ParseDuration(m.groups[3] + "ms") // "0s" if it is no number
		return fmt.Sprintf("a replica of Serve, %s, had not answered %s for %s", m.groups[1], m.groups[2],
			took.Round(time.Second))
	})
}

// requestLost is requestCut for a job that ended with words of its own about answers that it did not get, whatever it
// was told: then also a replica counts that was too busy to say how many requests it has.
func (b *builder) requestLost(end, root *finding) string {
	if root != end || !genericType().MatchString(end.raised.Type) || !gotNoAnswer().MatchString(root.Title) {
		return ""
	}
	cut := b.lastUnanswered(end, root, cutRequest(), pathBegins("serve/replica_"), func(m match) string {
		return fmt.Sprintf("a replica of Serve, %s, had not answered %s", m.groups[1], m.groups[2])
	})
	isOfRouter := func(path string) bool {
		return strings.HasPrefix(path, "serve/") || path == moment.SubmissionLog(end.SubmissionID)
	}
	return cmp.Or(cut, b.lastUnanswered(end, root, noQueueLength(), isOfRouter, func(m match) string {
		return fmt.Sprintf("a replica of deployment %s of application %s did not tell Serve within %s s how many requests it had",
			m.groups[1], m.groups[2], m.groups[3])
	}))
}

// lastUnanswered returns what told says of the last line that an expression matches in some logs while the job of end
// ran, and adds the line to the evidence of root; "" if there is none.
func (b *builder) lastUnanswered(end, root *finding, line *regexp.Regexp, logs func(path string) bool,
	told func(match) string) string {
	j := b.jobOfEnd(end)
	if j == nil {
		return ""
	}
	var last match
	for log := range b.logsOfNodes(maxReplicaLogs, logs) {
		for _, m := range b.matches(log, line) {
			if m.at >= j.Start && m.at <= end.last && m.at > last.at {
				last = m
			}
		}
	}
	if last.at == 0 {
		return ""
	}
	root.addEvidence(b.lineEvidence(last))
	return told(last)
}
