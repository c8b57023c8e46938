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
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
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
type cache struct{ end, moment shared.Value[*Report] }

// Read returns the findings of a session at a moment. They are computed once for each state of the session. The caller
// must not change them.
func (f Reader) Read(ctx context.Context, r *moment.Moment) (*Report, error) {
	running := r.Runs(ctx)
	version := fmt.Sprintf("%s %t %d", moment.StateOf(r.Session), running, r.At)
	reports := moment.Cached[cache](r)
	report := &reports.end
	if r.At != 0 {
		report = &reports.moment
	}
	return report.GetFor(ctx, version, func(ctx context.Context) (*Report, error) {
		if !running && r.At == 0 {
			if kept := f.readKept(ctx, r); kept != nil {
				return kept, nil
			}
		}
		return f.build(ctx, r, running)
	})
}

// builder collects the findings of one report.
type builder struct {
	ctx context.Context // of the request that the report is for
	err error           // the first that the store answered, or why the request ended: after it nothing more is read

	r    *moment.Moment
	s    *session.Session
	base string         // the beginning of all links
	end  int64          // the requested moment, Unix ns
	zone *time.Location // the cluster's time zone

	byKey map[string]*finding
	all   []*finding

	nodes                 moment.Nodes
	deaths                map[rayid.Worker]death
	lost                  map[rayid.Node]*finding
	gcs                   func() *finding           // gcsEnded, which looks once
	restarts              func() []match            // lines of the GCS's log about actors, read once
	drains                func() map[string]match   // readDrains, once
	sent                  func() []attempt          // calls of which no answer is stored, read once
	training              func() map[rayid.Job]bool // readTraining, once
	sharing               func() map[rayid.Job]bool // readSharing, once
	rankErrors            func() []rankError        // readRankErrors, once
	children              func() map[string][]int   // readChildren, once all waits are known
	submitted             map[rayid.Job]int64       // see lastSubmitted
	actors                map[rayid.Actor]*finding  // by actors that died or were restarted
	jobs                  []job
	abandoned             []attempt // tasks that ended because their driver did; at most maxPending
	constructors          []attempt // constructors of actors that were running when their driver or the session ended
	calls                 []attempt // calls of actors that were running when their driver ended
	atWork                []attempt // tasks that were running when the session ended
	queued                []attempt // tasks that had not been scheduled when it did, and calls whose actors had not
	waits                 []wait
	unexamined            map[rayid.Job]bool   // jobs beyond maxJobs that did not fail
	trainRuns             map[rayid.Job]string // the name of a Train run of each job
	failures              map[string]failure   // by the IDs of the tasks
	groups                []*group
	running               bool
	goesOn                bool // after the requested moment
	jobsSaved             bool // the dashboard's own answer to /api/jobs/ is stored
	files                 map[rayid.Worker][]moment.LogFile
	printed               map[rayid.Job][]moment.LogFile // what the workers of a job printed
	examined              map[rayid.Worker]bool          // workers whose own logs were read
	signals               map[string]string              // signals that ended workers, by what ran in them
	processes             map[string]string              // what ran in workers, by their IDs
	demanded              map[*regexp.Regexp][]match     // lines of the autoscaler's log about what waited
	logs                  map[moment.LogFile]*logText
	logBytes, maxLogBytes int64                   // bytes of logs that are kept, and their limit
	worked                int64                   // what reading logs took, as digest.work
	lostJobs              []string                // submissions that only their drivers' logs show
	unread                map[moment.LogFile]bool // logs that were not read because of the limits
	missing               []string
	partial               bool // something is missing that may be readable at another time
	counts                Counts
	refused               []refusal
	deletions             []deletion // of applications of Serve
}

// build computes the report. It first reserves memory for the logs that it reads.
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
	b := &builder{
		ctx: ctx, maxLogBytes: memory, r: r, s: r.Session, end: r.At, byKey: map[string]*finding{},
		deaths: map[rayid.Worker]death{}, lost: map[rayid.Node]*finding{},
		actors: map[rayid.Actor]*finding{}, logs: map[moment.LogFile]*logText{}, examined: map[rayid.Worker]bool{},
		signals: map[string]string{}, submitted: map[rayid.Job]int64{}, unread: map[moment.LogFile]bool{},
		failures: map[string]failure{}, trainRuns: map[rayid.Job]string{}, processes: map[string]string{},
		demanded: map[*regexp.Regexp][]match{},
		base:     "/" + r.Session.Ref.Path(), running: running,
	}
	b.gcs = sync.OnceValue(b.gcsEnded)
	b.restarts = sync.OnceValue(func() []match { return b.loggedByHead("gcs_server.out", failedOn()) })
	b.drains = sync.OnceValue(b.readDrains)
	b.training, b.sharing = sync.OnceValue(b.readTraining), sync.OnceValue(b.readSharing)
	b.rankErrors = sync.OnceValue(b.readRankErrors)
	b.children = sync.OnceValue(b.readChildren)
	b.sent = sync.OnceValue(func() []attempt { return b.attempts("state", sentToWorker, maxPending, b.r.At) })
	b.end = cmp.Or(b.end, math.MaxInt64)
	whole := *r
	whole.At = 0
	_, end := whole.Life(ctx)
	runs, _ := lifetime.State(b.s.Life.End, b.s.LastStored(), 1, time.Now(), lifetime.Idle)
	b.goesOn = r.At != 0 && (runs || r.At < end.UnixNano())
	if b.zone, err = r.Zone(ctx); err != nil {
		return nil, err
	}
	// Each step may use what the steps before it found.
	for _, step := range []func(){
		b.readJobs, b.readNodes, b.readDeaths, b.readStarts, b.readActors, b.readTasks, b.readEvents, b.readGroups,
		b.readPending,
		b.readConstructors, b.readWaits, b.readRefusals, b.readServe, b.readLibraries, b.readTrain, b.readDrivers,
		b.readLostJobs, b.readSilentHead, b.readPods, b.readUnended,
	} {
		if step(); b.fail(context.Cause(ctx)) {
			return nil, b.err
		}
	}
	return b.report(f.Metrics)
}

// fail keeps the first error. It reports whether there is one.
func (b *builder) fail(err error) bool {
	if b.err == nil {
		b.err = err
	}
	return b.err != nil
}

// stopped is the check for loops over tasks.
func (b *builder) stopped() error { return context.Cause(b.ctx) }

// find returns the finding of a kind and key. It adds the finding if there is none yet; when there are maxFindings
// already, all further ones of one kind become one.
func (b *builder) find(kind, key string) *finding {
	key = kind + "\x00" + key
	if len(b.all) >= maxFindings {
		if known := b.byKey[key]; known != nil {
			return known
		}
		key = kind + "\x00\x00others"
	}
	f := b.byKey[key]
	if f == nil {
		f = &finding{Finding: Finding{Kind: kind}, key: key}
		b.byKey[key] = f
		b.all = append(b.all, f)
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
	return Entity{Type: "task", ID: id.String(), Name: name, Link: b.link("#/tasks/%s", id)}
}

// jobEntity returns a job as an entity; none if its ID is not known.
func (b *builder) jobEntity(id rayid.Job, name string) Entity {
	if id.Nil() {
		return Entity{}
	}
	return Entity{Type: "job", ID: id.String(), Name: name, Link: b.link("#/jobs/%s", id)}
}

// quoted joins names for a title: at most three, and the number of the others.
func quoted(names []string) string {
	const maxNames = 3
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}
