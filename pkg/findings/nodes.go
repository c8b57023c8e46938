package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// readNodes finds the nodes that died although nobody wanted it.
func (b *builder) readNodes() {
	var err error
	if b.nodes, err = b.moment.Nodes(b.ctx); b.stopOn(err) {
		return
	}
	for _, n := range b.nodes.All {
		id, err := rayid.Parse[rayid.Node](n.ID)
		if err != nil || !n.Lost() {
			continue
		}
		source := "snapshot"
		if n.Events != nil {
			source = "event"
		}
		text := cmp.Or(strings.TrimSpace(n.Reason+" "+n.Message), n.StateMessage)
		b.nodeDied(id, n.Reason, cmp.Or(output.FirstSentence(n.Message), output.FirstSentence(n.StateMessage)), n.End,
			Evidence{
				Source: source, NodeID: n.ID, Time: timestamp(n.End), Link: b.link("#/cluster/nodes/%s", n.ID),
				Text: fmt.Sprintf("node %s (%s) is dead: %s", b.nodeName(id), n.ID, text),
			})
	}
	b.readLoggedNodes()
}

// nodeLost returns the finding about the loss of a node, and adds it if there is none yet. Who calls it counts the
// loss.
func (b *builder) nodeLost(id rayid.Node) *finding {
	f := b.lostNodes[id]
	if f == nil {
		f = b.findOrAdd(NodeDied, id.String())
		f.Title = b.drainedTitle(id) + " died"
		if how, shown := b.rayletToldToEnd(id); how != "" {
			f.Title += ": its " + how
			f.addEvidence(shown)
		}
		if m, drained := b.drainLine(id); drained {
			f.addEvidence(b.lineEvidence(m))
		}
		f.addEntity(b.nodeEntity(id))
		b.lostNodes[id] = f
	}
	return f
}

// sigterm matches what a raylet logs when it is told to end (src/ray/raylet/main.cc).
var sigterm = lazyregexp.New(`received SIGTERM\b`)

// rayletToldToEnd returns how a sentence goes on ("raylet was told to end …") if the log of a node's raylet says so,
// and the line that does; "" if it does not.
func (b *builder) rayletToldToEnd(id rayid.Node) (how string, shown Evidence) {
	all := b.logs.matches(b.logs.ofNode(id, "raylet.out"), sigterm())
	if len(all) == 0 {
		return "", shown
	}
	return "raylet was told to end (SIGTERM) at " + b.clock(all[0].at), b.lineEvidence(all[0])
}

// toBeDrained matches the line in which the GCS says why a node shall be drained (gcs_autoscaler_state_manager.cc of
// Ray).
var toBeDrained = lazyregexp.New(` HandleDrainNode, reason: ([^\n]*?), deadline: [^\n]* node_id=([0-9a-f]{56})`)

// drainLine returns the last line in which the GCS says that a node shall be drained.
func (b *builder) drainLine(id rayid.Node) (last match, drained bool) {
	all := b.logs.about("gcs_server.out", toBeDrained(), 2, id.String())
	if len(all) == 0 {
		return last, false
	}
	return all[len(all)-1], true
}

// lostNodeIn returns the node that died and whose ID is in a text; nil if there is none.
func (b *builder) lostNodeIn(text string) (node rayid.Node) {
	isNoDigit := func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }
	for len(b.lostNodes) > 0 && len(text) >= 2*rayid.NodeSize {
		word := text[:2*rayid.NodeSize]
		if at := strings.LastIndexFunc(word, isNoDigit); at >= 0 {
			text = text[at+1:] // behind what is no digit, because no ID begins before it
			continue
		}
		if id, err := rayid.Parse[rayid.Node](word); err == nil && b.lostNodes[id] != nil {
			return id
		}
		text = text[1:]
	}
	return node
}

// loggedNodeEnd matches the line in which the GCS says why a node ended (gcs_node_manager.cc of Ray).
var loggedNodeEnd = lazyregexp.New(
	` death reason = (\w+), death message = ([^\n]*?) node_id=([0-9a-f]{56})`)

