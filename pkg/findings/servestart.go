package findings

import (
	"fmt"
	"math"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// replicaSlow matches what Serve's controller logs about replicas that take long to start (ray/serve/_private/deployment_state.py).
var replicaSlow = lazyregexp.New(`(?m)^WARNING (\S+ \S+) controller \d+ -- (Deployment '([^']*)' in application '([^']*)' has \d+ replicas? that ha(?:s|ve) taken more than [^\n]*)`)

// replicasSlow finds deployments whose replicas had not started when the session ended: the controller's log says that they take long, and no later
// line that they are healthy.
func (b *builder) replicasSlow(log *logText, broken deployments) {
	for _, m := range replicaSlow().FindAllStringSubmatchIndex(log.text, -1) {
		at := b.timeOf(log.text[m[2]:m[3]])
		deployment, app := log.text[m[6]:m[7]], log.text[m[8]:m[9]]
		if at > b.end || recovered(log.text[m[1]:], deployment) || broken.before(deployment, math.MaxInt64) != nil {
			continue
		}
		end := paragraphEnd(log, m[1])
		b.notStarted(app, deployment, log.text[m[4]:end], at, b.evidence(log, m[0], end))
	}
}

// stillStarting ends the keys of findings about deployments that were still starting.
const stillStarting = "starting"

// notStarted adds the finding about a deployment that was still starting when the session ended. message is what Serve said about it.
func (b *builder) notStarted(app, deployment, message string, at int64, e Evidence) {
	f := b.find(Serve, app+"#"+deployment+stillStarting)
	how := "had not started when the session ended"
	if b.running || b.r.At != 0 {
		how = "has not started"
	}
	f.Title = fmt.Sprintf("Deployment %s of application %s %s: %s", deployment, app, how, startReason(message))
	f.ofDeployment(b, app, deployment)
	if f.Count == 0 {
		f.happened(at, false)
	}
	f.last = max(f.last, at)
	e.Time = stamp(at)
	f.show(e)
	if b.running || b.r.At != 0 {
		f.Severity = Warning
	}
}

// startReason returns what Serve's message says about replicas, without the deployment's name.
func startReason(message string) string {
	message = output.FirstSentence(message)
	if _, after, found := strings.Cut(message, "' has "); found {
		return after
	}
	return message
}
