package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Session is a row of /clusters.
type Session struct {
	catalog.Entry
	Note notes.Note // what people wrote on it
	Path string     // where its dashboard is, relative to the server's root
}

// row is a session as /clusters writes it.
type row struct {
	Cluster    string     `json:"name"`
	Namespace  string     `json:"namespace"`
	Session    string     `json:"session"`
	State      string     `json:"state"`
	OwnerKind  string     `json:"ownerKind"`
	OwnerName  string     `json:"ownerName"`
	RayVersion string     `json:"rayVersion"`
	Created    time.Time  `json:"createTime"`
	Start      time.Time  `json:"startTime"`
	End        time.Time  `json:"endTime"`
	LastWrite  time.Time  `json:"lastWriteTime"`
	Bytes      int64      `json:"bytes"`
	Objects    int        `json:"objects"`
	Nodes      int        `json:"nodes"`
	Outcome    string     `json:"outcome"`
	Cause      string     `json:"cause"`
	FailedJobs int        `json:"failedJobs"`
	Note       notes.Note `json:"note"`
	Path       string     `json:"path"`
}

// toSession converts a row of /clusters.
func (r *row) toSession() Session {
	start := r.Start
	if start.IsZero() { // of an older server
		start = r.Created
	}
	return Session{Note: r.Note, Path: r.Path, Entry: catalog.Entry{
		Ref:        layout.Session{Namespace: r.Namespace, Cluster: r.Cluster, Name: r.Session},
		OwnerKind:  r.OwnerKind,
		OwnerName:  r.OwnerName,
		RayVersion: r.RayVersion,
		Start:      start,
		End:        r.End,
		LastWrite:  r.LastWrite,
		Running:    r.State == "running",
		Bytes:      r.Bytes,
		Objects:    r.Objects,
		Nodes:      r.Nodes,
		Outcome:    r.Outcome,
		Cause:      r.Cause,
		FailedJobs: r.FailedJobs,
		Described:  true, // the row has what the server knows
	}}
}

// Sessions lists the sessions that a filter passes, newest first. The parameters are those of /clusters.
func (c *Client) Sessions(ctx context.Context, filter url.Values) ([]Session, error) {
	answer, err := c.Get(ctx, "clusters", filter)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	decoder, all := json.NewDecoder(answer.Body), []Session{}
	switch first, err := decoder.Token(); {
	case err != nil:
		return nil, c.unreadable(err)
	case first != json.Delim('['):
		return nil, c.unreadable(errors.New("it is no list"))
	}
	for decoder.More() {
		var r row
		if err := decoder.Decode(&r); err != nil {
			return nil, c.unreadable(err)
		}
		all = append(all, r.toSession())
	}
	if _, err := decoder.Token(); err != nil {
		return nil, c.unreadable(err)
	}
	return all, nil
}

// Lookup returns a catalog.Lookup that asks the server. The parameters are all that its filters have.
func (c *Client) Lookup(ctx context.Context) catalog.Lookup {
	return func(f catalog.Filter) ([]catalog.Entry, error) {
		query := url.Values{}
		for name, value := range map[string]string{"q": strings.Join(f.Words, " "),
			"kubernetes_cluster": f.KubernetesCluster,
			"namespace":          f.Namespace,
			"cluster":            f.Cluster, "owner": f.Owner} {
			if value != "" {
				query.Set(name, value)
			}
		}
		found, err := c.Sessions(ctx, query)
		entries := make([]catalog.Entry, len(found))
		for i, s := range found {
			entries[i] = s.Entry
		}
		return entries, err
	}
}

// Find finds the session of a name. One that is named in full is not looked up.
func (c *Client) Find(ctx context.Context, text string) (layout.Session, error) {
	name, err := catalog.ParseName(text)
	if err != nil {
		return layout.Session{}, err
	}
	if name.Namespace != "" && name.Session != "" {
		return layout.Session{Namespace: name.Namespace, Cluster: name.Cluster, Name: name.Session}, nil
	}
	found, err := name.One(c.Lookup(ctx))
	return found.Ref, err
}

// SessionPath returns a path of a session, such as "findings", relative to the server's root.
func SessionPath(of layout.Session, path string) string {
	return "namespaces/" + url.PathEscape(of.Namespace) + "/clusters/" + url.PathEscape(of.Cluster) + "/sessions/" +
		url.PathEscape(of.Name) + "/" + path
}

// Job finds a job of the session at a path, as compare.FindJob does.
func (c *Client) Job(ctx context.Context, path, name string) (*compare.Job, error) {
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
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&rows); err != nil {
		return nil, c.unreadable(err)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Start, b.Start) })
	jobs := make([]compare.Job, len(rows))
	for i, row := range rows {
		jobs[i] = row.Job
	}
	return compare.FindJob(jobs, name)
}

// JobForm are the parameters of what is about one job.
func JobForm(j *compare.Job) url.Values {
	if j.SubmissionID != "" {
		return url.Values{"submission_id": {j.SubmissionID}}
	}
	return url.Values{"job_id": {j.ID}}
}