// readLoggedNodes finds nodes of whose death only the GCS's log tells. An agent on the node sends the events about it,
// so those about the end of the head's raylet may be lost with it.
func (b *builder) readLoggedNodes() {
	for _, m := range b.logs.inHeads("gcs_server.out", loggedNodeEnd()) {
		reason := m.groups[1]
		id, err := rayid.Parse[rayid.Node](m.groups[3])
		if err != nil || moment.WantedEnd(reason) || b.lostNodes[id] != nil {
			continue
		}
		b.nodeDied(id, reason, output.FirstSentence(m.groups[2]), m.at, b.lineEvidence(m))
	}
}

// nodeDied adds the death of a node. reason is Ray's (ray.rpc.NodeDeathInfo.Reason), said is what Ray says of it, at is
// its time (Unix ns), and evident shows it.
func (b *builder) nodeDied(id rayid.Node, reason, said string, at int64, evident Evidence) {
	f := b.nodeLost(id)
	f.Title = b.drainedTitle(id) + " died unexpectedly"
	if reason == "AUTOSCALER_DRAIN_PREEMPTED" {
		f.Title = b.nodeTitle(id) + " was preempted"
	}
	if said != "" {
		f.Title += ": " + said
	}
	f.add(occurrence{at: at, node: id, evidence: []Evidence{evident}})
	b.tellAgent(f, id, said)
	b.tellRaylet(f, id)
}

// tellRaylet adds to the finding about a node that died the error with which its raylet ended, as the raylet's logs
// tell: the raylet may have lived on until the head told it that it counts as dead.
func (b *builder) tellRaylet(f *finding, id rayid.Node) {
	ends := slices.Concat(b.logs.matches(b.logs.ofNode(id, "raylet.err"), rayletEnds()),
		b.logs.matches(b.logs.ofNode(id, "raylet.out"), rayletEnds()))
	for i := range ends { // what C++ says of the exception stands above the raylet's own line
		from := max(0, ends[i].from-maxTerminate)
		if above := terminateAbove().FindStringIndex(ends[i].log.text[from:ends[i].from]); above != nil {
			ends[i].from = from + above[0]
		}
	}
	if how, shown := b.crashIn(ends); how != "" && !strings.HasPrefix(how, "SIGTERM") {
		f.appendTitle("; its raylet ended with: " + how)
		f.addEvidence(shown)
	}
}

const maxTerminate = 2 << 10 // bytes before such a line in which its exception is looked for

var (
	// rayletEnds matches the lines in which a raylet says which error or signal ends it. Its logs also have such lines,
	// without its name, of workers that ended before they had logs of their own.
	rayletEnds = lazyregexp.New(`(?m)^\[[^\]\n]* (?:C \d+ \d+\] \(raylet\)|` +
		`E \d+ \d+\] \(raylet\) [^\n]*(?:\*\*\* SIG[A-Z]+ received| Unhandled exception: ))[^\n]*$`)
	// terminateAbove matches at a text's end what C++ prints of an exception that nothing caught.
	terminateAbove = lazyregexp.New(`terminate called after throwing an instance of [^\n]*\n(?:  what\(\): [^\n]*\n)?$`)
	// agentFailed matches what Ray says of a node whose raylet ended because an agent did, or did not answer
	// (agent_manager.cc and runtime_env_agent_client.cc of Ray).
	agentFailed = lazyregexp.New(
		`^(?:(\w+)\S* failed and raylet fate-shares|Raylet could not connect to Runtime Env Agent)`)
	// agentEnded matches the line in which a raylet says that an agent ended.
	agentEnded = lazyregexp.New(`(?m) Agent process with name (\S+) exited, exit code (-?\d+)\.$`)
)

// tellAgent adds to the finding about a node what ended the agent because of which the node died, if said, Ray's
// message about the node's death, names an agent: the exception that the agent's program did not catch, or else its
// exit code.
func (b *builder) tellAgent(f *finding, id rayid.Node, said string) {
	m := agentFailed().FindStringSubmatch(said)
	if m == nil {
		return
	}
	agent := cmp.Or(m[1], "runtime_env_agent")
	for _, suffix := range []string{".log", ".err"} {
		log := b.logs.ofNode(id, agent+suffix)
		if text, at := output.LastTraceback(log.text); at >= 0 && output.FromModule(text) {
			f.appendTitle(": " + output.Clip(output.ExceptionOf(text).String(), output.MaxTitle))
			f.addEvidence(b.evidence(log, at, len(log.text)))
			return
		}
	}
	for _, m := range b.logs.matches(b.logs.ofNode(id, "raylet.out"), agentEnded()) {
		if strings.HasPrefix(m.groups[1], agent) {
			f.appendTitle(": it ended with exit code " + m.groups[2])
			f.addEvidence(b.lineEvidence(m))
			return
		}
	}
}

