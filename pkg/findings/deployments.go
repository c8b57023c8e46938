package findings

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// deployments holds the findings about deployments of Serve, by the deployments' names.
type deployments map[string][]*finding

// add adds a finding about a deployment, once.
func (d deployments) add(deployment string, f *finding) {
	if !slices.Contains(d[deployment], f) {
		d[deployment] = append(d[deployment], f)
	}
}

// lastBefore returns, of the findings about a deployment that began at a time (Unix ns) or before, the one that began
// last; nil if there is none.
func (d deployments) lastBefore(deployment string, at int64) (last *finding) {
	for _, f := range d[deployment] {
		if f.first <= at && (last == nil || last.first <= f.first) {
			last = f
		}
	}
	return last
}

// replicaFailed returns the finding about an exception that the replicas of a deployment raised. A new one has no title
// yet.
func (b *builder) replicaFailed(app, deployment string, raised output.Exception) *finding {
	f := b.findOrAdd(Serve, app+"#"+deployment+raised.Type+output.Normalised(raised.Message))
	f.raised = raised
	f.addDeployment(b, app, deployment)
	return f
}

// replicaClass begins the name of the class of a deployment's replicas: "ServeReplica:app:deployment".
const replicaClass = "ServeReplica:"

// addDeployment adds a deployment's names, its own and that of its replicas' class, and the deployment as an entity.
func (f *finding) addDeployment(b *builder, app, deployment string) {
	f.addName("deployment " + deployment)
	f.addName(replicaClass + app + ":" + deployment)
	f.addEntity(b.deploymentEntity(app, deployment))
}

// deploymentEntity returns a deployment of Serve as an entity.
func (b *builder) deploymentEntity(app, deployment string) Entity {
	return Entity{Type: "deployment", ID: app + "#" + deployment, Name: deployment,
		Link: b.link("#/serve/applications/%s/%s", url.PathEscape(app), url.PathEscape(deployment))}
}

// applicationEntity returns an application of Serve as an entity.
func (b *builder) applicationEntity(app string) Entity {
	return Entity{Type: "deployment", ID: app, Name: app, Link: b.link("#/serve/applications/%s", url.PathEscape(app))}
}

// notStarted adds the finding about a deployment that was still starting when the session ended. message is what Serve
// said about it at a time (Unix ns), and e is the evidence.
func (b *builder) notStarted(app, deployment, message string, at int64, e Evidence) {
	f := b.findOrAdd(Serve, app+"#"+deployment+stillStarting)
	how := "had not started when the session ended"
	if f.Severity = Error; b.isOpen() {
		how, f.Severity = "has not started", Warning
	}
	said := output.FirstSentence(message)
	if _, after, found := strings.Cut(said, "' has "); found {
		said = after // the deployment is named already
	}
	f.Title = fmt.Sprintf("Deployment %s of application %s %s: %s", deployment, app, how, said)
	f.addDeployment(b, app, deployment)
	f.lastUntil(at)
	e.Time = timestamp(at)
	f.addEvidence(e)
}

// stillStarting ends the keys of findings about deployments that were still starting.
const stillStarting = "starting"

// applicationFailed adds the finding about an application that could not be built or deployed. message is what Serve
// said about it at a time (Unix ns), and e is the evidence.
func (b *builder) applicationFailed(app, message string, at int64, e Evidence) *finding {
	f := b.findOrAdd(Serve, app+"#")
	f.raised = output.ExceptionOf(message)
	f.Title = fmt.Sprintf("Serve application %s could not be deployed: %s", app, reasonOf(f.raised, message))
	e.Time = timestamp(at)
	f.add(occurrence{at: at, entity: b.applicationEntity(app), evidence: []Evidence{e}})
	f.Severity = Error
	return f
}

// reasonOf describes in one line an exception and why it was raised; text is Serve's message with the exception. For
// types whose first line has no reason, the reason is taken from the rest of the text. Without an exception it is the
// text's first sentence.
func reasonOf(exception output.Exception, text string) string {
	switch exception.Type {
	case "RuntimeEnvSetupError":
		_, message, _ := strings.Cut(text, exception.Type+": ")
		return exception.Type + ": " + envReason(message)
	case "ActorDiedError":
		if reason, found := actorDeathReason(text); found {
			return exception.Type + ": " + reason
		}
	}
	return cmp.Or(exception.String(), output.FirstSentence(text))
}

