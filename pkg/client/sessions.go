package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Session is a session as a server lists it.
type Session struct {
	catalog.Entry
	Note notes.Note // the pin and the note on it
	Path string     // of its dashboard, relative to the server's root
}

// Row is one session in /clusters. The first five fields are KubeRay's.
type Row struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	SessionName     string `json:"sessionName"` // "live" for a session that runs
	CreateTime      string `json:"createTime"`  // UTC, 2026-11-20T23:19:45Z
	CreateTimeStamp int64  `json:"createTimeStamp"`

	// KubernetesCluster is the name of the session's Kubernetes cluster, which is also the end of its namespace's name.
	KubernetesCluster string `json:"kubernetesCluster,omitempty"`

	Session   string  `json:"session"`   // the session's own name, of running ones too
	State     string  `json:"state"`     // running, ended
	StartTime string  `json:"startTime"` // as CreateTime, with fractions of a second, as the other times have them
	EndTime   string  `json:"endTime,omitempty"`
	LastWrite string  `json:"lastWriteTime,omitempty"` // when the last object of the session was stored
	Seconds   float64 `json:"durationSeconds"`
	catalog.Summary
	// NotKnownYet says that the session has ended, and its outcome has not been found out.
	NotKnownYet bool `json:"notKnownYet,omitempty"`
	// Note is the pin and the note on the session, if there is one.
	Note *notes.Note `json:"note,omitempty"`
	// LivePath is where the dashboard of the running cluster itself is, if requests for it are forwarded.
	LivePath string `json:"livePath,omitempty"`
	// Path is where the session's dashboard is, relative to the server's root.
	Path string `json:"path"`
}

// RowOf returns the row of a session. Of a running one SessionName is "live", as KubeRay has it, and Session is its own
// name.
func RowOf(e catalog.Entry, now time.Time) Row {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "" // it is not known
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	row := Row{
		Name: e.Ref.Cluster, Namespace: e.Ref.Namespace, SessionName: e.Ref.Name,
		CreateTime: e.Start.UTC().Format(time.RFC3339), CreateTimeStamp: e.Start.Unix(),
		StartTime: at(e.Start), EndTime: at(e.End), LastWrite: at(e.LastWrite),
		Session: e.Ref.Name, State: catalog.State(e.Running), Seconds: e.Duration(now).Seconds(),
		Summary: e.Summary, NotKnownYet: e.LacksOutcome(), Path: e.Ref.Path(),
	}
	_, row.KubernetesCluster = layout.SplitNamespace(e.Ref.Namespace)
	if e.Running {
		row.SessionName = catalog.Live
	}
	return row
}

// toSession returns the session of a row. An older server may have left fields out; times that it did not send are
// zero.
func (r *Row) toSession() Session {
	at := func(text string) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, text) // zero if it is not known
		return t
	}
	s := Session{Path: r.Path, Entry: catalog.Entry{
		Ref:     layout.Session{Namespace: r.Namespace, Cluster: r.Name, Name: r.Session},
		Summary: r.Summary, Running: r.State == catalog.Running, Described: true, // it has what the server knows
		Start: at(cmp.Or(r.StartTime, r.CreateTime)), End: at(r.EndTime), LastWrite: at(r.LastWrite),
	}}
	if r.Note != nil {
		s.Note = *r.Note
	}
	return s
}

// Sessions lists the sessions that a query of /clusters selects, newest first.
func (c *Client) Sessions(ctx context.Context, filter url.Values) ([]Session, error) {
	all, _, err := c.SessionsWithWarning(ctx, filter)
	return all, err
}

// Entries lists the entries of the sessions that a query of /clusters selects, newest first. Of a running session of
// which nothing is stored, the name is catalog.Live.
func (c *Client) Entries(ctx context.Context, form url.Values) ([]catalog.Entry, error) {
	found, err := c.Sessions(ctx, form)
	entries := make([]catalog.Entry, len(found))
	for i, s := range found {
		entries[i] = s.Entry
	}
	return entries, err
}

// SessionsWithWarning is Sessions, with the server's warning if the list is old or lacks something.
func (c *Client) SessionsWithWarning(ctx context.Context, filter url.Values) (all []Session, warning string,
	err error) {
	answer, err := c.Get(ctx, "clusters", filter)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	all = []Session{}
	if err := jsonstream.Each(jsonstream.New(answer.Body, maxRow), math.MaxInt, func(r Row) error {
		all = append(all, r.toSession())
		return nil
	}); err != nil {
		return nil, "", c.unreadableError(err)
	}
	return all, answer.Header.Get("Warning"), nil
}

