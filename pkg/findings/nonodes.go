package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// nodesRefused matches the records in which the autoscaler says that it got no node, or could not do its work
// (node_launcher.py and autoscaler.py of ray/autoscaler/_private, and autoscaler.py, KubeRay's cloud_provider.py,
// instance_manager.py and reconciler.py of ray/autoscaler/v2).
var nodesRefused = lazyregexp.New(
	`(?m)^[^\n]*\s(?:ERROR (?:node_launcher\.py:\d+ -- NodeLauncher\d+: |autoscaler\.py:\d+ -- (?:StandardAutoscaler: )?|` +
		`cloud_provider\.py:\d+ -- Error launching nodes: )|` +
		`INFO instance_manager\.py:\d+ -- Update instance REQUESTED->QUEUED |` +
		`WARNING reconciler\.py:\d+ -- Instance \S+\((?:QUEUED|RAY_INSTALL_FAILED)\) is stuck in )`)

// tellMissingNodes adds to the titles of what no node could take why no further node came while it waited.
func (b *builder) tellMissingNodes() {
	for _, f := range b.findings {
		if f.Kind != Unschedulable && f.Kind != Starved || f.demand == "" || f.intended || len(f.because) > 0 {
			continue
		}
		if why, shown := b.whyNoNodeCame(f); why != "" {
			f.appendTitle("; " + output.Clip(why, output.MaxTitle))
			f.addEvidence(shown)
		}
	}
}

// whyNoNodeCame returns the last error of the autoscaler while what a finding is about waited, or else the first pod
// that did not run then, and what shows it; "" if there is none. Of a pod that at first was not scheduled it returns
// what came later, or what a provisioner of machines said. It waited until its job's end at the latest.
func (b *builder) whyNoNodeCame(f *finding) (why string, shown Evidence) {
	until := b.end
	if j := b.jobOfID(f.job); j != nil && j.End != 0 {
		until = j.End
	}
	for _, m := range slices.Backward(b.logs.inHeads(autoscalerLog, nodesRefused())) {
		if m.at >= f.first && m.at-noticedLate <= until {
			said, shown := b.logEntry(m)
			return "the autoscaler got no node: " +
				cmp.Or(output.ExceptionOf(said).String(), output.FirstSentence(said)), shown
		}
	}
	var first *finding
	waited := func(pod *finding) bool { return strings.HasPrefix(pod.key, Pod+"\x00"+notPlaced) }
	counted := func(pod *finding) bool { return strings.Contains(pod.Title, " nodes are available") }
	for _, pod := range b.findings {
		if !pod.keptOut || pod.last < f.first-int64(lookBack) || pod.first-noticedLate > until {
			continue
		}
		isFirst := func(name string) bool { return slices.Contains(first.names, name) }
		if first == nil || (waited(first) && !waited(pod) || counted(first) && !counted(pod)) &&
			slices.ContainsFunc(pod.names, isFirst) {
			first = pod
		}
	}
	if first == nil {
		return "", shown
	}
	return first.Title, first.Evidence[0]
}
