// Package findings says why a session ended as it did. It first reads what Ray itself recorded (types and messages of errors, causes of
// death, exit codes), then the ends of the logs that contain the reason, and then the dashboard's stored answers for what neither of them
// contains.
//
//	tables, logs, snapshots ──► findings, grouped by cause ──► links from consequence to cause ──► outcome, severities, order
//
// Each conclusion needs a stored text that shows it, and the finding includes this text. All stored texts are untrusted input: the amount
// that is read and kept is limited.
package findings

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/budget"
	"github.com/rayhistory/historyserver/pkg/dashboard/cluster"
	"github.com/rayhistory/historyserver/pkg/dashboard/libraries"
	"github.com/rayhistory/historyserver/pkg/dashboard/logfiles"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Reader reads sessions' findings.
type Reader struct {
	// Kept opens what is kept of a session's findings, see Encode, at most n bytes; nil: nothing is.
	Kept func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error)
	// Metrics are the sessions' stored metrics; nil: none are asked.
	Metrics libraries.Metrics
}

// Answer is the handler of the findings as JSON.
func (f Reader) Answer(w http.ResponseWriter, r *request.Request) error {
	report, err := f.Read(r)
	if err != nil {
		return err
	}
	body, err := json.Marshal(envelope{Result: true, Data: report})
	if err != nil {
		return err
	}
	return reply.Bytes(w, http.StatusOK, "application/json", body)
}

// cache keeps the reports on a session's end, and on the moment of its life that was asked for last.
type cache struct{ end, moment shared.Value[*Report] }

// Read gives the findings at the requested moment. They are computed once for each state of the session, and must not be changed.
func (f Reader) Read(r *request.Request) (*Report, error) {
	running := r.Running != nil && r.Running(r.Context())
	version := fmt.Sprintf("%s %t %d", request.Version(r.Session), running, r.At)
	reports := request.Kept[cache](r)
	report := &reports.end
	if r.At != 0 {
		report = &reports.moment
	}
	return report.GetFor(r.Context(), version, func(ctx context.Context) (*Report, error) {
		r := r.With(ctx)
		if !running && r.At == 0 {
			if kept := f.readKept(r); kept != nil {
				return kept, nil
			}
		}
		return f.build(r, running)
	})
}

// builder puts a report together.
type builder struct {
	r    *request.Request
	s    *session.Session
	base string         // of links
	end  int64          // the requested moment, Unix ns
	zone *time.Location // the cluster's

	byKey map[string]*finding
	all   []*finding

	nodes                 summary.Nodes
	deaths                map[rayid.Worker]death
	lost                  map[rayid.Node]*finding
	actors                map[rayid.Actor]*finding // of actors that died
	jobs                  []job
	abandoned             []abandoned // tasks; at most maxPending
	constructors          []abandoned // those of actors that were running at the end
	groups                []*group
	running               bool
	jobsSaved             bool // the dashboard's own answer is stored
	files                 map[rayid.Worker][]logfiles.File
	examined              map[rayid.Worker]bool // those whose own logs were read
	signals               map[string]string     // that ended workers, by job and function
	logs                  map[logfiles.File]*logText
	logBytes, maxLogBytes int64 // read, and the most that is
	unread                int   // logs that the bounds left out
	missing               []string
	partial               bool // what could be read another time is missing
	counts                Counts
	refused               []refusal
}

// build makes the report. The memory of the logs that it reads is reserved first.
func (f Reader) build(r *request.Request, running bool) (*Report, error) {
	memory := int64(maxLogBytes)
	if share := r.Memory.Size(budget.Work) / 2; share > 0 {
		memory = min(memory, share)
	}
	release, err := r.Memory.Reserve(r.Context(), budget.Work, memory)
	if err != nil {
		return nil, fmt.Errorf("find out why %s ended: %w", r.Session.Ref, err)
	}
	defer release()
	b := &builder{
		maxLogBytes: memory, r: r, s: r.Session, end: r.At, byKey: map[string]*finding{}, deaths: map[rayid.Worker]death{}, lost: map[rayid.Node]*finding{},
		actors: map[rayid.Actor]*finding{}, logs: map[logfiles.File]*logText{}, examined: map[rayid.Worker]bool{}, signals: map[string]string{},
		base: baseOf(r.Session.Ref), running: running,
	}
	b.end = cmp.Or(b.end, math.MaxInt64)
	if b.zone, err = cluster.Zone(r); err != nil {
		return nil, err
	}
	// Each step may refer to what the steps before it found.
	for _, step := range []func(context.Context) error{
		b.readJobs, b.readNodes, b.readDeaths, b.readStarts, b.readActors, b.readTasks, b.readEvents, b.readGroups, b.readPending,
		b.readConstructors, b.readRefusals, b.readServe, b.readLibraries, b.readTrain, b.readDrivers, b.readPods,
	} {
		if err := step(r.Context()); err != nil {
			return nil, err
		}
		if err := r.Stop(); err != nil {
			return nil, err
		}
	}
	return b.report(r.Context(), f.Metrics)
}

// baseOf is what the links to a session's pages begin with.
func baseOf(ref layout.Session) string {
	return "/namespaces/" + url.PathEscape(ref.Namespace) + "/clusters/" + url.PathEscape(ref.Cluster) + "/sessions/" + url.PathEscape(ref.Name) + "/"
}

// find returns the finding of a kind and key, a new one if there is none yet. Beyond maxFindings, all of one kind are one.
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

func (b *builder) nodeEntity(id rayid.Node) Entity {
	return Entity{Type: "node", ID: id.String(), Name: b.nodeName(id), Link: b.link("#/cluster/nodes/%s", id)}
}

// nodeName is a node's address, else the beginning of its ID.
func (b *builder) nodeName(id rayid.Node) string {
	return cmp.Or(b.nodes.IP(id.String()), id.String()[:12])
}

func (b *builder) taskEntity(id rayid.Task, name string) Entity {
	return Entity{Type: "task", ID: id.String(), Name: name, Link: b.link("#/tasks/%s", id)}
}

func (b *builder) jobEntity(id rayid.Job, name string) Entity {
	return Entity{Type: "job", ID: id.String(), Name: name, Link: b.link("#/jobs/%s", id)}
}

// quoted joins names for a title.
func quoted(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// plural is "1 task" or "3 tasks".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// envelope is how Ray's dashboard wraps its answers.
type envelope struct {
	Result bool    `json:"result"`
	Msg    string  `json:"msg"`
	Data   *Report `json:"data"`
}
