package server

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// clusterJSON is one session in /clusters. The first five fields are KubeRay's.
type clusterJSON struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	SessionName     string `json:"sessionName"` // "live" for a session that runs
	CreateTime      string `json:"createTime"`  // UTC, 2026-11-20T23:19:45Z
	CreateTimeStamp int64  `json:"createTimeStamp"`

	Session    string  `json:"session"` // the session's own name, of running ones too
	State      string  `json:"state"`   // running, ended
	OwnerKind  string  `json:"ownerKind"`
	OwnerName  string  `json:"ownerName"`
	RayVersion string  `json:"rayVersion,omitempty"`
	EndTime    string  `json:"endTime,omitempty"`
	Seconds    float64 `json:"durationSeconds"`
	Bytes      int64   `json:"bytes"`
	Objects    int     `json:"objects"`
	Nodes      int     `json:"nodes,omitempty"`
	// Outcome is how an ended session ended: failed, succeeded, stopped or unfinished; Cause is its first error, in one line. Known only where its
	// findings are kept with its index.
	Outcome string `json:"outcome,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// LivePath is where the dashboard of the running cluster itself is, if requests for it are passed on.
	LivePath string `json:"livePath,omitempty"`
	// Path is where the session's dashboard is, relative to the server's root.
	Path string `json:"path"`
}

// maxOutcomes is how many of the newest sessions have their outcomes read for /clusters. Of others it has those that are known.
const maxOutcomes = 250

const timeFormat = "2006-01-02T15:04:05Z"

// clusters lists all sessions, newest first.
func (s *Server) clusters(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.opts.LoadWait, problem.ErrWaited)
	defer cancel()
	l := s.sessions.list(ctx)
	if l.Err != nil && l.At.IsZero() {
		return l.Err
	}
	now := time.Now()
	entries, next, err := page(l.Listing, r.URL.Query(), now)
	if err != nil {
		return problem.BadRequest(err)
	}
	if next != "" {
		w.Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	rows := make([]clusterJSON, len(entries))
	s.readOutcomes(ctx, entries[:min(maxOutcomes, len(entries))])
	for i, e := range entries {
		rows[i] = clusterOf(e, now)
		if head, known, _ := s.opts.Outcomes.Of(e); known {
			rows[i].Outcome, rows[i].Cause = head.Outcome, head.Cause
		}
		rows[i].LivePath = s.livePath(e)
	}
	if l.Err != nil {
		w.Header().Set("Warning", `110 - "the list may be old: the storage could not be listed"`)
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, rows)
	return nil
}

// clusterWithoutSession answers an address that ends before its session's name: people get to the list of the cluster's sessions.
func (s *Server) clusterWithoutSession(w http.ResponseWriter, r *request) error {
	if wantsPage(r.Request) {
		browser.Redirect(w, http.StatusFound, base(r.Request)+"homepage?"+url.Values{"namespace": {r.params[paramNamespace]}, "cluster": {r.params[paramCluster]}}.Encode())
		return nil
	}
	return &problem.Problem{
		Status: http.StatusNotFound, Title: "No session is named", Detail: "This is the address of a cluster, not of one of its sessions.",
		Advice: "Put /sessions/latest, or a session's name, after the cluster's name. /clusters lists all sessions.",
	}
}

func clusterOf(e catalog.Entry, now time.Time) clusterJSON {
	row := clusterJSON{
		Name: e.Ref.Cluster, Namespace: e.Ref.Namespace, SessionName: e.Ref.Name,
		CreateTime: e.Start.UTC().Format(timeFormat), CreateTimeStamp: e.Start.Unix(),
		Session: e.Ref.Name, State: "ended", OwnerKind: e.OwnerKind, OwnerName: e.OwnerName, RayVersion: e.RayVersion,
		Seconds: e.Duration(now).Seconds(), Bytes: e.Bytes, Objects: e.Objects, Nodes: e.Nodes, Path: web.SessionPath(e.Ref),
	}
	if e.Running {
		row.SessionName, row.State = catalog.Live, "running"
	}
	if !e.End.IsZero() {
		row.EndTime = e.End.UTC().Format(timeFormat)
	}
	return row
}

// livePath is the path prefix of the running cluster's own dashboard; "" if the entry's cluster does not run or cannot be reached.
func (s *Server) livePath(e catalog.Entry) string {
	if !e.Running {
		return ""
	}
	if _, ok := s.opts.Live.Reachable(e.Ref.Namespace, "", e.Ref.Cluster); !ok {
		return ""
	}
	e.Ref.Name = catalog.Live
	return web.SessionPath(e.Ref)
}
