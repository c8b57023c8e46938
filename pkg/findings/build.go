// Package findings says why a session ended as it did. It first reads what Ray itself recorded (types and messages of
// errors, causes of death, exit codes), then the ends of the logs that contain the reason, and then the dashboard's
// stored answers for what neither of them contains.
//
//	tables, logs, snapshots ──► findings, grouped by cause ──► links from consequence to cause ──► outcome, severities, order
//
// Each conclusion needs a stored text that shows it, and the finding includes this text. All stored texts are untrusted
// input: the amount that is read and kept is limited.
package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Reader reads sessions' findings.
type Reader struct {
	// Kept opens a session's kept findings (see Encode) and reads at most n bytes of them. If Kept is nil, no findings
	// are kept.
	Kept func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error)
	// Metrics reads the sessions' stored metrics. If it is nil, reports show no metrics.
	Metrics moment.Metrics
}

// Params are the names of the parameters of a request for findings: either of Ray's two IDs of a job narrows them to
// the job.
var Params = []string{"job_id", "submission_id"}

// cache keeps two reports of a session: the one on its end (or on its state now, if it runs), and the one on the
// earlier moment that was requested last.
type cache struct{ end, moment reports }

// reports keeps one report, and last, the one that was computed last while the session ran.
type reports struct {
	shared.Value[*Report]
	last atomic.Pointer[dated]
}

// dated is a report with the version of the session and the moment (Unix ns, 0 for now) that it is about.
type dated struct {
	*Report
	version  string
	moment   int64
	computed time.Time
}

// Read returns the findings of a session at a moment. The findings that are kept in the store are used if they describe
// the ended session as it is now; otherwise they are computed, once for each state of the session. The caller must not
// change the report.
func (f Reader) Read(ctx context.Context, r *moment.Moment) (*Report, error) {
	running := r.Runs(ctx)
	version := fmt.Sprintf("%s %t %d", moment.StateOf(r.Session), running, r.At)
	reports := moment.Cached[cache](r)
	report := &reports.end
	if r.At != 0 {
		report = &reports.moment
	}
	if running {
		return f.readRunning(ctx, r, report, version)
	}
	return report.GetFor(ctx, version, func(ctx context.Context) (*Report, error) {
		if r.At == 0 {
			if kept := f.readKept(ctx, r); kept != nil {
				return kept, nil
			}
		}
		return f.build(ctx, r, running)
	})
}

// lastFor is how long the last report of a running session is given to callers who cannot wait for a newer one.
const lastFor = time.Minute

// readRunning returns the findings of a running session, which has another version every few seconds. Who asks while
// they are computed waits for these, whatever the version. Whose wait ends before gets the last ones, if they are not
// old: otherwise it would never get any of a session whose findings take longer than its wait.
func (f Reader) readRunning(ctx context.Context, r *moment.Moment, kept *reports, version string) (*Report, error) {
	last := kept.last.Load()
	if last != nil && last.version != version {
		kept.Forget()
	}
	report, err := kept.GetFor(ctx, fmt.Sprintf("running %d", r.At), func(ctx context.Context) (*Report, error) {
		const running = true
		report, err := f.build(ctx, r, running)
		if err == nil {
			kept.last.Store(&dated{report, version, r.At, time.Now()})
		}
		return report, err
	})
	if errors.Is(err, shared.ErrWaited) && last != nil && last.moment == r.At && time.Since(last.computed) < lastFor {
		return last.Report, nil
	}
	return report, err
}

// Within bounds the wait for a session's findings; 0 has no bound. After it the error is shared.ErrWaited, and the work
// goes on for who asks again.
func Within(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, wait, shared.ErrWaited)
}

