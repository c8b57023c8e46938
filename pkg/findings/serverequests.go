package findings

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

var (
	// serverError matches what HTTP clients say of an answer with a status of 500 and above.
	serverError = lazyregexp.New(`\b5\d\d\b[ :]*(?i:internal )?(?i:server error)`)
	// requestFailed matches what a replica of Serve logs before the traceback of a request (ray/serve/_private/replica.py).
	requestFailed = lazyregexp.New(`(?m)^ERROR (\S+ \S+) (\S+) \S+ \S+ -- Request failed\.[^\n]*\n`)
)

const maxReplicaLogs = 16

// linkRequests links a driver that got a server error over HTTP to what replicas of Serve logged of requests that failed shortly before: no task
// of Ray fails with them.
func (b *builder) linkRequests(ctx context.Context, f *finding, j *job, e *driverEnd) error {
	if len(f.because) > 0 || !serverError().MatchString(e.what.Message) {
		return nil
	}
	for _, file := range b.nodeFiles(maxReplicaLogs, func(path string) bool { return strings.HasPrefix(path, "serve/replica_") }) {
		log, err := b.read(ctx, file)
		if err != nil {
			return err
		}
		for _, m := range requestFailed().FindAllStringSubmatchIndex(log.text, -1) {
			at, end := b.timeOf(log.text[m[2]:m[3]]), paragraphEnd(log, m[1])
			what := output.ExceptionOf(log.text[m[1]:end])
			if at > j.ended || j.ended-at > atTheEnd || what.Type == "" {
				continue
			}
			app, deployment := b.replicaNames(log.text[m[4]:m[5]])
			failed := b.replicaFailed(app, deployment, what)
			failed.Title = cmp.Or(failed.Title, fmt.Sprintf("Requests to deployment %s of application %s raised %s", deployment, app, what))
			failed.happened(at, false)
			failed.ofDeployment(b, app, deployment)
			failed.show(b.evidence(log, m[0], end))
			f.causedBy(failed)
		}
	}
	return nil
}

// replicaNames returns the application and the deployment of what Serve's logs call "app_deployment".
func (b *builder) replicaNames(component string) (app, deployment string) {
	for i := range b.s.Actors {
		if names, is := strings.CutPrefix(b.s.Actors[i].Class, replicaClass); is && strings.Replace(names, ":", "_", 1) == component {
			app, deployment, _ = strings.Cut(names, ":")
			return app, deployment
		}
	}
	app, deployment, _ = strings.Cut(component, "_")
	return app, deployment
}

// namedIn reports whether a text names the deployment of Serve that the finding is about, or its application.
func (f *finding) namedIn(text string) bool {
	for _, e := range f.Entities {
		if e.Type != "deployment" {
			continue
		}
		app, _, _ := strings.Cut(e.ID, "#")
		ofApp := func(form string) bool { return strings.Contains(text, fmt.Sprintf(form, app)) }
		if len(e.Name) > 3 && mentions(text, e.Name) || ofApp("application %s ") || ofApp("application %q") || ofApp("'%s'") {
			return true
		}
	}
	return false
}
