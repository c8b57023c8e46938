// Package recording opens the recordings of real Ray clusters in test/testdata, for tests and for the demo.
//
// A recording is a folder:
//
//	posts/{node}.jsonl.gz       what Ray POSTed to the node's /v1/events, one request per line: {"t": Unix seconds, "path": …, "body": [event…]}
//	tmp-ray-{node}.tar.gz       the node's /tmp/ray at the end
//	golden.tar.gz               what the real dashboard answered while the cluster still ran; golden/INDEX.json lists the answers
//	bucket-{writer}.tar.gz      a bucket that another collector wrote from the same posts
//
// Nothing in an archive is trusted: entries that would leave the target folder, special files and unreasonable sizes
// are refused.
package recording

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// Limits of what an archive may unpack to: some ten times what the largest recording needs.
const (
	maxFileBytes    = 64 << 20
	maxArchiveBytes = 512 << 20
	maxEntries      = 50_000
)

// tmpRay is where Ray itself saw the recorded tree; its links point there.
const tmpRay = "/tmp/ray"

// Unpack unpacks a .tar.gz below dir, which must exist.
func Unpack(archive, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var total int64
	entries := 0
	return walk(archive, func(h *tar.Header, body io.Reader) error {
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if name == "." {
			return nil
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if total += h.Size; total > maxArchiveBytes {
			return fmt.Errorf("unpacks to more than %d bytes", int64(maxArchiveBytes))
		}
		// os.Root refuses names that lead out of dir, through links too.
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			return root.MkdirAll(filepath.FromSlash(name), 0o755)
		case tar.TypeReg:
			return extractFile(root, filepath.FromSlash(name), h, body)
		case tar.TypeSymlink:
			return extractLink(root, name, h.Linkname)
		default:
			return fmt.Errorf("entry %.200q is neither a file, a folder nor a link", h.Name)
		}
	})
}

// ReadStore returns a .tar.gz as a store in memory, whose keys are the names of its files.
func ReadStore(archive string) (*storetest.Store, error) {
	store := storetest.New()
	var total int64
	return store, walk(archive, func(h *tar.Header, body io.Reader) error {
		if total += h.Size; total > maxArchiveBytes || len(store.Objects) > maxEntries {
			return fmt.Errorf("more than %d bytes or %d entries", int64(maxArchiveBytes), maxEntries)
		}
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		key := path.Clean(strings.TrimPrefix(h.Name, "./"))
		object, err := io.ReadAll(body)
		store.Objects[key] = object
		store.Written(key, h.ModTime)
		return err
	})
}

// extractFile keeps the entry's time: which of two files is newer may matter to a reader of the tree.
func extractFile(root *os.Root, name string, h *tar.Header, body io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}

// extractLink makes Ray's absolute links into its own tree relative, so that they work wherever the tree is unpacked.
func extractLink(root *os.Root, name, target string) error {
	rest, ok := strings.CutPrefix(target, tmpRay+"/")
	if !ok || !filepath.IsLocal(filepath.FromSlash(rest)) {
		return fmt.Errorf("link %.200q leads out of %s", name, tmpRay)
	}
	up := strings.Repeat("../", strings.Count(name, "/"))
	return root.Symlink(up+rest, filepath.FromSlash(name))
}

// errEnough is what visit returns to end a walk without an error.
var errEnough = errors.New("enough")

// walk calls visit for each entry of a .tar.gz.
func walk(archive string, visit func(*tar.Header, io.Reader) error) (err error) {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", archive, err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		if h.Size > maxFileBytes {
			return fmt.Errorf("read %s: entry %.200q of %d bytes: at most %d are taken", archive, h.Name, h.Size,
				int64(maxFileBytes))
		}
		if err := visit(h, t); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return fmt.Errorf("unpack %s: %.200q: %w", archive, h.Name, err)
		}
	}
}
