package findings

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// controllerLine returns an expression for a line of Serve's controller of some levels, and what the line says.
func controllerLine(levels, says string) func() *regexp.Regexp {
	return lazyregexp.New(`(?m)^(?:` + levels + `) \S+ \S+ controller \d+ -- ` + says)
}

var (
	// These match lines of Serve's controller (ray/serve/_private/deployment_state.py).
	replicaRaised = controllerLine("ERROR|WARNING", `(?:Exception (?:in|when allocating) Replica\(id='[^']*', deployment|Gang scheduling failed for Deployment\(name|(?:Failed to create d|D)eployment actor '[^']*' for Deployment\(name)`+
		`='([^']*)', app='([^']*)'\)(?:, the replica will be stopped\.|(?: failed to become ready)?:[ \n])`)
	updateFailed   = controllerLine("ERROR", `(?:Failed to update the deployments|The deployments) \[([^\]]*)\](?: are UNHEALTHY)?\.`)
	replicaCrashed = controllerLine("WARNING", `(?:Actor for )?Replica(?:\(| Replica\()id='[^']*', deployment='([^']*)', app='([^']*)'\) (crashed|failed health check)[^\n]*`)
	checkRaised    = controllerLine("WARNING", `Health check for Replica\(id='[^']*', deployment='([^']*)', app='([^']*)'\) failed: `)
	notAnswered    = controllerLine("WARNING", `Didn't receive health check response for replica Replica\(id='[^']*', deployment='([^']*)', app='([^']*)'\) after ([\d.]+)s`)
	appFailed      = controllerLine("WARNING|ERROR", `(?:Deploying app|Runtime env setup for app|Unexpected error occurred while (?:deploying|applying config for) application) '([^']*)'[^\n]*`)
	configRefused  = controllerLine("ERROR", `Traceback \(most recent call last\):$`)
	appNamed       = lazyregexp.New(`\bapp(?:lication)?(?: |=)'([^'\n]+)'`)
	appDeleted     = controllerLine("INFO", `Deleting app '([^']*)'\.`)
)

// controllerLog reads a log of Serve's controller.
type controllerLog struct {
	*builder
	log     *logText
	broken  deployments
	started map[string]int // the last line that tells of a replica that started, by deployment='…' and by app='…'
}

// readServe finds deployments and applications of Serve that did not become healthy or did not stay so, and proxies
// that did not start. It reads the logs of Serve's controller and the last saved state.
func (b *builder) readServe() {
	broken := deployments{}
	for log := range b.logs.ofNodes(isOfController) {
		c := &controllerLog{builder: b, log: log, broken: broken, started: startedIn(log.text)}
		c.replicasRaised() // first, because later steps leave out what it found
		c.replicasCrashed()
		c.applicationsFailed()
		c.applicationsUnbuilt()
		c.updatesFailed()
		c.replicasSlow()
		c.loopRaised()
		c.proxiesFailed()
	}
	apps, err := b.moment.Applications(b.ctx)
	for i := range apps {
		b.savedApplication(&apps[i], broken)
	}
	b.stopOn(err) // the applications that could be read are told
}

// isOfController reports whether a path is that of a log of Serve's controller.
func isOfController(path string) bool {
	return strings.HasPrefix(path, "serve/controller_") && !strings.HasPrefix(path, "serve/controller_build_")
}

// ofReplica matches how the controller names the deployment and the application of a replica.
var ofReplica = lazyregexp.New(`\b(?:deployment|app)='[^'\n]*'`)

// startedIn returns the offset of the last line of a controller's log that tells of a replica that started, by the
// replica's deployment and by its application: the keys are deployment='…' and app='…'.
func startedIn(log string) map[string]int {
	started, at := map[string]int{}, 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, " started successfully") {
			for _, of := range ofReplica().FindAllString(line, -1) {
				started[of] = at
			}
		}
		at += len(line)
	}
	return started
}

// startedAfter reports whether a replica of a "deployment" or an "app" of a name started after an offset.
func (c *controllerLog) startedAfter(after int, of, name string) bool {
	at, ever := c.started[of+"='"+name+"'"]
	return ever && at >= after
}

