package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// WriteStore writes the recorded session into dir as a collector with the local backend leaves it (an object is the
// file dir/{key}): marker, metadata, events, logs, and snapshots taken from the recorded answers. It shares no code
// with the collector, so that a test of a reader does not hang on the writer.
func (a *Archive) WriteStore(dir string) error {
	session, err := a.Session()
	if err != nil {
		return err
	}
	nodes, err := a.Nodes()
	if err != nil {
		return err
	}
	w := storeWriter{dir: dir, session: session}
	if err := w.put(layout.MarkerKey(layout.DefaultRoot, session), nil); err != nil {
		return err
	}
	var first, last time.Time
	for _, node := range nodes {
		id, err := a.NodeID(node)
		if err != nil {
			return err
		}
		posts, err := a.ReadPosts(node)
		if err != nil {
			return err
		}
		if len(posts) > 0 {
			if t := posts[0].At(); first.IsZero() || t.Before(first) {
				first = t
			}
			if t := posts[len(posts)-1].At(); t.After(last) {
				last = t
			}
		}
		if err := w.events(id, posts); err != nil {
			return err
		}
		if err := a.writeLogs(w, node, id); err != nil {
			return err
		}
	}
	answers, err := a.ReadGolden()
	if err != nil {
		return err
	}
	if err := w.metadata(answers, len(nodes), first, last); err != nil {
		return err
	}
	return w.snapshots(answers)
}

type storeWriter struct {
	dir     string
	session layout.Session
}

func (w storeWriter) put(key string, body []byte) error {
	file := filepath.Join(w.dir, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o644)
}

// metadata writes of the session what the head's collector would: it began and ended with its first and last batch of
// events.
func (w storeWriter) metadata(answers []Answer, nodes int, first, last time.Time) error {
	var version struct {
		RayVersion string `json:"ray_version"`
	}
	for _, a := range answers {
		if a.URL == "/api/version" {
			if err := json.Unmarshal(a.Body, &version); err != nil {
				return fmt.Errorf("%s: %w", a.URL, err)
			}
		}
	}
	for name, metadata := range map[string]any{
		layout.Start: layout.StartMetadata{OwnerKind: "RayCluster", OwnerName: w.session.Cluster,
			RayVersion: version.RayVersion, Start: first},
		layout.End: layout.EndMetadata{RayVersion: version.RayVersion, Start: first, End: last, Nodes: nodes},
	} {
		body, err := json.Marshal(metadata)
		if err != nil {
			return err
		}
		if err := w.put(layout.MetadataKey(layout.DefaultRoot, w.session, name), body); err != nil {
			return err
		}
	}
	return nil
}

// events writes one node's events as JSON Lines, an object an hour.
func (w storeWriter) events(node rayid.Node, posts []Post) error {
	streams := map[string]*bytes.Buffer{}
	for _, p := range posts {
		for _, raw := range p.Body {
			key, err := w.eventKey(node, raw)
			if err != nil {
				return err
			}
			if streams[key] == nil {
				streams[key] = &bytes.Buffer{}
			}
			streams[key].Write(raw)
			streams[key].WriteByte('\n')
		}
	}
	for key, body := range streams {
		if err := w.put(key, body.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// eventKey is the stream an event belongs to: its job's where its payload names one, by a job's or an actor's ID, the
// session's otherwise.
func (w storeWriter) eventKey(node rayid.Node, raw json.RawMessage) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "", fmt.Errorf("event %.200s: %w", raw, err)
	}
	var envelope struct {
		EventType string    `json:"eventType"`
		Timestamp time.Time `json:"timestamp"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		return "", fmt.Errorf("event %.200s: %w", raw, err)
	}
	if !event.ParseType([]byte(envelope.EventType)).NodeScope() {
		for name, value := range fields {
			if !strings.HasSuffix(name, "Event") && !strings.HasSuffix(name, "Events") {
				continue
			}
			var payload struct {
				JobID   string `json:"jobId"`
				ActorID string `json:"actorId"`
			}
			if err := json.Unmarshal(value, &payload); err != nil {
				return "", fmt.Errorf("event %.200s: %w", raw, err)
			}
			job, _ := rayid.Parse[rayid.Job](payload.JobID)
			if actor, err := rayid.Parse[rayid.Actor](payload.ActorID); err == nil && job.Nil() {
				job = actor.Job()
			}
			if !job.Nil() {
				return layout.JobEventsKey(layout.DefaultRoot, w.session, job, node, envelope.Timestamp), nil
			}
		}
	}
	return layout.NodeEventsKey(layout.DefaultRoot, w.session, node, envelope.Timestamp), nil
}

// writeLogs copies what lies below the session's logs folder.
func (a *Archive) writeLogs(w storeWriter, node string, id rayid.Node) (err error) {
	tree, err := os.MkdirTemp("", "recording-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	if err := a.ExtractTmpRay(node, tree); err != nil {
		return err
	}
	logs := filepath.Join(tree, w.session.Name, "logs")
	return filepath.WalkDir(logs, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(logs, file)
		if err != nil {
			return err
		}
		return w.put(layout.LogKey(layout.DefaultRoot, w.session, id, filepath.ToSlash(rel)), body)
	})
}

// SnapshotURLs are the addresses whose answers a head's collector saves. A test in pkg/collector/snapshot, which cannot
// be imported here, compares them.
var SnapshotURLs = []string{
	"/api/version", "/api/ray/version", "/timezone", "/cluster_id", "/usage_stats_enabled", "/api/authentication_mode",
	"/api/profiling_enabled", "/api/v0/cluster_metadata", "/api/v0/runtime_env_redaction", "/api/prometheus/sd",
	"/api/cluster_status", "/api/cluster_status?format=1", "/nodes?view=summary", "/nodes?view=hostNameList",
	"/api/jobs/", "/logical/actors", "/api/serve/applications/", "/api/train/v2/runs/v1", "/api/train/v2/runs",
	"/events",
	"/api/component_activities",
	"/api/v0/nodes?detail=1&limit=10000", "/api/v0/jobs?detail=1&limit=10000", "/api/v0/actors?detail=1&limit=10000",
	"/api/v0/workers?detail=1&limit=10000", "/api/v0/placement_groups?detail=1&limit=10000",
	"/api/v0/objects?detail=1&limit=10000",
	"/api/v0/objects/summarize", "/api/v0/runtime_envs?detail=1&limit=10000",
	"/api/v0/platform_events?detail=1&limit=10000",
}

// snapshotFolders are asked for each node and each job.
var snapshotFolders = []string{"/nodes/", "/api/data/datasets/"}

var hexID = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{56})$`)

// snapshots asks the recorded dashboard what a collector asks, and stores what was answered with 200.
func (w storeWriter) snapshots(answers []Answer) error {
	urls := slices.Clone(SnapshotURLs)
	for _, a := range answers {
		for _, folder := range snapshotFolders {
			// Recordings also ask for nodes that there are not.
			if name, ok := strings.CutPrefix(a.URL, folder); ok && hexID.MatchString(name) {
				urls = append(urls, a.URL)
			}
		}
	}
	dashboard := Dashboard(answers)
	for _, u := range urls {
		answer := httptest.NewRecorder()
		dashboard.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, u, nil))
		if answer.Code != http.StatusOK {
			continue
		}
		if err := w.put(layout.SnapshotKey(layout.DefaultRoot, w.session, u), answer.Body.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