// maxFound is how many sessions, the newest, a search for words returns when names are looked up.
const maxFound = "1000"

// Lookup returns a function that looks up sessions at the server.
func (c *Client) Lookup(ctx context.Context) catalog.Lookup {
	return func(f catalog.Filter) ([]catalog.Entry, error) {
		form := f.Form()
		if len(f.Words) > 0 {
			form.Set("limit", maxFound)
		}
		return c.Entries(ctx, form)
	}
}

// Find returns the session that a name selects. If the server lists no such session, a name in full
// (namespace/cluster/session) is returned as it is: when the server gets a request for that session, it looks into its
// store again.
func (c *Client) Find(ctx context.Context, text string) (layout.Session, error) {
	name, err := catalog.ParseName(text)
	if err != nil {
		return layout.Session{}, err
	}
	found, err := name.One(c.Lookup(ctx))
	if errors.Is(err, catalog.ErrNoSession) && name.Namespace != "" && name.Session != "" {
		return layout.Session{Namespace: name.Namespace, Cluster: name.Cluster, Name: name.Session}, nil
	}
	return found.Ref, err
}

const (
	// Limits of a session's list of jobs, which of a running session is its cluster's own: maxJobs is how many jobs it
	// may have, maxJobList how many bytes are read, and maxJobNames how many bytes the jobs' IDs may have together.
	maxJobs     = 100_000
	maxJobList  = 256 << 20
	maxJobNames = 16 << 20
)

// Job finds a job, by any of the names that compare.FindJob knows, of the session whose path is given, relative to the
// server's root. For the ID of a driver that is not the last one of its submission, it returns the submission.
func (c *Client) Job(ctx context.Context, path, name string) (*compare.Job, error) {
	jobs, err := c.jobs(ctx, path, name)
	if err != nil {
		return nil, err
	}
	found, err := compare.FindJob(jobs, name)
	if err == nil {
		return found, nil
	}
	if id, notID := rayid.Parse[rayid.Job](name); notID == nil {
		if submission := c.jobOfDriver(ctx, path, id); submission != nil {
			return submission, nil
		}
	}
	return nil, err
}

// jobs requests the jobs of a session, in the order in which they started: of several runs, compare.FindJob takes the
// last. Of entrypoints, they have only those that equal name.
func (c *Client) jobs(ctx context.Context, path, name string) ([]compare.Job, error) {
	answer, err := c.Get(ctx, path+"api/jobs/", nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	type row struct {
		compare.Job
		Start int64 `json:"start_time"`
	}
	var rows []row
	bytes := 0
	list := jsonstream.New(io.LimitReader(answer.Body, maxJobList), maxRow)
	if err := jsonstream.Each(list, maxJobs, func(r row) error {
		if r.Entrypoint != name { // others may be long
			r.Entrypoint = ""
		}
		if bytes += len(r.ID) + len(r.SubmissionID); bytes > maxJobNames {
			return fmt.Errorf("the IDs of its jobs have more than %d bytes", maxJobNames)
		}
		rows = append(rows, r)
		return nil
	}); err != nil {
		return nil, c.unreadableError(err)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Start, b.Start) })
	jobs := make([]compare.Job, len(rows))
	for i, row := range rows {
		jobs[i] = row.Job
	}
	return jobs, nil
}

// jobOfDriver requests the submission that had a driver; nil if there is none. It is nil also if the request fails:
// then the caller's error, that the list has no such job, is told. The list has only the last driver of a submission.
func (c *Client) jobOfDriver(ctx context.Context, path string, id rayid.Job) *compare.Job {
	answer, err := c.Get(ctx, path+"api/jobs/"+id.String(), nil)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var job compare.Job
	if json.NewDecoder(io.LimitReader(answer.Body, maxRow)).Decode(&job) != nil {
		return nil
	}
	return &job
}

// JobForm returns the parameters of a request about one job: its submission's ID, else its own.
func JobForm(j *compare.Job) url.Values {
	if j.SubmissionID != "" {
		return url.Values{"submission_id": {j.SubmissionID}}
	}
	return url.Values{"job_id": {j.ID}}
}