// applicationsFailed finds applications that could not be built or deployed. If Serve refused an application's config,
// the controller logs only a traceback without a name: it counts if the log is about one application only.
func (c *controllerLog) applicationsFailed() {
	failed := c.logs.matches(c.log, appFailed())
	if app := onlyName(appNamed().FindAllStringSubmatch(c.log.text, -1)); app != "" {
		for _, m := range c.logs.matches(c.log, configRefused()) {
			m.groups = append(m.groups, app)
			failed = append(failed, m)
		}
	}
	deleted := map[string]int64{} // when last
	for _, d := range c.logs.matches(c.log, appDeleted()) {
		deleted[d.groups[1]] = max(deleted[d.groups[1]], d.at)
	}
	for _, m := range failed {
		app := m.groups[1]
		said, shown := c.logEntry(m)
		f := c.applicationFailed(app, said, m.at, shown)
		// whoever gives up at once deletes it, too, as a program does that ends
		if c.startedAfter(m.to, "app", app) || deleted[app]-m.at > atTheEnd {
			f.Severity = Warning // it was deployed again, or somebody gave it up
		}
	}
}

const maxEntries = 32 << 20 // bytes of entries that are read whole: without dates, one may contain all that follow

// logEntry returns the entry of a log that begins with a match: said is what it says behind the match, and shown is all
// of it. Of the entries behind maxEntries it is the line.
func (b *builder) logEntry(m match) (said string, shown Evidence) {
	_, end := m.log.lineBounds(m.to)
	if b.entryBytes < maxEntries {
		end = entryEnd(m.log, m.to)
		b.entryBytes += end - m.to
	}
	return m.log.text[m.to:end], b.evidence(m.log, m.from, end)
}

// entryEnd returns where the entry of a log that an offset is in ends: where the next entry begins or the log ends, but
// at the latest at the first line end that is maxPlace bytes behind the offset. An entry may have several lines.
func entryEnd(log *logText, at int) int {
	for begin := at; at-begin < maxPlace; {
		next := strings.IndexByte(log.text[at:], '\n')
		if next < 0 {
			return len(log.text)
		}
		at += next + 1
		header := logline.Parse([]byte(log.text[at:min(at+logline.MaxHeader, len(log.text))]), &logline.Clock{})
		if header.Dated && header.Level != logline.Unknown { // a message may quote lines that have only one of them
			return at
		}
	}
	return at
}

// replicasRaised finds deployments whose replicas did not start. If a job ended, its end says whether that mattered, so
// the finding is only a warning at first.
func (c *controllerLog) replicasRaised() {
	for _, m := range c.logs.matches(c.log, replicaRaised()) {
		deployment, app := m.groups[1], m.groups[2]
		said, shown := c.logEntry(m)
		raised := output.ExceptionOf(said)
		if strings.Contains(said, "Check replica logs") || output.ToldAbove(raised.String()) {
			raised = c.replicaException(app, deployment, raised)
		}
		f := c.replicaFailed(app, deployment, raised)
		why := "its replicas raised " + reasonOf(f.raised, said)
		switch { // in these cases there are no replicas
		case strings.Contains(m.groups[0], "Gang scheduling failed"):
			why, _, _ = strings.Cut(strings.TrimSpace(said), " Skipping replica creation")
		case strings.Contains(m.groups[0], "eployment actor"):
			why = "its deployment actor raised " + reasonOf(f.raised, said)
		case strings.Contains(said, processDead):
			if ended, printed := c.replicaEnded(app, deployment, m.at); ended != "" {
				why = "the process of its replica ended in the constructor: " + ended
				f.addEvidence(printed)
			}
		}
		f.Title = fmt.Sprintf("Deployment %s of application %s did not start: %s", deployment, app, why)
		f.lastUntil(m.at) // a deployment whose replicas are tried again and again counts once
		f.addEvidence(shown)
		// it becomes an error if Serve gives up the deployment, or if the session ended before a replica started
		if f.Severity = c.severityAlone(); c.startedAfter(m.to, "deployment", deployment) {
			f.Severity = Warning
		}
		c.broken.add(deployment, f)
	}
}

