package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func open(t testing.TB) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s := must.Get(Open(dir))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func TestObjectsAreFilesUnderTheirKeys(t *testing.T) {
	s, dir := open(t)
	for key, file := range map[string]string{
		"log/a":           "log/a",
		"log/job//x":      "log/job/.~/x",
		"/rooted":         ".~/rooted",
		"folder/":         "folder/.~",
		"log/.~tmp/x":     "log/.~.~tmp/x",
		"log/x?y=1&z= ü":  "log/x?y=1&z= ü",
		"log/..x/y..":     "log/..x/y..",
		"log/.hidden/.~~": "log/.hidden/.~.~~",
	} {
		must.OK(t, s.Create(t.Context(), key, strings.NewReader(key)))
		got, err := os.ReadFile(filepath.Join(dir, file))
		says.True(t, err == nil && string(got) == key, "%s: file holds %q, %v", key, got, err)
	}
	names := keys(t, s, "")
	says.True(t, len(names) == 8, "listed %q", names)
}

// TestFolderIsGone: while the store's folder is away, its objects are not removed ones, and none is listed as all there
// are.
func TestFolderIsGone(t *testing.T) {
	s, dir := open(t)
	must.OK(t, s.Create(t.Context(), "log/a", strings.NewReader("a")))
	must.OK(t, os.Rename(dir, dir+".away"))
	listed := error(nil)
	for _, err := range s.List(t.Context(), "log/", blob.ListOptions{}) {
		listed = err
	}
	_, stat := s.Stat(t.Context(), "log/a")
	_, get := s.Get(t.Context(), "log/a", 0, blob.ToEnd)
	for _, err := range []error{listed, stat, get, s.Delete(t.Context(), "log/a")} {
		if err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "mount it, or restore it") {
			t.Errorf("%v", err)
		}
	}
	must.OK(t, os.Rename(dir+".away", dir))
	names := keys(t, s, "")
	says.True(t, len(names) == 1, "after its return it has %q", names)
}

func TestKeysThatCannotBeStoredAreRefused(t *testing.T) {
	s, _ := open(t)
	for _, key := range []string{"", ".", "..", "../x", "a/../../x", "a/./b", "a/..", "nul\x00",
		strings.Repeat("d/", maxFolders+1) + "x"} {
		err := s.Create(t.Context(), key, strings.NewReader("x"))
		says.True(t, err != nil && !errors.Is(err, os.ErrExist), "Create(%q) = %v", key, err)
		says.True(t, says.Err(s.Stat(t.Context(), key)) != nil, "Stat(%q) finds something", key)
		says.True(t, s.Delete(t.Context(), key) != nil, "Delete(%q) accepts", key)
		names := keys(t, s, key+"/")
		says.True(t, len(names) == 0, "List(%q) finds %q", key, names)
	}
}

// An object and a folder cannot have one path; the writer must learn that this is not a key taken by its own earlier
// try.
func TestKeyThatIsAFolderIsRefused(t *testing.T) {
	s, _ := open(t)
	for _, key := range []string{"a", "b/c"} {
		must.OK(t, s.Create(t.Context(), key, strings.NewReader("x")))
	}
	for _, key := range []string{"a/b", "a/b/c", "b"} {
		for what, write := range map[string]error{
			"Create": s.Create(t.Context(), key, strings.NewReader("x")),
			"Put":    s.Put(t.Context(), key, strings.NewReader("x")),
		} {
			says.True(t, write != nil && !errors.Is(write, os.ErrExist) &&
				strings.Contains(write.Error(), "cannot hold both"), "%s %s: %v", what, key, write)
		}
		says.ErrorIs(t, says.Err(s.Get(t.Context(), key, 0, -1)), os.ErrNotExist, "Get(%s)", key)
		says.OK(t, s.Delete(t.Context(), key))
	}
	says.Equal(t, strings.Join(keys(t, s, ""), " "), "a b/c", "left")
}

func TestSymbolicLinksDoNotLeadOut(t *testing.T) {
	s, dir := open(t)
	outside := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600))
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "link")))
	says.True(t, says.Err(s.Get(t.Context(), "link/secret", 0, -1)) != nil, "read a file outside of the folder")
	says.True(t, s.Create(t.Context(), "link/x", strings.NewReader("x")) != nil, "wrote a file outside of the folder")
}

func TestDeleteRemovesEmptyFolders(t *testing.T) {
	s, dir := open(t)
	for _, key := range []string{"a/b/c/d", "a/e"} {
		must.OK(t, s.Create(t.Context(), key, strings.NewReader("x")))
	}
	must.OK(t, s.Delete(t.Context(), "a/b/c/d"))
	says.ErrorIs(t, says.Err(os.Stat(filepath.Join(dir, "a/b"))), os.ErrNotExist, "a/b is left")
	says.Equal(t, strings.Join(keys(t, s, ""), " "), "a/e", "left")
}

// failingReader stops in the middle of an object.
type failingReader struct{ *strings.Reader }

func (f failingReader) Read(p []byte) (int, error) {
	if f.Len() < 3 {
		return 0, errors.New("the disk it came from is gone")
	}
	return f.Reader.Read(p[:1])
}

func (f failingReader) WriteTo() {} // hides strings.Reader's, which would not fail

