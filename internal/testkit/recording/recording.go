package recording

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Default is the recording the demo shows and most tests read: three nodes of Ray 2.60.0, tasks, actors, Data and
// Serve.
const Default = "ray-2.60"

// All recorded sessions are of this cluster.
const (
	Namespace = "default"
	Cluster   = "lab"
)

// Archive is one recording.
type Archive struct {
	dir string
}

// Post is one request of Ray's aggregator agent to a collector.
type Post struct {
	Time float64           `json:"t"` // Unix seconds
	Path string            `json:"path"`
	Body []json.RawMessage `json:"body"` // the events, byte for byte
}

// At is when the request came.
func (p Post) At() time.Time { return time.UnixMicro(int64(p.Time * 1e6)).UTC() }

// JSON is the request's body: the recorded events, byte for byte, in an array.
func (p Post) JSON() []byte {
	b := []byte{'['}
	for i, e := range p.Body {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	return append(b, ']')
}

// Answer is what the real dashboard answered to a GET.
type Answer struct {
	URL         string // path and query
	Status      int
	ContentType string
	Body        []byte
}

// Find returns the recording called name. It looks for test/testdata in the current directory and its parents, which
// finds the repository's from any package's tests.
func Find(name string) (*Archive, error) {
	testdata, err := findTestdata()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(testdata, name)
	if _, err := os.Stat(filepath.Join(dir, "posts")); err != nil {
		return nil, fmt.Errorf("open recording %s: %w", name, err)
	}
	return &Archive{dir: dir}, nil
}

// Names lists the recordings there are.
func Names() ([]string, error) {
	testdata, err := findTestdata()
	if err != nil {
		return nil, err
	}
	folders, err := filepath.Glob(filepath.Join(testdata, "*", "posts"))
	if err != nil {
		return nil, err
	}
	for i, f := range folders {
		folders[i] = filepath.Base(filepath.Dir(f))
	}
	return folders, nil
}

// Stored are archives for Unpack of other recorded clusters, each as their collectors stored it: those that tests of
// findings read.
func Stored() ([]string, error) {
	testdata, err := findTestdata()
	if err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(testdata, "..", "..", "pkg", "findings", "testdata", "*.tar.gz"))
}

func findTestdata() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		testdata := filepath.Join(dir, "test", "testdata")
		if _, err := os.Stat(filepath.Join(testdata, Default)); err == nil {
			return testdata, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find recordings: no test/testdata/%s in %s or above: run within a clone of the "+
				"repository", Default, start)
		}
	}
}

// Nodes lists the names of the recorded nodes, the head first.
func (a *Archive) Nodes() ([]string, error) {
	const prefix, ext = "tmp-ray-", ".tar.gz"
	files, err := filepath.Glob(filepath.Join(a.dir, prefix+"*"+ext))
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), prefix), ext)
	}
	return files, nil // sorted, and the others are w1 and so on
}

// Head is the name of the recorded head node.
const Head = "head"

// ReadPosts returns what Ray POSTed to the node's collector, in order.
func (a *Archive) ReadPosts(node string) (posts []Post, err error) {
	f, err := os.Open(filepath.Join(a.dir, "posts", node+".jsonl.gz"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	for d := json.NewDecoder(z); ; {
		var p Post
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return posts, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: post %d: %w", f.Name(), len(posts), err)
		}
		posts = append(posts, p)
	}
}

// ExtractTmpRay unpacks the node's /tmp/ray into dir, which must exist.
func (a *Archive) ExtractTmpRay(node, dir string) error {
	return Unpack(filepath.Join(a.dir, "tmp-ray-"+node+".tar.gz"), dir)
}

// ExtractBucket unpacks the bucket that another collector wrote into dir, which must exist.
func (a *Archive) ExtractBucket(writer, dir string) error {
	return Unpack(filepath.Join(a.dir, "bucket-"+writer+".tar.gz"), dir)
}

// ReadGolden returns the recorded answers in the order they were asked for.
func (a *Archive) ReadGolden() ([]Answer, error) {
	files := fstest.MapFS{}
	err := walk(filepath.Join(a.dir, "golden.tar.gz"), func(h *tar.Header, body io.Reader) error {
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		b, err := io.ReadAll(body)
		files[path.Base(h.Name)] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ReadAnswers(files)
}

// ReadAnswers reads recorded answers from an unpacked folder.
func ReadAnswers(folder fs.FS) ([]Answer, error) {
	list, err := fs.ReadFile(folder, "INDEX.json")
	if err != nil {
		return nil, err
	}
	var index []struct {
		URL         string `json:"url"`
		Status      int    `json:"status"`
		ContentType string `json:"content_type"`
		File        string `json:"file"`
	}
	if err := json.Unmarshal(list, &index); err != nil {
		return nil, fmt.Errorf("read INDEX.json: %w", err)
	}
	answers := make([]Answer, 0, len(index))
	for _, e := range index {
		body, err := fs.ReadFile(folder, e.File)
		if err != nil {
			return nil, fmt.Errorf("read the answer to %s: %w", e.URL, err)
		}
		answers = append(answers, Answer{URL: e.URL, Status: e.Status, ContentType: e.ContentType, Body: body})
	}
	return answers, nil
}

// Session is the recorded session, as our collector stores it.
func (a *Archive) Session() (layout.Session, error) {
	s := layout.Session{Version: layout.V16, Namespace: Namespace, Cluster: Cluster}
	var found error
	err := walk(filepath.Join(a.dir, "tmp-ray-"+Head+".tar.gz"), func(h *tar.Header, _ io.Reader) error {
		name, _, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/")
		if layout.CheckSessionName(name) == nil && name != "session_latest" {
			s.Name = name
			return errEnough
		}
		return nil
	})
	if s.Name == "" {
		found = fmt.Errorf("%s: the head's tree has no session folder", a.dir)
	}
	return s, errors.Join(err, found)
}

// NodeID is the Ray node ID of a recorded node: its session folder has files named after it.
func (a *Archive) NodeID(node string) (id rayid.Node, err error) {
	const prefix = "metrics_agent_port_"
	err = walk(filepath.Join(a.dir, "tmp-ray-"+node+".tar.gz"), func(h *tar.Header, _ io.Reader) (err error) {
		if hex, ok := strings.CutPrefix(path.Base(h.Name), prefix); ok {
			if id, err = rayid.Parse[rayid.Node](hex); err == nil {
				return errEnough
			}
		}
		return err
	})
	if err == nil && id.Nil() {
		err = fmt.Errorf("%s: the tree of %s has no file %s…", a.dir, node, prefix)
	}
	return id, err
}
