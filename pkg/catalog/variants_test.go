package catalog_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

const root = layout.DefaultRoot

// variant is one of the ways in which KubeRay's collectors are documented, or were seen, to store a session.
type variant struct {
	ref    layout.Session // but for its name
	events string         // what a file's name has after node and hour
	pack   func(t *testing.T, lines []byte) []byte
	job    func(rayid.Job) string // a job's folder
	kind   string                 // of the owner, in the list
	parts  bool                   // logs are stored in parts while the cluster runs, and some as a whole at its end
}

const stamped = "-1763680000000000000.jsonl"

var variants = map[string]variant{
	"1.6, arrays":   {ref: v16("arrays"), pack: array, job: rayid.Job.Base64},
	"1.6, lines":    {ref: v16("lines"), pack: plain, job: rayid.Job.Base64},
	"1.6, hex jobs": {ref: v16("hex-jobs"), pack: plain, job: rayid.Job.String},
	"1.7, plain":    {ref: v17("plain", "raycluster", ""), events: stamped, pack: plain, job: rayid.Job.String},
	"1.7, gzip": {ref: v17("gzip", "raycluster", ""), events: stamped + ".gz", pack: gzipped,
		job: rayid.Job.String},
	"1.7, no time": {ref: v17("no-time", "raycluster", ""), events: ".jsonl", pack: plain, job: rayid.Job.String},
	"1.7, base64 jobs": {ref: v17("base64-jobs", "raycluster", ""), events: stamped, pack: plain,
		job: rayid.Job.Base64},
	"1.7, RayJob": {ref: v17("job-x7k2p", "rayjob", "job"), events: stamped + ".gz", pack: gzipped,
		job: rayid.Job.String, kind: catalog.RayJob},
	"1.7, RayService": {ref: v17("service-q9z4m", "rayservice", "service"), events: stamped, pack: plain,
		job: rayid.Job.String, kind: catalog.RayService},
	"1.7, arrays": {ref: v17("array17", "raycluster", ""), pack: array, job: rayid.Job.String},
	"1.7, array, RayJob": {ref: v17("old-job-1", "rayjob", "old-job"), pack: array, job: rayid.Job.Base64,
		kind: catalog.RayJob},
	"newer, named jobs, parts of logs": {ref: v17("newer", "raycluster", ""), events: stamped, pack: plain,
		job: func(id rayid.Job) string { return "nightly-" + id.String() }, parts: true},
}

func v16(cluster string) layout.Session {
	return layout.Session{Namespace: "default", Cluster: cluster}
}

func v17(cluster, kind, owner string) layout.Session {
	return layout.Session{Version: layout.V17, Namespace: "default", Cluster: cluster, OwnerKind: kind,
		OwnerName: owner}
}

func plain(_ *testing.T, lines []byte) []byte { return lines }

func array(_ *testing.T, lines []byte) []byte {
	return fmt.Appendf(nil, "[%s]", bytes.ReplaceAll(bytes.TrimSpace(lines), []byte("\n"), []byte(",\n")))
}

func gzipped(t *testing.T, lines []byte) []byte {
	return layouttest.Pack(t, string(lines), layout.Gzip)
}

// TestKubeRaysVariantsShowAndOpen: one recorded session, stored in one bucket in all ways, is in the list as often, and
// opens to the same tasks, entities, logs and snapshots each time.
func TestKubeRaysVariantsShowAndOpen(t *testing.T) {
	rec := recording.Open(t)
	from := must.Get(local.Open(rec.Store()))(t)
	defer func() { _ = from.Close() }()
	to := storetest.New()
	for _, v := range variants {
		v.ref.Name = rec.Session.Name
		v.store(t, from, rec.Session, to)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	want := tell(t, from, rec.Session, log)
	c := catalog.New(catalog.Options{Store: to, Root: root, Log: log, Registerer: prometheus.NewRegistry()})
	must.OK(t, c.Refresh(t.Context()))
	says.Equal(t, len(slices.Collect(c.Cached().All())), len(variants), "sessions are listed")
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			v.kind = cmp.Or(v.kind, catalog.RayCluster)
			owner := v.ref.OwnerName
			owner = cmp.Or(owner, v.ref.Cluster)
			for _, by := range []string{v.ref.Cluster, owner} {
				e, err := c.Find(t.Context(), catalog.Selector{Namespace: "default", Kind: v.kind, Name: by,
					Session: catalog.Latest})
				must.True(t, err == nil && e.Ref.Cluster == v.ref.Cluster && e.OwnerKind == v.kind &&
					e.OwnerName == owner, "found by %s: %+v, %v", by, e, err)
			}
			e, _ := c.Find(t.Context(), catalog.Selector{Namespace: "default", Name: v.ref.Cluster,
				Session: catalog.Latest})
			if got := tell(t, to, e.Ref, log); got != want {
				t.Errorf("opens to other content: %s", firstDifference(got, want))
			}
		})
	}
}

