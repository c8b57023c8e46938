package findings

import (
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// deletion is an application of Serve that somebody deleted, also by shutting Serve down.
type deletion struct {
	app   string
	at    int64 // Unix ns
	shown Evidence
}

const maxDeletions = 1000 // that one report looks at

// applicationsDeleted remembers which applications the controller's log says were deleted.
func (c *controllerLog) applicationsDeleted() {
	b := c.b
	for _, m := range b.matches(c.log, appDeleted()) {
		if len(b.deletions) < maxDeletions {
			b.deletions = append(b.deletions, deletion{m.groups[1], m.at, b.lineEvidence(m)})
		}
	}
}

// serviceGone matches exceptions of clients of a server that has gone, and of handles of a deployment that has.
var serviceGone = lazyregexp.New(`^(?:Remote(?:Disconnected|ProtocolError)|ServerDisconnectedError|MaxRetryError|URLError|` +
	`Connect(?:ion)?Timeout|DeploymentUnavailableError|ReplicaUnavailableError|RayServeException|RequestCancelledError|Actor(?:Died|Unavailable)Error)\b|` +
	`(?i:\bHTTP error (?:404|503)\b|\b(?:404|503) (?:client|server) error\b|\b(?:client|server) error '(?:404|503))`)

// applicationDeleted returns, for the title of root, that an application of Serve was deleted shortly before a job
// ended; "" if none was that may explain the end. It may if the job's exception is one of a client or has words of the
// program's own, if the job's log names the application, and if another job, which may have deleted it, began or ended
// at that time. end is the finding about the job's end.
func (b *builder) applicationDeleted(end, root *finding) (how string) {
	raised := end.raised.String()
	if root != end || !genericType().MatchString(end.raised.Type) && !serviceGone().MatchString(raised) &&
		!connection().MatchString(raised) {
		return ""
	}
	j := b.jobOfEnd(end)
	if j == nil || len(b.deletions) == 0 {
		return ""
	}
	log := b.driverLog(j)
	if log == nil {
		return ""
	}
	own := output.OwnLines(log.text)
	for i := range b.deletions {
		d := &b.deletions[i]
		if d.at < j.Start || d.at > j.End || j.End-d.at > longBroken || !d.namedIn(own) {
			continue
		}
		if by := b.busyWith(d.at, j); by != nil {
			how = fmt.Sprintf("Serve application %s was deleted, while job %s ran",
				output.Clip(d.app, output.MaxMessage), by.name())
			root.addEvidence(d.shown)
		}
	}
	return how
}

// namedIn reports whether a text names the application as Serve does, or in the path of an address.
func (d *deletion) namedIn(text string) bool {
	if strings.Contains(text, "pplication '"+d.app+"'") || strings.Contains(text, "app='"+d.app+"'") {
		return true
	}
	for word := range strings.FieldsSeq(text) {
		_, address, found := strings.Cut(word, "://")
		if found && strings.Contains(strings.TrimRight(address, ".,;:'\")]")+"/", "/"+d.app+"/") {
			return true
		}
	}
	return false
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
