package recording

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Recording is an Archive for a test: what cannot be read ends the test, what is unpacked goes when the test ends.
type Recording struct {
	t       testing.TB
	archive *Archive
	Session layout.Session
}

// Open opens the default recording.
func Open(t testing.TB) *Recording {
	t.Helper()
	return OpenNamed(t, Default)
}

// OpenNamed opens a recording by its folder's name, e.g. "ray-2.55".
func OpenNamed(t testing.TB, name string) *Recording {
	t.Helper()
	a := must.Get(Find(name))(t)
	return &Recording{t: t, archive: a, Session: must.Get(a.Session())(t)}
}

// Nodes lists the recorded nodes' names, "head" first.
func (r *Recording) Nodes() []string { r.t.Helper(); return must.Get(r.archive.Nodes())(r.t) }

// NodeID is the Ray node ID of a recorded node.
func (r *Recording) NodeID(node string) rayid.Node {
	r.t.Helper()
	return must.Get(r.archive.NodeID(node))(r.t)
}

// Posts are the requests Ray made to the node's collector, in order.
func (r *Recording) Posts(node string) []Post {
	r.t.Helper()
	return must.Get(r.archive.ReadPosts(node))(r.t)
}

// Events are all events that the nodes sent, a text each.
func (r *Recording) Events() (all []string) {
	r.t.Helper()
	for _, node := range r.Nodes() {
		for _, post := range r.Posts(node) {
			for _, e := range post.Body {
				all = append(all, string(e))
			}
		}
	}
	return all
}

// TmpRay is a fresh copy of the node's /tmp/ray.
func (r *Recording) TmpRay(node string) string {
	r.t.Helper()
	dir := r.t.TempDir()
	must.OK(r.t, r.archive.ExtractTmpRay(node, dir))
	return dir
}

// Golden are the real dashboard's answers.
func (r *Recording) Golden() []Answer { r.t.Helper(); return must.Get(r.archive.ReadGolden())(r.t) }

// Bucket is a fresh copy of the bucket another collector wrote from the same posts: "kuberay-1.6" or "kuberay-1.7".
// Keys are paths below it.
func (r *Recording) Bucket(writer string) string {
	r.t.Helper()
	dir := r.t.TempDir()
	must.OK(r.t, r.archive.ExtractBucket(writer, dir))
	return dir
}

// Store is a fresh folder that holds the session as a collector with the local backend leaves it: see WriteStore.
func (r *Recording) Store() string {
	r.t.Helper()
	dir := r.t.TempDir()
	must.OK(r.t, r.archive.WriteStore(dir))
	return dir
}
