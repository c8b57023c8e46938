package mcptools

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
)

// filters are the arguments that select sessions. They have the names of catalog.FilterParams, except query, which is q
// there.
type filters struct {
	Query     string `json:"query,omitempty" jsonschema:"words that must each occur in what is known of a session: its names, owner and Ray version, its jobs; of ended ones also its findings"`
	Namespace string `json:"namespace,omitempty"`
	In        string `json:"kubernetes_cluster,omitempty" jsonschema:"name of the Kubernetes cluster, if several store in one bucket: the end of namespaces such as team-a.prod-eu"`
	Cluster   string `json:"cluster,omitempty" jsonschema:"the RayCluster's name"`
	Owner     string `json:"owner,omitempty" jsonschema:"name of the RayJob, RayService or RayCluster that the user created"`
	User      string `json:"user,omitempty" jsonschema:"user of a job, from the metadata of its submission"`
	Label     string `json:"label,omitempty" jsonschema:"label of the RayCluster, such as team=search, or its name; several with commas between them"`
	Finding   string `json:"finding,omitempty" jsonschema:"kind of a finding of the ended session, as why names them, such as node_died or out_of_memory"`
	Kind      string `json:"kind,omitempty" jsonschema:"of the owner: RayCluster, RayJob or RayService"`
	State     string `json:"state,omitempty" jsonschema:"running or ended; both if not given. How it ended is its outcome"`
	Outcome   string `json:"outcome,omitempty" jsonschema:"how an ended session ended: failed, succeeded, stopped, unfinished, unknown (nothing is stored of its jobs) or not-known-yet"`
	From      string `json:"from,omitempty" jsonschema:"began at or after this date or time in UTC, such as 2026-11-20, 2026-11-20T23:00:00Z or 24h ago"`
	To        string `json:"to,omitempty" jsonschema:"began before this time, or on or before this date"`
	Longer    string `json:"longer,omitempty" jsonschema:"ran at least this long, such as 90m, 2h or 3d"`
	Shorter   string `json:"shorter,omitempty" jsonschema:"ran at most this long"`
	Larger    string `json:"larger,omitempty" jsonschema:"has at least this size, such as 10MiB"`
	Smaller   string `json:"smaller,omitempty" jsonschema:"has at most this size"`
	Version   string `json:"version,omitempty" jsonschema:"version of Ray, such as 2.60 or 2.60.0"`
}

// form returns the filters as the parameters of the server's routes.
func (f filters) form() url.Values {
	form := url.Values{}
	for field, value := range reflect.ValueOf(f).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "query" {
			name = "q"
		}
		if value.String() != "" {
			form.Set(name, value.String())
		}
	}
	return form
}

type listSessions struct {
	filters
	Limit int `json:"limit,omitempty" jsonschema:"at most so many, 20 if not given, 200 at most"`
}

// listSessions is the tool list_sessions: 20 sessions, or as many as are asked for, at most 200. It requests one more
// than it lists, to know whether there are more.
func (t *tools) listSessions(ctx context.Context, in listSessions) (string, error) {
	limit := limitOr(in.Limit, 20, 200)
	query := in.form()
	query.Set("limit", strconv.Itoa(limit+1))
	found, warning, err := t.SessionsWithWarning(ctx, query)
	if err != nil {
		return "", err
	}
	more := len(found) > limit
	found = found[:min(limit, len(found))]
	rows := make([]sessionRow, len(found))
	for i, s := range found {
		if rows[i], err = t.rowOf(s); err != nil {
			return "", err
		}
	}
	answer := map[string]any{"sessions": rows, "more": more}
	if warning != "" {
		answer["warning"] = warning
	}
	text, err := json.Marshal(answer)
	return string(text), err
}

// sessionRow is a session as list_sessions shows it, with the names that /clusters has.
type sessionRow struct {
	Session   string    `json:"session"`
	Cluster   string    `json:"name"`
	Namespace string    `json:"namespace"`
	Created   time.Time `json:"createTime"`
	State     string    `json:"state"`
	Ended     time.Time `json:"endTime,omitzero"`
	Seconds   float64   `json:"durationSeconds"`
	catalog.Summary
	NotKnownYet bool   `json:"notKnownYet,omitempty"` // it has ended, and its outcome has not been found out
	Note        string `json:"note,omitempty"`
	Path        string `json:"path"` // the address for people, as a whole URL
}

// rowOf returns a session as list_sessions shows it.
func (t *tools) rowOf(s client.Session) (sessionRow, error) {
	row := sessionRow{
		Session: s.Ref.String(), Cluster: s.Ref.Cluster, Namespace: s.Ref.Namespace,
		State: catalog.State(s.Running), Created: s.Start, Ended: s.End,
		Seconds: s.Duration(time.Now()).Round(time.Second).Seconds(),
		Summary: s.Summary, NotKnownYet: s.LacksOutcome(), Note: s.Note.Text,
	}
	var err error
	row.Path, err = t.Address(s.Path)
	return row, err
}

type fleet struct {
	filters
	By  string `json:"by,omitempty" jsonschema:"the resource to rank by: node, cpu, gpu, memory, or cost if the server has prices"`
	Top int    `json:"top,omitempty" jsonschema:"at most so many rows of each table, 10 if not given, 100 at most"`
}

func (t *tools) fleet(ctx context.Context, in fleet) (string, error) {
	query := in.form()
	if in.By != "" {
		query.Set("by", in.By)
	}
	page := "fleet?" + query.Encode()
	query.Set("top", strconv.Itoa(limitOr(in.Top, 10, 100)))
	return t.fetch(ctx, page, "api/history/fleet", query)
}

type why struct {
	sessionArgs
	Job string `json:"job,omitempty" jsonschema:"only what failed in this job: its ID, its submission's, or its entrypoint, name or RayJob's name"`
}

// why is the tool why. The job may be given by any of its names, which it looks up.
func (t *tools) why(ctx context.Context, in why) (string, error) {
	query := url.Values{}
	if in.Job != "" {
		path, err := t.sessionPath(ctx, in.sessionArgs)
		if err != nil {
			return "", err
		}
		job, err := t.Job(ctx, path, in.Job)
		if err != nil {
			return "", err
		}
		query = client.JobForm(job)
	}
	return t.fetchOfSession(ctx, in.sessionArgs, "findings?", "api/history/findings", query)
}

type comparison struct {
	sessionArgs
	With    string `json:"with,omitempty" jsonschema:"the other session: its name if it is of the same cluster, else namespace/cluster/session; the one before if not given"`
	Job     string `json:"job,omitempty" jsonschema:"compare this job: its ID, its submission's, or its entrypoint, name or RayJob's name"`
	WithJob string `json:"with_job,omitempty" jsonschema:"the other job; the run of the same job before if not given"`
	Top     int    `json:"top,omitempty" jsonschema:"at most so many functions, 20 if not given, 100 at most"`
}

// compare is the tool compare. It looks the other session up, unless it is given by its name alone: then it is one of
// the same cluster, which the server finds. Tables have 20 rows, or as many as are asked for, at most 100.
func (t *tools) compare(ctx context.Context, in comparison) (string, error) {
	if in.With != "" && !catalog.IsAlias(in.With) && !strings.HasPrefix(in.With, "session_") {
		with, err := t.Find(ctx, in.With)
		if err != nil {
			return "", err
		}
		in.With = with.String()
	}
	query := compare.Asked{Job: in.Job, WithJob: in.WithJob, Top: limitOr(in.Top, 20, 100)}.Form()
	query.Set("with", in.With)
	return t.fetchOfSession(ctx, in.sessionArgs, "compare?", "api/history/compare", query)
}