// builder collects the findings of one report.
type builder struct {
	ctx context.Context // of the request that the report is for
	err error           // the first that the store answered, or why the request ended: after it nothing more is read

	moment  *moment.Moment
	session *session.Session
	logs    logReader
	base    string // the beginning of all links
	end     int64  // the requested moment, Unix ns; math.MaxInt64 for the session's end

	byKey    map[string]*finding // the findings by finding.key
	findings []*finding          // in the order in which they were added
	missing  []string
	partial  bool // something is missing that may be readable at another time
	counts   Counts

	// The session.
	running        bool
	goesOn         bool // the session went on after the requested moment
	nodes          moment.Nodes
	lostNodes      map[rayid.Node]*finding // the findings about nodes that died, by the nodes
	slowToGrow     []match                 // what Serve said of deployments that waited in vain for more replicas
	clusterDeleted Evidence                // what ended the cluster or its head; zero if nothing says so
	gcsFinding     func() *finding         // gcsEnded, which looks once

	// Jobs.
	jobs                []job
	jobOfDriver         map[rayid.Job]*job        // of jobs
	unexamined          map[rayid.Job]bool        // jobs beyond maxJobs that did not fail
	otherJobs           map[string]int            // how many jobs there are beyond maxJobs, by status
	lostJobs            []string                  // submissions that only their drivers' logs show
	jobsSaved           bool                      // the dashboard's own answer to /api/jobs/ is stored
	submitted           map[rayid.Job]int64       // see lastSubmitted
	trainRuns           map[rayid.Job]string      // the name of a Train run of each job
	trainJobs           func() map[rayid.Job]bool // those with a controller of a Train run, read once
	rankErrors          func() []trainRecord      // readRankErrors, once
	jobsWithNamedActors func() map[rayid.Job]bool // those whose actors other jobs can find, read once

	// Actors and the processes of workers.
	actors          map[rayid.Actor]*finding // by actors that died or were restarted
	actorsByWorker  func() map[rayid.Worker]*entities.Actor
	deaths          map[rayid.Worker]death // how the processes of workers and drivers ended
	signals         map[string]string      // signals that ended workers, by what ran in them
	processNames    map[string]string      // what ran in workers, by their IDs
	logsByWorker    map[rayid.Worker][]moment.LogFile
	outputsByJob    map[rayid.Job][]moment.LogFile // what the workers of a job printed
	examinedWorkers map[rayid.Worker]bool          // workers whose own logs were read

	// Attempts of tasks, and what waited.
	failures      map[string]failure      // by the IDs of the tasks
	errorBytes    int                     // of errors of attempts, see maxErrors
	unended       []attempt               // attempts that had not ended when their driver or the session did
	unendedByJob  map[rayid.Job][]attempt // the first sortedUnended of them
	sortedUnended int
	readSent      func() // adds to unended the calls of which no answer is stored, once
	waits         []wait
	childRows     func() map[string][]int // readChildren, once all waits are known
	groups        []*group

	entryBytes int // read of entries of logs, see maxEntries
}

// build computes the report of a session at a moment. Before it reads logs, it reserves the memory that they may take:
// maxLogBytes, or less if the server's memory is small. running says that the session still runs.
func (f Reader) build(ctx context.Context, r *moment.Moment, running bool) (*Report, error) {
	memory := int64(maxLogBytes)
	// at most half, so that others can be computed at the same time
	if share := r.Memory.Size(budget.Work) / 2; share > 0 {
		memory = min(memory, share)
	}
	release, err := r.Memory.Reserve(ctx, budget.Work, memory)
	if err != nil {
		return nil, fmt.Errorf("find out why %s ended: %w", r.Session.Ref, err)
	}
	defer release()
	b, err := newBuilder(ctx, r, running, memory)
	if err != nil {
		return nil, err
	}
	// Each step may use what the steps before it found.
	for _, step := range []func(){
		b.readJobs, b.readNodes, b.readDeaths, b.readStarts, b.readClients, b.readSpills, b.readActors, b.readTasks,
		b.readGroups, b.readPending,
		b.readConstructors, b.readWaits, b.readEvents, b.readServe, b.readLibraries, b.readTrain, b.readDrivers,
		b.readSilentHead, b.readPods, b.readUnended,
	} {
		if step(); b.stopOn(cmp.Or(context.Cause(ctx), b.logs.err)) {
			return nil, b.err
		}
	}
	return b.report(f.Metrics)
}

// newBuilder returns a builder that has found nothing yet. maxLogBytes is how many bytes of logs it may keep.
func newBuilder(ctx context.Context, r *moment.Moment, running bool, maxLogBytes int64) (b *builder, err error) {
	b = &builder{
		ctx: ctx, moment: r, session: r.Session, end: cmp.Or(r.At, math.MaxInt64),
		byKey: map[string]*finding{}, deaths: map[rayid.Worker]death{}, lostNodes: map[rayid.Node]*finding{},
		actors:          map[rayid.Actor]*finding{},
		examinedWorkers: map[rayid.Worker]bool{}, signals: map[string]string{}, submitted: map[rayid.Job]int64{},
		failures: map[string]failure{}, trainRuns: map[rayid.Job]string{},
		processNames: map[string]string{}, otherJobs: map[string]int{},
		unendedByJob: map[rayid.Job][]attempt{},
		base:         "/" + r.Session.Ref.Path(), running: running,
	}
	b.logs = newLogReader(ctx, r.Session.Logs, b.end, maxLogBytes)
	b.logs.note = b.noteMissing
	b.gcsFinding = sync.OnceValue(b.gcsEnded)
	b.trainJobs = b.jobsWith(func(a *entities.Actor) bool { return a.Class == trainController })
	b.jobsWithNamedActors = b.jobsWith(func(a *entities.Actor) bool { return a.Name != "" })
	b.rankErrors = sync.OnceValue(b.readRankErrors)
	b.actorsByWorker = sync.OnceValue(b.readActorsByWorker)
	b.childRows = sync.OnceValue(b.readChildren)
	b.readSent = sync.OnceFunc(func() { b.addUnended(sentToWorker) })
	b.goesOn = b.wentOnAfter(r.At)
	b.logs.zone, err = r.Zone(ctx)
	return b, err
}