// nodeTitle returns the name of a node, as the beginning of a title.
func (b *builder) nodeTitle(id rayid.Node) string {
	if n := b.nodes.ByID[id.String()]; n != nil && n.Head {
		return fmt.Sprintf("Node %s (the head)", b.nodeName(id))
	}
	return "Node " + b.nodeName(id)
}

// drainedTitle returns the beginning of a title about the death of a node: nodeTitle, or "Node 10.0.0.2 was to be
// drained (idle) and".
func (b *builder) drainedTitle(id rayid.Node) string {
	title := b.nodeTitle(id)
	if m, drained := b.drainLine(id); drained {
		title += " was to be drained"
		if reason := strings.TrimSuffix(output.FirstSentence(m.groups[1]), "."); reason != "" {
			title += " (" + reason + ")"
		}
		title += " and"
	}
	return title
}

// What happened to a pod, by the reason in Kubernetes' event (pkg/kubelet/events, pkg/scheduler and the taint manager
// of Kubernetes).
var (
	// podNotRunning holds reasons why a pod does not run. They do not count if the pod's containers were started later.
	podNotRunning = map[string]string{
		"Failed": podNotStarted, "BackOff": podNotStarted,
		"FailedScheduling": notPlaced, "PodUnschedulable": notPlaced, // the latter by YuniKorn
		"FailedMount":        "has a volume that could not be mounted",
		"FailedAttachVolume": "has a volume that could not be attached",
		"FailedMapVolume":    "has a volume that could not be mounted",
	}
	// stopsNoPod holds reasons of warnings that keep no pod from starting, as others do: it was not admitted, say.
	stopsNoPod = []string{"Unhealthy", "ProbeWarning", "DNSConfigForming", "MissingClusterDNS",
		"InvalidEnvironmentVariableNames", "FailedToRetrieveImagePullSecret", "FailedPreStopHook", "FailedKillPod",
		"ExceededGracePeriod", "PolicyViolation"} // the last one is Kyverno's, also if it only looks on
	// podEnded holds reasons why a running pod ended.
	podEnded = map[string]string{
		"Evicted": "was evicted", "Preempted": "was preempted", "Preempting": "was preempted",
		"EvictedByVPA": "was evicted", podKind + stoppedByQueue: "was ended", // by Kueue, without a cluster
		"TaintManagerEviction": "was evicted because of a taint of its node",
		"NodeNotReady":         "was on a machine that was lost", "OOMKilling": "ran out of memory",
		"OOMKilled": "ran out of memory", "ScaleDown": "was removed with its machine",
		"DeadlineExceeded": "was ended", deletedWorker: "was deleted by KubeRay",
		stoppedByQueue: endedWithCluster, deletedCluster: endedWithCluster, deletedPods: endedWithCluster,
	}
)

const (
	podKind          = "Pod"
	podNotStarted    = "could not be started"
	notPlaced        = "could not be scheduled"
	started          = "Started"
	killing          = "Killing"
	deletedWorker    = "DeletedWorkerPod"  // by KubeRay, as the two below: one, or those of a group of workers
	deletedPods      = "DeletedPod"        // all of the cluster, which is suspended or gets other pods
	deletedCluster   = "DeletedRayCluster" // for its RayJob: at a deadline, or because that ended
	stoppedByQueue   = "Stopped"           // by Kueue, which suspends what KubeRay then ends: to make room, say
	endedWithCluster = "was ended with its cluster"
	itsPod           = "; its pod " // how the title of a node goes on with what ended it
	maxName          = 253          // bytes; Kubernetes' own limit
)

