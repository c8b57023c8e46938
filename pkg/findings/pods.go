package findings

import (
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// What happened to a pod, by the reason in Kubernetes' event (pkg/kubelet/events, pkg/scheduler and the taint manager of Kubernetes).
var (
	// podNotRunning holds reasons why a pod does not run. They do not count if the pod's containers were started later.
	podNotRunning = map[string]string{
		"FailedScheduling": "could not be scheduled", "Failed": "could not be started", "BackOff": "could not be started",
		"ErrImageNeverPull": "could not be started", "InspectFailed": "could not be started", "FailedCreatePodSandBox": "could not be started",
		"FailedPostStartHook": "could not be started", "FailedCreatePodContainer": "could not be started", "UnexpectedAdmissionError": "could not be started", "FailedMount": "has a volume that could not be mounted",
		"FailedAttachVolume": "has a volume that could not be attached", "FailedMapVolume": "has a volume that could not be mounted",
	}
	// podEnded holds reasons why a running pod ended.
	podEnded = map[string]string{
		"Evicted": "was evicted", "Preempted": "was preempted", "Preempting": "was preempted", "TaintManagerEviction": "was evicted because of a taint of its node",
		"NodeNotReady": "was on a machine that was lost", "OOMKilling": "ran out of memory", "OOMKilled": "ran out of memory",
	}
)

const (
	podKind = "Pod"
	started = "Started"
	killing = "Killing"
	maxName = 253 // bytes; Kubernetes' own limit
)

// podFailure returns a text that says what happened to an event's object; "" if that is no failure. startedAt is when the containers of the object,
// a pod, were last started.
func podFailure(e *moment.PlatformEvent, startedAt int64) string {
	switch {
	case e.ObjectKind != podKind && e.Severity == "WARNING" && strings.HasPrefix(e.Reason, "Failed"):
		return "reports " + e.Reason // an event of KubeRay's operator about a cluster, a job or a service
	case e.ObjectKind != podKind:
		return ""
	case e.Time > startedAt && podNotRunning[e.Reason] != "":
		return podNotRunning[e.Reason]
	}
	return podEnded[e.Reason]
}

// readPods finds pods that did not run or that ended, in the events of Kubernetes. What ended the pod of a node that died becomes evidence of the
// finding about the node.
func (b *builder) readPods() {
	events, err := b.r.PlatformEvents(b.ctx)
	if b.fail(err) {
		return
	}
	startedAt := map[string]int64{} // by the pod's name
	for i := range events {
		e := &events[i]
		for _, name := range []*string{&e.ObjectKind, &e.ObjectName, &e.Reason} {
			*name = output.Clip(*name, maxName)
		}
		if e.Reason == started && e.ObjectKind == podKind {
			startedAt[e.ObjectName] = max(startedAt[e.ObjectName], e.Time)
		}
	}
	lost := b.lostPods()
	for i := len(events) - 1; i >= 0; i-- { // the oldest first
		e := &events[i]
		message := output.Clip(e.Message, output.MaxText)
		evident := Evidence{
			Source: "event", Time: stamp(e.Time), Text: fmt.Sprintf("%s %s: %s: %s", e.ObjectKind, e.ObjectName, e.Reason, message), Link: b.link("#/platform-events"),
		}
		if node := lost[e.ObjectName]; node != nil && e.ObjectKind == podKind && (podEnded[e.Reason] != "" || e.Reason == killing) {
			node.addEvidence(evident)
			continue
		}
		what := podFailure(e, startedAt[e.ObjectName])
		if what == "" {
			continue
		}
		said := output.FirstSentence(message)
		f := b.find(Pod, what+output.Normalised(said))
		f.Severity = Warning // the cluster lacked the pod's resources, but no event says whether a job failed because of that
		f.addName(e.ObjectName)
		f.Title = fmt.Sprintf("%s %s %s: %s", e.ObjectKind, quoted(f.names), what, said)
		entity := Entity{Type: strings.ToLower(e.ObjectKind), ID: e.ObjectName, Name: e.ObjectName, Link: evident.Link}
		f.add(occurrence{at: e.Time, entity: entity, evidence: []Evidence{evident}})
	}
}

// lostPods returns the findings about nodes that died, by the names of their pods. A pod's name is the name of its node's host.
func (b *builder) lostPods() map[string]*finding {
	pods := map[string]*finding{}
	for _, node := range b.nodes.All {
		if id, err := rayid.Parse[rayid.Node](node.ID); err == nil && b.lost[id] != nil {
			pods[node.Hostname] = b.lost[id]
		}
	}
	delete(pods, "")
	return pods
}