// replicaException returns the exception that replicas of a deployment raised and to which other only refers, from the
// logs of the replicas or of their processes; other itself if these have none.
func (b *builder) replicaException(app, deployment string, other output.Exception) output.Exception {
	files := b.logs.files(func(path string) bool {
		return strings.HasPrefix(path, "serve/replica_"+app+"_"+deployment+"_")
	})
	for replica := range b.replicasOf(app, deployment) {
		if len(files) < maxOfKind {
			files = append(files, b.logsOf(replica)...)
		}
	}
	var logs, referring []string // replicas that do not refer to it may have raised others, which are no reason
	for _, file := range files {
		log := b.logs.read(file).text
		if logs = append(logs, log); other.Message != "" && strings.Contains(log, other.Message) {
			referring = append(referring, log)
		}
	}
	if len(referring) > 0 {
		logs = referring
	}
	for _, log := range logs {
		if raised := lastOtherException(log, other); raised.Type != "" {
			return raised
		}
		// What its engine said before a signal ended it may be no exception.
		above, _, refers := strings.Cut(log, other.Message)
		_, at := output.Signal(above)
		if said := output.LastError(above[:max(0, at)]); refers && said != "" {
			return output.Exception{Message: said}
		}
	}
	return other
}

// replicasOf returns the processes in which replicas of a deployment run or ran last.
func (b *builder) replicasOf(app, deployment string) iter.Seq[rayid.Worker] {
	return func(yield func(rayid.Worker) bool) {
		for i := range b.session.Actors {
			a := &b.session.Actors[i]
			if a.Class != replicaClass+app+":"+deployment {
				continue
			}
			if state, _ := moment.ActorAt(a, b.moment.At); !yield(b.lastWorker(a, state)) {
				return
			}
		}
	}
}

// lastOtherException returns the last exception in a log that differs from other and does not only refer to one above
// it. It looks at the last maxProcesses exceptions, and returns none if all of them are such.
func lastOtherException(log string, other output.Exception) output.Exception {
	for tried, at := 0, len(log); at > 0 && tried < maxProcesses; tried++ {
		before, trace := log[:at], ""
		if trace, at = output.LastTraceback(before); at < 0 { // Serve's records begin in the same line
			at = strings.LastIndex(before, output.TracebackStart)
			trace = before[max(0, at):]
		}
		raised := output.ExceptionOf(trace)
		if raised.Type != "" && !raised.Same(other) && !output.ToldAbove(raised.String()) {
			return raised
		}
	}
	return output.Exception{}
}

var (
	// These match lines of Serve's controller about proxies (ray/serve/_private/proxy_state.py): why one was not ready,
	// and that it was given up.
	proxyNotReady = controllerLine("WARNING|ERROR", `(?:Proxy actor|Unexpected (?:error|actor death)|Didn't receive)`+
		`[^\n]*? read(?:y|iness) [^\n]*?\b([0-9a-f]{56})\b(?: (?:didn't complete in|after) ([\d.]+)s)?[^\n]*`)
	proxyGivenUp = controllerLine("WARNING", `Proxy SERVE_PROXY_ACTOR-([0-9a-f]{56}) failed the health check [^\n]*`)
)

// proxiesFailed finds proxies of Serve that did not start: those that raised an exception, and those that the
// controller gave up because they did not answer.
func (c *controllerLog) proxiesFailed() {
	givenUp := c.logs.matches(c.log, proxyGivenUp())
	for _, m := range c.logs.matches(c.log, proxyNotReady()) {
		id, _ := rayid.Parse[rayid.Node](m.groups[1]) // the expression matched 56 hexadecimal digits
		said, shown := c.logEntry(m)
		raised := output.ExceptionOf(said)
		why := raised.String()
		if m.groups[2] != "" {
			why = "it did not answer within " + m.groups[2] + " s"
		}
		later := func(g match) bool { return g.groups[1] == m.groups[1] && g.from > m.from }
		gaveUp := slices.IndexFunc(givenUp, later) // where the controller gave up the same proxy; -1 if it did not
		if why == "" || raised.Type == "" && gaveUp < 0 {
			continue
		}
		f := c.findOrAdd(Serve, "proxy "+id.String()+output.Normalised(why))
		f.raised = raised
		f.Title = cmp.Or(f.Title, fmt.Sprintf("Serve's proxy on node %s did not start: %s", c.nodeName(id), why))
		f.Severity = Warning // it becomes an error if a driver failed because of it
		f.lastUntil(m.at)
		f.describe(occurrence{name: "ProxyActor", entity: c.nodeEntity(id), evidence: []Evidence{shown}})
		f.addName("proxy_ready_refs") // in the traceback of a driver that waited for its proxies
		if gaveUp >= 0 {
			f.addEvidence(c.lineEvidence(givenUp[gaveUp]))
		}
	}
}

