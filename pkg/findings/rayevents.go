package findings

import (
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const maxEventLines = 20_000 // lines of event logs that one report reads

// aboutThen is the longest time between a failure and the line of an event log about it (ns). The log's times are in
// seconds.
const aboutThen = 5e9

// noNodeType matches what is said of a demand that no type of node can fulfil.
var noNodeType = lazyregexp.New(`(?i)no available node types? can fulfill|cannot be scheduled|infeasible`)

var eventLogs = []string{"events/event_GCS.log", "events/event_RAYLET.log", "events/event_AUTOSCALER.log"}

// readEvents reads what Ray's own event logs say about memory that ran out, lost nodes, and demands that no node type
// can fulfil. They are evidence of findings that are there already, or findings of their own.
func (b *builder) readEvents() {
	lines := 0
	for log := range b.logs.ofNodes(pathIs(eventLogs...)) {
		for offset := 0; offset < len(log.text); {
			from, to := log.lineBounds(offset)
			offset = to + 1
			if lines++; lines > maxEventLines {
				return
			}
			event, err := pyjson.ParseObject([]byte(log.text[from:to]))
			if err != nil {
				continue
			}
			if happened := moment.TimeIn(event, "timestamp", time.Second); happened <= b.end {
				b.addEvent(event, happened, log, from, to)
			}
		}
	}
}

// addEvent takes one event of an event log into account. at is its time (Unix ns), and log.text[from:to] is its line.
// Events of memory that ran out lead to findings, those of lost nodes are evidence for the findings of these, which
// have been found before, and refused demands are collected (addRefusal). Others say nothing about a failure.
func (b *builder) addEvent(event *pyjson.Object, at int64, log *logText, from, to int) {
	fields := event.Object("custom_fields")
	message := event.String("message")
	evidence := b.evidence(log, from, to)
	evidence.Time, evidence.Text = timestamp(at), strings.ReplaceAll(message, `\n`, "\n") // Ray escapes line ends twice
	node, _ := rayid.Parse[rayid.Node](fields.String("node_id"))                          // zero if it is not known
	switch label := event.String("label"); {
	case label == "Out of Memory":
		b.addMemoryEvent(evidence, at, node)
	case label == "RAY_NODE_REMOVED" && b.lostNodes[node] != nil:
		b.lostNodes[node].addEvidence(evidence)
	case noNodeType().MatchString(message): // by the autoscaler or a raylet, under different labels
		b.addRefusal(evidence, at, resourceText(resourcesIn(message)))
	}
}

// addMemoryEvent adds an event about a node that ran out of memory to the findings about that, if they are of the same
// time (at, Unix ns). If there is none, the event becomes a finding of its own.
func (b *builder) addMemoryEvent(evidence Evidence, at int64, node rayid.Node) {
	added := false
	for _, f := range b.findings {
		timeKnown := f.first != 0
		if f.Kind == OutOfMemory && (!timeKnown || at >= f.first-aboutThen && at <= f.last+aboutThen) {
			f.addEvidence(evidence)
			added = true
		}
	}
	if !added {
		// It is counted as recovered: no task and no actor failed because of it.
		b.findOrAdd(OutOfMemory, "node").add(occurrence{
			at: at, recovered: true, node: node, name: "A worker", entity: b.nodeEntity(node),
			evidence: []Evidence{evidence},
		})
	}
}