// podFailure returns, for a title, what happened to the object of an event; "" if that is no failure. startedAt is when
// the containers of the object, a pod, were last started, or when the object, a cluster, last got a pod (Unix ns; 0 if
// not known). ofNode says that a node of Ray ran in the pod. keptOut says that a pod did not run, or could not be made.
func podFailure(e *moment.PlatformEvent, startedAt int64, ofNode bool) (how string, keptOut bool) {
	warns := e.Severity == "WARNING"
	switch {
	case e.ObjectKind != podKind && warns && strings.HasPrefix(e.Reason, "Failed"): // by KubeRay's operator
		return "reports " + e.Reason, strings.HasPrefix(e.Reason, "FailedToCreate") && e.Time > startedAt
	case e.ObjectKind != podKind:
		return "", false
	case e.Time > startedAt && podNotRunning[e.Reason] != "":
		return podNotRunning[e.Reason], true
	case podEnd(e) == "" && startedAt == 0 && !ofNode && warns && !slices.Contains(stopsNoPod, e.Reason):
		return podNotStarted, true
	}
	return podEnd(e), strings.HasPrefix(e.Message, "The node had condition: ") // so it was not admitted
}

// podEnd returns, for a title, how a running pod ended, as an event about it says; "" if the event says nothing of it.
func podEnd(e *moment.PlatformEvent) string {
	switch {
	case e.Reason == killing && strings.Contains(e.Message, " probe, "): // "failed liveness probe, will be restarted"
		return "was restarted"
	case strings.HasSuffix(e.Message, " node by sigs.k8s.io/descheduler"): // its reasons are names of its strategies
		return podEnded["Evicted"]
	}
	return cmp.Or(podEnded[e.ObjectKind+e.Reason], podEnded[e.Reason])
}

var (
	// deletedByKubeRay matches which pod KubeRay deleted, or the pods of which group (raycluster_controller.go).
	deletedByKubeRay = lazyregexp.New(`[Pp]od [^\s/]+/([^\s;,]+)|suspended worker group (\S+)`)
	// containerEnd matches how the container of such a pod had ended, as Go prints it.
	containerEnd = lazyregexp.New(`&ContainerStateTerminated\{ExitCode:(-?\d+),Signal:\d+,Reason:((?:\w+,)?).*`)
)

// endsCluster reports whether an event says that the session's cluster was ended.
func (b *builder) endsCluster(e *moment.PlatformEvent) bool {
	which := strings.TrimSuffix(e.Message, " during suspend")
	return e.ObjectKind != podKind && (e.Reason == stoppedByQueue || e.Reason == deletedPods ||
		e.Reason == deletedCluster && strings.HasSuffix(which, "/"+b.session.Ref.Cluster))
}

// nodesEndedBy returns, of the findings about nodes that died, by the names of their pods, those whose pods an event is
// about. What ends a cluster, or a group of workers, counts for nodes that died within a minute after it: pods are the
// names in the order in which the nodes died.
func (b *builder) nodesEndedBy(e *moment.PlatformEvent, lost map[string]*finding, pods []string) (nodes []*finding) {
	name, prefix, ofAll := e.ObjectName, b.session.Ref.Cluster+"-", b.endsCluster(e) // of a pod, or of all pods
	if m := deletedByKubeRay().FindStringSubmatch(e.Message); e.Reason == deletedWorker && m != nil {
		name, prefix, ofAll = m[1], prefix+m[2]+"-worker-", m[2] != ""
	}
	if !ofAll {
		if f := lost[name]; f != nil {
			nodes = append(nodes, f)
		}
		return nodes
	}
	later, _ := slices.BinarySearchFunc(pods, e.Time, func(pod string, at int64) int {
		return cmp.Compare(lost[pod].first, at)
	})
	for _, pod := range pods[later:] {
		switch f := lost[pod]; {
		case !f.beganSoonAfter(e):
			return nodes
		case strings.HasPrefix(pod, prefix):
			nodes = append(nodes, f)
		}
	}
	return nodes
}

// beganSoonAfter reports whether what a finding is about came within a minute after an event.
func (f *finding) beganSoonAfter(e *moment.PlatformEvent) bool {
	return f.first >= e.Time && f.first-e.Time <= nodeNoticedLate
}

