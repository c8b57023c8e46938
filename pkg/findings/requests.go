package findings

import (
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

var (
	// clientGaveUp matches what clients of HTTP say of an answer that did not come in time.
	clientGaveUp = lazyregexp.New(`(?i)\btimed? ?out\b|^(?:Read|ServerTimeout|Server)?Timeout|\b(?:408|504)\b`)
	// cutRequest matches a record of a replica about a request whose client, or Serve's proxy, gave up waiting
	// (access_log_msg in ray/serve/_private/logging_utils.py).
	cutRequest = lazyregexp.New(
		`(?m)INFO \S+ \S+ (\S{1,200}) \S{1,40} \S{1,100} -- (\S{1,20} [^\n]{1,200}) CANCELLED ([\d.]{1,20})ms$`)
)

// requestCut returns, for the title of root, which request a replica of Serve had not answered when the job of end gave
// up waiting; "" if no replica's log tells of one. Ray has no events of calls of Serve.
func (b *builder) requestCut(end, root *finding) string {
	j := b.jobOfEnd(end)
	if j == nil || !clientGaveUp().MatchString(root.raised.String()) {
		return ""
	}
	var last match
	for log := range b.logsOfNodes(maxReplicaLogs, pathBegins("serve/replica_")) {
		for _, m := range b.matches(log, cutRequest()) {
			if m.at >= j.Start && m.at <= end.last && m.at > last.at {
				last = m
			}
		}
	}
	if last.at == 0 {
		return ""
	}
	root.addEvidence(b.lineEvidence(last))
	took, _ := time.ParseDuration(last.groups[3] + "ms") // "0s" if it is no number
	return fmt.Sprintf("a replica of Serve, %s, had not answered %s for %s", last.groups[1], last.groups[2],
		took.Round(time.Second))
}