// replicasCrashed finds deployments with replicas that failed after they had started. Their title says why: as the
// failed health check tells, or else as the end of the replica's process does. If no check tells, nodes that were lost
// at that time may be the cause.
func (c *controllerLog) replicasCrashed() {
	checks := c.failedChecks()
	for _, m := range c.logs.matches(c.log, replicaCrashed()) {
		deployment, app, how := m.groups[1], m.groups[2], m.groups[3]
		if f := c.broken.lastBefore(deployment, m.at); f != nil && f.last > m.at {
			continue // it crashed while replicas did not start
		}
		check, byCheck := checks[app+"#"+deployment]
		byCheck = byCheck && check.at <= m.at && how == "failed health check" // check says why the replica failed
		if !byCheck {
			check = failedCheck{}
		}
		f := c.findOrAdd(Serve, app+"#"+deployment+"crashed"+output.Normalised(check.raised.String()))
		if f.Title == "" { // for a replica that crashed, Serve also logs that it failed its health check
			how = strings.Replace(how, "failed health check", "failed their health checks", 1)
			f.Title = fmt.Sprintf("Replicas of deployment %s of application %s %s", deployment, app, how)
			if byCheck {
				f.Title += ": " + check.raised.String()
			} else if ended, shown := c.replicaEnded(app, deployment, m.at); ended != "" {
				f.Title += ": " + ended
				f.addEvidence(shown)
			}
		}
		if byCheck {
			f.raised = check.raised
		}
		f.addDeployment(c.builder, app, deployment)
		f.add(occurrence{at: m.at, evidence: []Evidence{check.evident, c.lineEvidence(m)}})
		f.Severity = Warning
		// the head may notice later than the controller that a node is lost
		for _, lost := range c.findings {
			if lost.Kind == NodeDied && !byCheck && lost.first <= m.at+atTheEnd && m.at <= lost.first+nodeNoticedLate {
				f.causedBy(lost)
			}
		}
		c.broken.add(deployment, f)
	}
}

// replicaEnded returns how the process of a deployment's replica had ended that the controller missed at a time (Unix
// ns), and what shows that; "" if nothing stored says so.
func (b *builder) replicaEnded(app, deployment string, at int64) (how string, shown Evidence) {
	for replica := range b.replicasOf(app, deployment) {
		d, known := b.deaths[replica]
		if !known || d.wasIntended() || d.at > at || at-d.at > atTheEnd {
			continue
		}
		signal, _ := b.crashOfWorker(replica)
		said, printed := b.lastWords(replica, d, signal)
		return d.exitText(signal) + said, cmp.Or(printed, d.evident)
	}
	return "", shown
}

// updatesFailed finds deployments that Serve gave up.
func (c *controllerLog) updatesFailed() {
	for _, m := range c.logs.matches(c.log, updateFailed()) {
		for name := range strings.SplitSeq(m.groups[1], ",") {
			name = strings.Trim(name, "' ")
			f := c.broken.lastBefore(name, m.at)
			if f == nil {
				f = c.findOrAdd(Serve, "#"+name)
				f.Title = fmt.Sprintf("Deployment %s became unhealthy", name)
				f.addName("deployment " + name)
				f.count(m.at)
			}
			f.addEvidence(c.lineEvidence(m))
			f.Severity = Error
			if c.startedAfter(m.to, "deployment", name) {
				f.Severity = Warning // it came back, or was deployed again
			}
		}
	}
}

// failedCheck is a health check that raised an exception, or was not answered.
type failedCheck struct {
	at      int64 // Unix ns
	raised  output.Exception
	evident Evidence
}

