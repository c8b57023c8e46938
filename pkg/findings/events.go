package findings

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const maxEvents = 20_000 // lines of event logs that one report reads

// aboutThen is the longest time between a failure and the line of an event log about it (ns). The log's times are in seconds.
const aboutThen = 5e9

var noNodeType = lazyregexp.New(`(?i)no available node types? can fulfill|cannot be scheduled|infeasible`)

// readEvents reads what Ray's own event logs say about memory that ran out, lost nodes, and demands that no node type can fulfil.
func (b *builder) readEvents() {
	lines := 0
	for _, file := range b.nodeFiles(60, func(path string) bool { return slices.Contains(eventLogs, path) }) {
		log := b.read(file)
		for at := 0; at < len(log.text); {
			from, to := log.line(at)
			at = to + 1
			if lines++; lines > maxEvents {
				return
			}
			event, err := pyjson.ParseObject([]byte(log.text[from:to]))
			if err != nil {
				continue
			}
			if happened := event.Int("timestamp") * int64(time.Second); happened <= b.end {
				b.addEvent(event, happened, log, from, to)
			}
		}
	}
}

var eventLogs = []string{"events/event_GCS.log", "events/event_RAYLET.log", "events/event_AUTOSCALER.log"}

func (b *builder) addEvent(event *pyjson.Object, at int64, log *logText, from, to int) {
	fields := event.Object("custom_fields")
	evident := b.evidence(log, from, to)
	evident.Time, evident.Text = stamp(at), strings.ReplaceAll(event.String("message"), `\n`, "\n") // Ray escapes line ends twice
	node, _ := rayid.Parse[rayid.Node](fields.String("node_id"))                                    // nil if it is not known
	message := event.String("message")
	switch label := event.String("label"); {
	case label == "Out of Memory" || strings.Contains(message, "running low on memory"):
		for _, f := range b.all {
			if f.Kind == OutOfMemory && (f.first == 0 || at >= f.first-aboutThen && at <= f.last+aboutThen) {
				f.addEvidence(evident)
			}
		}
		if !b.has(OutOfMemory) {
			f := b.find(OutOfMemory, "node")
			// It is counted as recovered: no task and no actor failed because of it.
			f.add(occurrence{at: at, recovered: true, node: node, name: "A worker", entity: b.nodeEntity(node), evidence: []Evidence{evident}})
		}
	case label == "RAY_NODE_REMOVED" && b.lost[node] != nil:
		b.lost[node].addEvidence(evident)
	case noNodeType().MatchString(message):
		b.refused = append(b.refused, refusal{demandIn(message), at, evident})
	}
}

// refusal is what the autoscaler said about a demand that no node type can fulfil.
type refusal struct {
	demand  string // in the form of resourceText
	at      int64
	evident Evidence
}

// amount matches one resource of a demand as Python prints it, such as {'CPU': 1.0, 'GPU': 8.0}.
var amount = lazyregexp.New(`'([^']{1,200})': ([0-9.]{1,20})`)

func demandIn(message string) string { return resourceText(resourcesIn(message)) }

// resourcesIn reads resources as Python prints them.
func resourcesIn(message string) map[string]float64 {
	demand := map[string]float64{}
	for _, m := range amount().FindAllStringSubmatch(output.Clip(message, output.MaxText), -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil {
			demand[m[1]] = n
		}
	}
	return demand
}

// readRefusals adds each refusal to the evidence of the findings about the same demand. If there is no such finding, the refusal becomes a
// finding of its own.
func (b *builder) readRefusals() {
	for _, said := range b.refused {
		known := false
		for _, f := range b.all {
			if f.demand == said.demand {
				f.addEvidence(said.evident)
				known = true
			}
		}
		if known {
			continue
		}
		f := b.find(Unschedulable, "autoscaler"+said.demand)
		f.Title = output.Clip("The autoscaler could not provide what was asked for: "+output.FirstSentence(said.evident.Text), output.MaxTitle)
		f.count(said.at, false)
		f.Severity = Warning
		f.addEvidence(said.evident)
	}
}

func (b *builder) has(kind string) bool {
	return slices.ContainsFunc(b.all, func(f *finding) bool { return f.Kind == kind })
}