var (
	// importing matches what the process logs first that builds an application, and aboutApp what the controller logs
	// about one, also when that process is done (ray/serve/_private/application_state.py).
	importing = lazyregexp.New(`(?m)^INFO \S+ \S+ controller build_\S+ -- Importing application '([^'\n]*)'[^\n]*`)
	aboutApp  = lazyregexp.New(`(?m)^\w+ \S+ \S+ controller \d+ -- [^\n]*\bapp(?:lication)? '([^'\n]*)'`)
)

// applicationsUnbuilt finds applications of which importing the module, or running the builder, had not come to an end
// when the session ended.
func (c *controllerLog) applicationsUnbuilt() {
	later := c.logs.matches(c.log, aboutApp())
	for log := range c.logs.ofNodes(pathBegins("serve/controller_build_")) {
		all := c.logs.matches(log, importing())
		if len(all) == 0 {
			continue
		}
		m, until := all[len(all)-1], min(c.sessionEnd(), c.end)
		app, took := m.groups[1], time.Duration(until-m.at)
		mentioned := func(l match) bool { return l.groups[1] == app && l.at >= m.at }
		if took < longConstructor || slices.ContainsFunc(later, mentioned) {
			continue
		}
		f := c.findOrAdd(Serve, app+"#"+stillStarting)
		f.Title = fmt.Sprintf("Serve application %s was not deployed: importing and building it had taken %s", app,
			took.Round(time.Second))
		f.addEntity(c.applicationEntity(app))
		f.lastUntil(m.at)
		f.lastUntil(until)
		f.addEvidence(c.lineEvidence(m))
		f.Severity = c.severityAlone()
	}
}

// isStarting reports whether the finding is about a deployment, or an application, that had not started yet.
func (f *finding) isStarting() bool {
	return f.Kind == Serve && strings.HasSuffix(f.key, stillStarting)
}

// severityAlone returns the severity of a finding about Serve by itself: a warning if a job ended, which makes it an
// error if the job failed because of it, or if the session still runs; otherwise an error.
func (b *builder) severityAlone() string {
	ended := func(j job) bool { return jobstatus.Ended(j.Status) }
	if b.isOpen() || slices.ContainsFunc(b.jobs, ended) {
		return Warning
	}
	return Error
}

// isBadStatus reports whether a status of Serve's applications and deployments tells of a failure.
func isBadStatus(status string) bool { return status == "UNHEALTHY" || status == "DEPLOY_FAILED" }

// savedApplication adds the findings that the last saved status of an application and of its deployments shows. One
// about the application itself is added only if none of its deployments has one. broken are the findings about
// deployments until now.
func (b *builder) savedApplication(app *moment.Application, broken deployments) {
	explained := false
	for _, d := range app.Deployments {
		if b.savedDeployment(app, d, broken) || len(broken[d.Name]) > 0 {
			explained = true
		}
	}
	if f := b.byKey[Serve+"\x00"+app.Name+"#"]; f != nil && app.Status == "RUNNING" && app.Taken >= f.last {
		f.Severity = Warning // it could not be deployed at first
	}
	if !isBadStatus(app.Status) || explained {
		return
	}
	text := fmt.Sprintf("application %s is %s: %s", app.Name, app.Status, app.Message)
	b.applicationFailed(app.Name, app.Message, app.Taken,
		Evidence{Source: "snapshot", Text: text, Link: b.applicationEntity(app.Name).Link})
}

// savedDeployment decides by the last saved status of a deployment how severe the findings about it are, and adds one
// if there is none. It reports whether the status is bad: then a finding says why the application is bad.
func (b *builder) savedDeployment(app *moment.Application, d moment.Deployment, broken deployments) (bad bool) {
	name, status, message := d.Name, d.Status, d.Message
	e := Evidence{
		Source: "snapshot", Time: timestamp(app.Taken), Link: b.deploymentEntity(app.Name, name).Link,
		Text: fmt.Sprintf("deployment %s of application %s is %s (%s): %s", name, app.Name, status, d.Trigger,
			message),
	}
	for _, f := range broken[name] {
		if status == "HEALTHY" && app.Taken >= f.last {
			f.Severity = Warning
		}
	}
	f, bad := broken.lastBefore(name, math.MaxInt64), isBadStatus(status)
	switch {
	case f != nil:
		if bad || message != "" {
			f.addEvidence(e)
		}
		if bad {
			f.Severity = Error
		}
	case bad:
		f = b.replicaFailed(app.Name, name, output.ExceptionOf(message))
		f.Title = fmt.Sprintf("Deployment %s of application %s is %s: %s", name, app.Name, status,
			cmp.Or(f.raised.String(), output.FirstSentence(message)))
		f.count(app.Taken)
		f.addEvidence(e)
		f.Severity = Error
	case status == "UPDATING" && message != "":
		b.notStarted(app.Name, name, message, app.Taken, e)
	}
	return bad
}