// failedChecks returns the first failed health check of each deployment in a controller's log, by app#deployment: the
// first one that raised an exception, or if none did, the first one that was not answered.
func (c *controllerLog) failedChecks() map[string]failedCheck {
	first := map[string]failedCheck{}
	for _, expression := range []*regexp.Regexp{checkRaised(), notAnswered()} {
		for _, m := range c.logs.matches(c.log, expression) {
			key := m.groups[2] + "#" + m.groups[1]
			if _, known := first[key]; known {
				continue
			}
			said, shown := c.logEntry(m)
			raised := output.ExceptionOf(said)
			switch {
			case expression == notAnswered():
				raised = output.Exception{Message: "no answer within " + m.groups[3] + " s"}
			case output.ToldAbove(raised.String()):
				raised = c.replicaException(m.groups[2], m.groups[1], raised)
			}
			if raised.String() != "" {
				first[key] = failedCheck{m.at, raised, shown}
			}
		}
	}
	return first
}

// replicaSlow matches what Serve's controller logs about replicas that take long to start
// (ray/serve/_private/deployment_state.py).
var replicaSlow = controllerLine("WARNING", `(Deployment '([^']*)' in application '([^']*)' has \d+ replicas? that ha(?:s|ve) taken more than [^\n]*)`)

// replicasSlow finds deployments whose replicas had not started when the session ended: the controller's log says that
// they take long, and no later line says that one started. A deployment that already served and only wanted more
// replicas, as what is said last about its size is that Serve scaled it up from at least one, is only remembered, for
// clients that got no answer.
func (c *controllerLog) replicasSlow() {
	sizes, scalesUp := c.logs.matches(c.log, resized()), map[string]bool{}
	for _, m := range c.logs.matches(c.log, replicaSlow()) {
		for ; len(sizes) > 0 && sizes[0].from < m.from; sizes = sizes[1:] {
			said := sizes[0].groups
			scalesUp[said[2]] = said[1] == "Upscaling" && !strings.Contains(said[0], "running replicas: 0.")
		}
		deployment, app := m.groups[2], m.groups[3]
		if len(c.broken[deployment]) > 0 || c.startedAfter(m.to, "deployment", deployment) {
			continue
		}
		if scalesUp[deployment] {
			c.slowToGrow = append(c.slowToGrow, m)
			continue
		}
		said, shown := c.logEntry(m)
		c.notStarted(app, deployment, m.groups[1]+said, m.at, shown)
	}
}

// resized matches what says that a deployment gets more replicas or a new version.
var resized = controllerLine("INFO", `(Upscaling|Deploying new version of) Deployment\(name='([^'\n]*)'[^\n]*`)

var (
	// loopRaised matches what Serve's controller logs of an exception that ended a step of its loop, which is for all
	// applications (ray/serve/_private/controller.py).
	loopRaised = controllerLine("ERROR", `Exception updating (?:deployment|application) state\.`)
	// scaledBy matches which function scales a deployment, or the deployments of an application (autoscaling_state.py).
	scaledBy = controllerLine("INFO", `Using custom autoscaling policy '(?:[^'\n]*[.:])?([^'.:\n]+)' for `+
		`(?:deployment 'Deployment\(name='([^'\n]*)', app=|application )'([^'\n]*)'`)
)

// loopRaised finds an exception that ended each of the last steps of the controller's loop, as a user's function for
// scaling may raise. As long as the loop does not go on, no application changes its state, so whoever deploys one
// waits.
func (c *controllerLog) loopRaised() {
	all := c.logs.matches(c.log, loopRaised())
	if len(all) < crashLoop || min(c.sessionEnd(), c.end)-all[len(all)-1].at > longBroken {
		return
	}
	m := all[len(all)-1]
	said, shown := c.logEntry(m)
	f := c.findOrAdd(Serve, "controller"+stillStarting)
	f.raised = output.ExceptionOf(said)
	f.Title = "Serve's controller could not go on with its applications: it raised " + reasonOf(f.raised, said)
	for _, policy := range c.logs.matches(c.log, scaledBy()) {
		function, deployment, app := policy.groups[1], policy.groups[2], policy.groups[3]
		if strings.Contains(said, ", in "+function+"\n") {
			f.Title = fmt.Sprintf("Serve's controller could not scale %sapplication %s: the autoscaling policy %s raised %s",
				encloseIfAny("deployment ", deployment, " of "), app, function, reasonOf(f.raised, said))
			f.addEntity(c.applicationEntity(app))
			if deployment != "" {
				f.addDeployment(c.builder, app, deployment)
			}
		}
	}
	f.lastUntil(all[0].at)
	f.lastUntil(m.at)
	f.addEvidence(shown)
	f.Severity = c.severityAlone()
}