// store stores a session in the way of the variant.
func (v variant) store(t *testing.T, from blob.Reader, ref layout.Session, to blob.Store) {
	t.Helper()
	s := must.Get(inventory.List(t.Context(), from, root, ref))(t)
	put := func(key string, body []byte) {
		t.Helper()
		must.OK(t, to.Create(t.Context(), key, bytes.NewReader(body)))
	}
	for _, object := range s.Objects() {
		o := must.Get(layout.ParseObject(root, ref, object.Key))(t)
		body := read(t, from, object)
		folder := layout.Prefix(root, v.ref)
		if v.ref.Version == layout.V17 {
			folder += o.Node.String() + "/"
		}
		file := o.Node.String() + "-" + o.Hour.Format("2006-01-02-15") + v.events
		switch o.Kind {
		case layout.NodeEvents:
			put(folder+"node_events/"+file, v.pack(t, body))
		case layout.JobEvents:
			job := must.Get(rayid.Parse[rayid.Job](path.Base(path.Dir(o.Stream))))(t)
			put(folder+"job_events/"+v.job(job)+"/"+file, v.pack(t, body))
		case layout.Log:
			key := layout.LogKey(root, v.ref, o.Node, o.Path)
			if half := len(body) / 2; v.parts && half > 0 {
				put(fmt.Sprintf("%s.chunks/%020d", key, 0), body[:half])
				put(fmt.Sprintf("%s.chunks/%020d", key, half), body[half:])
			}
			if !v.parts || len(body)%2 == 0 || len(body) < 2 {
				put(key, body)
			}
		case layout.Metadata: // only our collector writes them
		default: // snapshots lie below the session in both
			put(layout.Prefix(root, v.ref)+strings.TrimPrefix(object.Key, layout.Prefix(root, ref)), body)
		}
	}
	put(layout.MarkerKey(root, v.ref), nil)
}

func read(t *testing.T, s blob.Reader, o blob.Object) []byte {
	t.Helper()
	body := blob.Body(t.Context(), s, o)
	data, err := io.ReadAll(body)
	must.OK(t, errors.Join(err, body.Close()))
	return data
}

// tell gives what a session opens to as text.
func tell(t *testing.T, s blob.Reader, ref layout.Session, log logrus.FieldLogger) string {
	t.Helper()
	opened := must.Get(session.Load(t.Context(), s, root, ref, session.Options{Log: log}))(t)
	var text strings.Builder
	fmt.Fprintf(&text, "%d actors, %d nodes, %d jobs, %d submissions, %d placement groups\n",
		len(opened.Actors), len(opened.Nodes), len(opened.Jobs), len(opened.Submissions), len(opened.PlacementGroups))
	for n := range opened.Tasks.Len() {
		row := opened.Tasks.Row(n, 0)
		fmt.Fprintf(&text, "%s %d %s %s %s %v\n", row.ID(), row.Attempt(), row.Name(), row.Node(), row.State(),
			row.States(nil))
	}
	for _, node := range opened.Logs.Nodes() {
		fmt.Fprintf(&text, "%s %q\n", node, opened.Logs.Paths(node))
	}
	for _, url := range []string{"/nodes", "/api/v0/tasks", "/api/jobs", "/logical/actors"} {
		fmt.Fprintf(&text, "%q\n", opened.Snapshots.URLs(url))
	}
	return text.String()
}

// firstDifference is the first line that two texts do not share.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("%q, want %q", g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