// aboutOther reports whether the finding is about a deployment of Serve and a text names only another one, maybe of the
// same application.
func (f *finding) aboutOther(text string) bool {
	const names = "Deployment(name='"
	return f.Kind == Serve && strings.Contains(text, names) && !slices.ContainsFunc(f.Entities, func(e Entity) bool {
		return strings.Contains(text, names+e.Name+"'")
	})
}

// namedIn reports whether a text names the deployment of Serve that the finding is about, or its application.
func (f *finding) namedIn(text string) bool {
	for _, e := range f.Entities {
		if e.Type != "deployment" {
			continue
		}
		app, _, _ := strings.Cut(e.ID, "#")
		if namesDeployment(text, app, e.Name) {
			return true
		}
	}
	return false
}

// namesDeployment reports whether a text names a deployment of Serve, or its application. A name of up to three letters
// may be any word and does not count.
func namesDeployment(text, app, name string) bool {
	return len(name) > 3 && mentions(text, name) || namesApplication(text, app)
}

// addressPath matches an address of HTTP; its group is the path. That of a file, "s3://lake/orders", names nothing, nor
// does one of Ray's dashboard.
var addressPath = lazyregexp.New(`\bhttps?://[^\s/]+(?:/api/(?:cluster_status|jobs|packages|serve|version|` +
	`v0/(?:actors|cluster_events|jobs|logs|nodes|objects|placement_groups|runtime_envs|tasks|workers))\b\S*|(/\S+))`)

// namesApplication reports whether a text names an application: its name counts if it is no plain word, is in single
// quotes, follows the word "application", or is in the path of an address.
func namesApplication(text, app string) bool {
	quoted := strings.Contains(text, fmt.Sprintf("application %q", app)) || strings.Contains(text, "'"+app+"'")
	if quoted || noWord(app) && mentions(text, app) || mentions(text, "application "+app) {
		return true
	}
	for _, m := range addressPath().FindAllStringSubmatch(text, -1) {
		if strings.Contains(strings.TrimRight(m[1], ".,;:'\")]")+"/", "/"+app+"/") {
			return true
		}
	}
	return false
}

// noWord reports whether a name cannot be any word of a text: "rank-v2" cannot, "ranker" can.
func noWord(name string) bool { return len(name) > 3 && strings.ContainsAny(name, "-_0123456789") }

// deployed is in what Serve's command line prints when it has deployed a file.
const deployed = "Sent deploy request successfully"

// servesJob reports whether a job may depend on the application of Serve that the finding is about: the job is the only
// one (only), its driver deployed a file, or its log names the application. A job without a driver that connected to
// Ray depends on it only for the latter two reasons.
func (f *finding) servesJob(j *job, log *logText, only bool) bool {
	if f.Kind != Serve || log.text == "" {
		return false
	}
	own := log.ownLines()
	return only && !j.id.Nil() || strings.Contains(own, deployed) && f.last >= j.Start || f.namedIn(own)
}

// replicaIn reports whether the finding is about a replica of Serve and a text names the replica's deployment as
// Serve's controller does.
func (f *finding) replicaIn(text string) bool {
	return slices.ContainsFunc(f.names, func(name string) bool {
		class, ofReplica := strings.CutPrefix(name, "actor "+replicaClass)
		app, deployment, _ := strings.Cut(class, ":")
		deployment, _, _ = strings.Cut(deployment, " ")
		return ofReplica && (strings.Contains(text, "Deployment '"+deployment+"' in application '"+app+"'") ||
			strings.Contains(text, "Deployment(name='"+deployment+"', app='"+app+"')"))
	})
}

// maybeServes reports whether the driver of a job may stay for what it serves: Serve was started in the session, and by
// this driver, or its log tells of Serve or is not stored.
func (b *builder) maybeServes(j *job, log *logText) bool {
	told := log.text == "" || strings.Contains(log.text, "Serve")
	return slices.ContainsFunc(b.session.Actors, func(a entities.Actor) bool {
		return a.Class == "ServeController" && (told || j.hasDriver(a.Job))
	})
}