func TestFailedWriteLeavesNothing(t *testing.T) {
	s, dir := open(t)
	must.True(t, s.Create(t.Context(), "a/b", failingReader{strings.NewReader("123456")}) != nil, "no error")
	names := keys(t, s, "")
	says.True(t, len(names) == 0, "listed %q", names)
	left, _ := os.ReadDir(filepath.Join(dir, staging))
	says.True(t, len(left) == 0, "left staged: %v", left)
}

func TestOpenSweepsWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, staging, "old"), filepath.Join(dir, staging, "fresh")
	must.OK(t, os.Mkdir(filepath.Join(dir, staging), 0o755))
	for _, name := range []string{old, fresh} {
		must.OK(t, os.WriteFile(name, nil, 0o600))
	}
	must.OK(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*staleAfter)))
	s := must.Get(Open(dir))(t)
	defer s.Close()
	says.ErrorIs(t, says.Err(os.Stat(old)), os.ErrNotExist, "an old staged file is left")
	says.OK(t, says.Err(os.Stat(fresh)), "a writer lost its staged file")
}

func keys(t *testing.T, s *Store, prefix string) []string {
	t.Helper()
	var names []string
	for o, err := range s.List(context.Background(), prefix, blob.ListOptions{}) {
		must.OK(t, err)
		names = append(names, o.Key)
	}
	return names
}

// TestWriteThatIsRepeated: NFS sends a request again if its answer is lost. What finds its own file then has stored it.
func TestWriteThatIsRepeated(t *testing.T) {
	s, _ := open(t)
	for name, publish := range map[string]func(from, to string) error{"create": s.root.Link, "put": s.root.Rename} {
		twice := func(from, to string) error {
			must.OK(t, publish(from, to))
			return publish(from, to)
		}
		says.OK(t, s.writeAndPublish(t.Context(), name, strings.NewReader("text"), twice), "%s", name)
		got := must.Get(blob.ReadRange(t.Context(), s, name, 0, 10))(t)
		says.True(t, string(got) == "text", "%s: stored is %q", name, got)
	}
	says.ErrorIs(t, s.Create(t.Context(), "create", strings.NewReader("text")), os.ErrExist,
		"another file of the same content")
}

// TestFolderIsRemovedMeanwhile: a Delete may remove the folder of a new object as empty before the object is in it.
func TestFolderIsRemovedMeanwhile(t *testing.T) {
	s, dir := open(t)
	tries := 0
	publish := func(from, to string) error {
		if tries++; tries < 3 {
			must.OK(t, os.Remove(filepath.Join(dir, "a")))
		}
		return s.root.Link(from, to)
	}
	says.OK(t, s.writeAndPublish(t.Context(), "a/b", strings.NewReader("text"), publish))
	says.EqualSlices(t, keys(t, s, ""), []string{"a/b"})
}

// TestWithoutRights: a listing that meets a folder without rights says what to do.
func TestWithoutRights(t *testing.T) {
	s, dir := open(t)
	for _, key := range []string{"a/x", "b/x"} {
		must.OK(t, s.Create(t.Context(), key, strings.NewReader("text")))
	}
	must.OK(t, os.Chmod(filepath.Join(dir, "b"), 0))
	t.Cleanup(func() { must.OK(t, os.Chmod(filepath.Join(dir, "b"), 0o755)) })
	if os.Geteuid() == 0 {
		const nobody = 65534
		must.OK(t, syscall.Seteuid(nobody))
		t.Cleanup(func() { must.OK(t, syscall.Seteuid(0)) })
	}
	var err error
	for _, listErr := range s.List(t.Context(), "", blob.ListOptions{}) {
		err = listErr
	}
	access, ok := errors.AsType[*blob.AccessError](err)
	says.True(t, ok && strings.Contains(access.Advice, "--local-dir"), "the listing says %v", err)
	_, err = s.Stat(t.Context(), "b/x")
	says.True(t, errors.Is(err, blob.ErrPermission), "the object says %v", err)
}

// TestFilesThatNFSLost: an open file that another machine removes does not exist any more; a store that is gone as a
// whole is another error.
func TestFilesThatNFSLost(t *testing.T) {
	s, _ := open(t)
	stale := &fs.PathError{Op: "read", Path: "a", Err: syscall.ESTALE}
	read := func() error {
		_, err := io.ReadAll(section{Reader: iotest.ErrReader(stale), store: s})
		return err
	}
	says.ErrorIs(t, read(), os.ErrNotExist, "a file")
	must.OK(t, s.Close())
	if err := read(); !errors.Is(err, syscall.ESTALE) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of a store that is gone: %v", err)
	}
}

// TestKeysThatNoFileCanHave are of no object, and nothing is below them.
func TestKeysThatNoFileCanHave(t *testing.T) {
	s, _ := open(t)
	long := strings.Repeat("x", 300)
	for _, key := range []string{long, long + "/a"} {
		says.ErrorIs(t, says.Err(s.Stat(t.Context(), key)), os.ErrNotExist, "Stat(%.10s…)", key)
		names := keys(t, s, key+"/")
		says.True(t, len(names) == 0, "List(%.10s…) finds %q", key, names)
	}
}

func TestContract(t *testing.T) {
	blobtest.Contract{
		Many: 1000, // a folder is read whole: there are no pages to turn
		Open: func(t testing.TB) blob.Store {
			s, _ := open(t)
			return s
		},
	}.Run(t)
}