// readPods finds pods that did not run or that ended, in the events of Kubernetes. If the pod was that of a node that
// died, what ended it becomes evidence of the finding about the node.
func (b *builder) readPods() {
	events, err := b.moment.PlatformEvents(b.ctx)
	if b.stopOn(err) {
		return
	}
	startedAt := map[string]int64{} // by the name of the pod, or of the cluster that got one
	for i := range events {
		e := &events[i]
		for _, name := range []*string{&e.ObjectKind, &e.ObjectName, &e.Reason} {
			*name = output.Clip(*name, maxName) // the list is our own copy
		}
		if e.Reason == started && e.ObjectKind == podKind || e.Reason == "CreatedWorkerPod" {
			startedAt[e.ObjectName] = max(startedAt[e.ObjectName], e.Time)
		}
	}
	lost := map[string]*finding{} // by the names of their pods, which are those of their hosts; nil for nodes that live
	head, headPod := b.head(), ""
	for _, node := range b.nodes.All {
		if id, err := rayid.Parse[rayid.Node](node.ID); err == nil && node.Hostname != "" {
			if lost[node.Hostname] = cmp.Or(b.lostNodes[id], lost[node.Hostname]); id == head {
				headPod = node.Hostname
			}
		}
	}
	pods := slices.DeleteFunc(slices.Sorted(maps.Keys(lost)), func(pod string) bool { return lost[pod] == nil })
	slices.SortStableFunc(pods, func(x, y string) int { return cmp.Compare(lost[x].first, lost[y].first) })
	var toldToEnd []*finding // drivers, which go with the pod of the head
	for _, f := range b.findings {
		if f.Kind == DriverKilled && strings.Contains(f.Title, " SIGTERM ") {
			toldToEnd = append(toldToEnd, f)
		}
	}
	for i := len(events) - 1; i >= 0; i-- { // the oldest first
		e := &events[i]
		message := output.Clip(e.Message, output.MaxText)
		evident := Evidence{
			Source: "event", Time: timestamp(e.Time), Text: fmt.Sprintf("%s %s: %s: %s", e.ObjectKind, e.ObjectName,
				e.Reason, message), Link: b.link("#/platform-events"),
		}
		how, said := podEnd(e), output.FirstSentence(containerEnd().ReplaceAllString(message, "$2 exit code $1"))
		if how != "" || e.Reason == killing {
			nodes := b.nodesEndedBy(e, lost, pods)
			for _, driver := range toldToEnd {
				if b.endsCluster(e) && driver.beganSoonAfter(e) {
					nodes = append(nodes, driver)
				}
			}
			for _, node := range nodes {
				node.addEvidence(evident)
				early := node.first-e.Time > int64(lookBack)
				if how != "" && !early && !strings.Contains(node.Title, itsPod) {
					// a message may begin with the same: "was evicted: Pod was evicted by …"
					node.appendTitle(strings.Replace(itsPod+how+": "+said, how+": "+podKind+" "+how, how, 1))
				}
			}
			if len(nodes) > 0 && e.ObjectKind == podKind {
				continue
			}
		}
		switch {
		case e.ObjectKind == podKind && how != "" && e.ObjectName == headPod &&
			b.sessionEnd()-e.Time <= int64(lookBack):
			b.clusterDeleted = evident
		case e.ObjectKind == podKind:
		case e.Reason == started: // again, by Kueue
			b.clusterDeleted = Evidence{}
		case e.Reason == stoppedByQueue, b.endsCluster(e) && b.clusterDeleted.Text == "": // the first one says why
			b.clusterDeleted = evident
		}
		_, ofNode := lost[e.ObjectName]
		failure, keptOut := podFailure(e, startedAt[e.ObjectName], ofNode)
		if failure == "" {
			continue
		}
		// Of a long error of Go that many layers passed on, the last ones say why.
		layers := strings.Split(message, ": ")
		if n := len(layers); failure == podNotStarted && len(message) > 2*output.MaxTitle/3 && n > 3 {
			said = layers[0] + ": … " + strings.Join(layers[n-2:], ": ")
		}
		f := b.findOrAdd(Pod, failure+output.Normalised(said))
		// the cluster lacked the pod's resources, but no event says whether a job failed because of that
		f.Severity, f.keptOut = Warning, f.keptOut || keptOut
		f.addName(e.ObjectName)
		f.Title = fmt.Sprintf("%s %s %s: %s", e.ObjectKind, listNames(f.names), failure, said)
		entity := Entity{Type: strings.ToLower(e.ObjectKind), ID: e.ObjectName, Name: e.ObjectName, Link: evident.Link}
		f.add(occurrence{at: e.Time, entity: entity, evidence: []Evidence{evident}})
	}
	b.tellMissingNodes()
}
