package recording

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestDefaultRecording(t *testing.T) {
	r := Open(t)
	says.Equal(t, strings.Join(r.Nodes(), " "), "head w1 w2", "nodes")
	says.Equal(t, r.Session.String(), "default/lab/session_2026-11-20_23-19-45_581717_22125", "session")
	says.Equal(t, r.NodeID(Head).String(), "11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558", "head")
	events := 0
	for _, node := range r.Nodes() {
		for _, p := range r.Posts(node) {
			events += len(p.Body)
		}
	}
	says.Equal(t, events, 1833, "events")
	says.Equal(t, len(r.Golden()), 297, "answers")
	says.OK(t, says.Err(os.Stat(filepath.Join(r.TmpRay(Head), "session_latest", "logs", "raylet.out"))))
	for _, writer := range []string{"kuberay-1.6", "kuberay-1.7"} {
		says.OK(t, says.Err(os.Stat(filepath.Join(r.Bucket(writer), layout.DefaultRoot))))
	}
}

// TestStores holds every recording against the layout: each object of its store parses, and no event is lost on the
// way.
func TestStores(t *testing.T) {
	names := must.Get(Names())(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r := OpenNamed(t, name)
			events := 0
			for _, node := range r.Nodes() {
				for _, p := range r.Posts(node) {
					events += len(p.Body)
				}
			}
			dir := r.Store()
			kinds := map[layout.Kind]int{}
			lines := 0
			err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				key := filepath.ToSlash(strings.TrimPrefix(file, dir+string(filepath.Separator)))
				if key == layout.MarkerKey(layout.DefaultRoot, r.Session) {
					return nil
				}
				o, err := layout.ParseObject(layout.DefaultRoot, r.Session, key)
				if err != nil {
					return err
				}
				kinds[o.Kind]++
				if o.Kind == layout.NodeEvents || o.Kind == layout.JobEvents {
					b, err := os.ReadFile(file)
					if err != nil {
						return err
					}
					lines += strings.Count(string(b), "\n")
				}
				return nil
			})
			must.OK(t, err)
			says.Equal(t, lines, events, "events stored of")
			for _, k := range []layout.Kind{layout.NodeEvents, layout.JobEvents, layout.Log, layout.Snapshot} {
				says.True(t, kinds[k] != 0, "no object of kind %d", k)
			}
		})
	}
}

func TestExtractRefuses(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"a name that leads out":  {Name: "../escape", Typeflag: tar.TypeReg},
		"an absolute name":       {Name: "/etc/escape", Typeflag: tar.TypeReg},
		"a link that leads out":  {Name: "link", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink},
		"a link that climbs out": {Name: "link", Linkname: "/tmp/ray/../../etc", Typeflag: tar.TypeSymlink},
		"a device":               {Name: "null", Typeflag: tar.TypeChar},
		"an absurd size":         {Name: "big", Typeflag: tar.TypeReg, Size: maxFileBytes + 1},
	} {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "a.tar.gz")
			f := must.Get(os.Create(archive))(t)
			z := gzip.NewWriter(f)
			w := tar.NewWriter(z)
			must.OK(t, w.WriteHeader(&h))
			if h.Size == 0 {
				must.OK(t, w.Close())
			}
			must.OK(t, z.Close())
			must.OK(t, f.Close())
			says.True(t, Unpack(archive, t.TempDir()) != nil, "extracted")
		})
	}
}