// jobsWith returns a function that returns the jobs with an actor for which is returns true. It looks once.
func (b *builder) jobsWith(is func(a *entities.Actor) bool) func() map[rayid.Job]bool {
	return sync.OnceValue(func() map[rayid.Job]bool {
		found := map[rayid.Job]bool{}
		for i := range b.session.Actors {
			if a := &b.session.Actors[i]; is(a) {
				found[a.Job] = true
			}
		}
		return found
	})
}

// isOpen reports whether the session runs, or an earlier moment than its end was requested: then what has not ended may
// still do so.
func (b *builder) isOpen() bool { return b.running || b.moment.At != 0 }

// wentOnAfter reports whether the session still runs, or ended after a moment (Unix ns; 0 is the session's end).
func (b *builder) wentOnAfter(at int64) bool {
	if at == 0 {
		return false
	}
	runs, _ := b.session.StateAt(time.Now())
	whole := *b.moment
	whole.At = 0
	_, end := whole.Life(b.ctx)
	return runs || at < end.UnixNano()
}

// stopOn keeps the first error that it is given; nil is none. It reports whether there is an error, now or from an
// earlier call: then the caller stops, because no report is made.
func (b *builder) stopOn(err error) bool {
	if b.err == nil {
		b.err = err
	}
	return b.err != nil
}

// noteMissing adds a sentence about what is known to be lost.
func (b *builder) noteMissing(format string, args ...any) {
	b.missing = append(b.missing, fmt.Sprintf(format, args...))
}

// requestErr returns why the request for the report has ended; nil while it goes on. Loops over many tasks check it.
func (b *builder) requestErr() error { return context.Cause(b.ctx) }

// findOrAdd returns the finding of a kind and key, and adds an empty one if there is none yet. When there are
// maxFindings already, all that would be added of one kind become one finding.
func (b *builder) findOrAdd(kind, key string) *finding {
	key = kind + "\x00" + key
	if len(b.findings) >= maxFindings {
		if known := b.byKey[key]; known != nil {
			return known
		}
		key = kind + "\x00\x00others"
	}
	f := b.byKey[key]
	if f == nil {
		f = &finding{Finding: Finding{Kind: kind}, key: key}
		b.byKey[key] = f
		b.findings = append(b.findings, f)
	}
	return f
}

// nodeEntity returns a node as an entity; none if its ID is not known.
func (b *builder) nodeEntity(id rayid.Node) Entity {
	if id.Nil() {
		return Entity{}
	}
	return Entity{Type: "node", ID: id.String(), Name: b.nodeName(id), Link: b.link("#/cluster/nodes/%s", id)}
}

// nodeName returns a node's address, or the beginning of its ID if the address is not known.
func (b *builder) nodeName(id rayid.Node) string {
	return cmp.Or(b.nodes.IP(id.String()), id.String()[:12])
}

func (b *builder) taskEntity(id rayid.Task, name string) Entity {
	return Entity{Type: "task", ID: id.String(), Name: name, Link: b.taskLink(id)}
}

// taskLink leads to a task's page, which the dashboard has below that of its job only.
func (b *builder) taskLink(id rayid.Task) string { return b.link("#/jobs/%s/tasks/%s", id.Job(), id) }

// jobEntity returns a job as an entity; none if its ID is not known.
func (b *builder) jobEntity(id rayid.Job, name string) Entity {
	if id.Nil() {
		return Entity{}
	}
	return Entity{Type: "job", ID: id.String(), Name: name, Link: b.link("#/jobs/%s", id)}
}

// listNames joins names for a title: the first three, and how many more there are.
func listNames(names []string) string {
	const maxNames = 3
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}
