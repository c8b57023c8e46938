package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	count "github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/transfer"
)

// TestBackupWhileCollectorsWrite: a bucket is copied while collectors write to it, by a tool that knows nothing of
// sessions and by our command. When both have run again after the collectors' end, servers over the copies answer like
// one over the bucket.
func TestBackupWhileCollectorsWrite(t *testing.T) {
	r := recording.Open(t)
	dashboard := httptest.NewServer(recording.Dashboard(r.Golden()))
	defer dashboard.Close()
	dirs := map[string]string{"bucket": t.TempDir(), "synced": t.TempDir(), "copied": t.TempDir()}
	stores := make(map[string]*local.Store)
	for name, dir := range dirs {
		stores[name] = must.Get(local.Open(dir))(t)
	}
	bucket := stores["bucket"]
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	backup := func() (synced, copied int) {
		result, err := transfer.Copy(t.Context(), ref, transfer.Place{Store: bucket, Root: "log"},
			transfer.Place{Store: stores["copied"], Root: "log"}, &count.Counter{})
		must.OK(t, err)
		return syncObjects(t, bucket, stores["synced"]), result.Copied
	}
	for _, node := range r.Nodes() {
		tmpRay, posts := r.TmpRay(node), r.Posts(node)
		c, events := collect(t, bucket, tmpRay, node == "head", dashboard.URL)
		for i, post := range posts {
			must.Happen(t, "that events are taken", func() bool { // not before the node's first scan
				answer := must.Get(http.Post(events, "application/json", bytes.NewReader(post.JSON())))(t)
				return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
			})
			if i != len(posts)/2 {
				continue
			}
			log := filepath.Join("logs", r.NodeID(node).String(), "raylet.out")
			must.Happen(t, "that events and logs are stored", func() bool {
				_, err := bucket.Stat(t.Context(), layout.Prefix("log", ref)+log)
				return err == nil && len(listed(t, bucket, layout.Prefix("log", ref)+"node_events/")) > 0
			})
			backup()
			must.OK(t, appendTo(filepath.Join(tmpRay, ref.Name, "logs", "raylet.out"), "written after the backup\n"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // so that a slow machine is not what fails
		must.OK(t, c.Close(ctx))
		cancel()
	}
	if synced, copied := backup(); synced == 0 || copied == 0 {
		t.Errorf("the last backup took %d objects by the tool and %d by the command: nothing was new", synced, copied)
	}
	want := listed(t, bucket, layout.Prefix("log", ref))
	for name, store := range stores {
		if got := listed(t, store, layout.Prefix("log", ref)); !slices.Equal(got, want) || len(want) < 20 {
			t.Errorf("%s has %d objects of %d, or others", name, len(got), len(want))
		}
	}
	if synced, copied := backup(); synced != 0 || copied != 0 {
		t.Errorf("once more, %d objects by the tool and %d by the command are new", synced, copied)
	}
	answers := make(map[string]map[string]string)
	for name, dir := range dirs {
		answers[name] = make(map[string]string)
		base := serving(t, dir) + "/namespaces/default/clusters/lab/sessions/" + ref.Name + "/"
		for _, path := range []string{"api/v0/tasks", "api/v0/actors", "api/jobs/", "nodes?view=summary",
			"api/history/findings", "api/v0/logs?node_id=" + r.NodeID("head").String(),
			"api/v0/logs/file?filename=raylet.out&lines=5&node_id=" + r.NodeID("head").String()} {
			status, body, err := patient(base + path)
			must.True(t, err == nil && status == http.StatusOK && len(body) >= 50, "%s: %s: %d, %v: %.300s", name, path,
				status, err, body)
			answers[name][path] = body
		}
	}
	for path, want := range answers["bucket"] {
		for name := range dirs {
			says.Equal(t, answers[name][path], want, "%s: of %s comes", path, name)
		}
	}
}

// collect starts a collector, and returns the address that Ray sends its events to.
func collect(t *testing.T, store blob.Store, tmpRay string, head bool, dashboard string) (*collector.Collector, string) {
	t.Helper()
	log, registry := silent.Logger(), prometheus.NewRegistry()
	o := collector.Options{Store: store, Root: "log", Namespace: "default", Cluster: "lab", RayTmpDir: tmpRay,
		SpoolDir: t.TempDir(), Head: head, Dashboard: dashboard, Token: snapshot.Token("", "", nil),
		Servers: collector.NewServers(collector.Listeners{EventsAddress: collector.Loopback,
			MetricsAddress: collector.Loopback}, log),
		Ship: ship.Options{PushInterval: 50 * time.Millisecond}, Log: log, Registerer: registry, Gatherer: registry}
	// A port that is free for one family may be taken for the other.
	must.Happen(t, "that ports are free", func() bool { return o.Servers.Open() == nil })
	c := must.Get(collector.New(o))(t)
	c.Start()
	return c, "http://" + o.Servers.EventsAddr().String() + "/v1/events"
}

// syncObjects copies objects that the target lacks or has in another size, as the providers' tools do: in any order,
// from a listing that is older than the copies. It returns how many it copied.
func syncObjects(t *testing.T, from, to blob.Store) (copied int) {
	t.Helper()
	has := make(map[string]int64)
	for _, o := range listed(t, to, "") {
		has[o.Key] = o.Size
	}
	objects := listed(t, from, "")
	rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	for _, o := range objects {
		if size, ok := has[o.Key]; ok && size == o.Size {
			continue
		}
		body := blob.Body(t.Context(), from, blob.Object{Key: o.Key, Size: o.Size})
		must.OK(t, to.Put(t.Context(), o.Key, body))
		must.OK(t, body.Close())
		copied++
	}
	return copied
}

// named is an object without its time.
type named struct {
	Key  string
	Size int64
}

func listed(t *testing.T, store blob.Reader, prefix string) (all []named) {
	t.Helper()
	for o, err := range store.List(t.Context(), prefix, blob.ListOptions{}) {
		must.OK(t, err)
		all = append(all, named{o.Key, o.Size})
	}
	return all
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
