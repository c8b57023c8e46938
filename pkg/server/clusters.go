package server

import (
	"context"
	"net/http"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
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
	// LivePath is where the dashboard of the running cluster itself is, if requests for it are passed on.
	LivePath string `json:"livePath,omitempty"`
	// Path is where the session's dashboard is, relative to the server's root.
	Path string `json:"path"`
}

const timeFormat = "2006-01-02T15:04:05Z"

// clusters lists all sessions, newest first.
func (s *Server) clusters(req *restful.Request, resp *restful.Response) {
	ctx, cancel := context.WithTimeoutCause(req.Request.Context(), s.opts.LoadWait, errWaited)
	defer cancel()
	l := s.sessions.list(ctx)
	if l.Err != nil && l.At.IsZero() {
		s.fail(resp, req.Request, l.Err)
		return
	}
	now := time.Now()
	rows := make([]clusterJSON, len(l.Entries))
	for i, e := range l.Entries {
		rows[i] = clusterOf(e, now)
		rows[i].LivePath = s.livePath(e)
	}
	if l.Err != nil {
		resp.Header().Set("Warning", `110 - "the list may be old: the storage could not be listed"`)
	}
	resp.Header().Set("Cache-Control", "no-store")
	writeJSON(resp, http.StatusOK, rows)
}

func clusterOf(e catalog.Entry, now time.Time) clusterJSON {
	row := clusterJSON{
		Name: e.Ref.Cluster, Namespace: e.Ref.Namespace, SessionName: e.Ref.Name,
		CreateTime: e.Start.UTC().Format(timeFormat), CreateTimeStamp: e.Start.Unix(),
		Session: e.Ref.Name, State: "ended", OwnerKind: e.OwnerKind, OwnerName: e.OwnerName, RayVersion: e.RayVersion,
		Seconds: e.Duration(now).Seconds(), Bytes: e.Bytes, Objects: e.Objects, Nodes: e.Nodes, Path: sessionPath(e),
	}
	if e.Running {
		row.SessionName, row.State = catalog.Live, "running"
	}
	if !e.End.IsZero() {
		row.EndTime = e.End.UTC().Format(timeFormat)
	}
	return row
}

// livePath is the path prefix of the running cluster that an entry's session is of; empty if its dashboard cannot be reached.
func (s *Server) livePath(e catalog.Entry) string {
	if !e.Running {
		return ""
	}
	if _, ok := s.opts.Live.Reachable(e.Ref.Namespace, "", e.Ref.Cluster); !ok {
		return ""
	}
	e.Ref.Name = catalog.Live
	return sessionPath(e)
}

// sessionPath is the path prefix of a session, relative to the server's root. Its parts have passed layout's check: none needs escaping.
func sessionPath(e catalog.Entry) string {
	return "namespaces/" + e.Ref.Namespace + "/clusters/" + e.Ref.Cluster + "/sessions/" + e.Ref.Name + "/"
}
