package archive

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// Export writes an archive of the objects that are stored of a session now. The index is left out: it is made from the
// other objects, and one from an archive could not be trusted. If an object is removed meanwhile, for example by
// compaction, chunks.Changed is true for the error: try the export again.
func Export(ctx context.Context, store blob.Reader, root string, ref layout.Session, w io.Writer,
	p *progress.Counter) error {
	s, err := inventory.List(ctx, store, root, ref)
	if err != nil {
		return err
	}
	objects := slices.DeleteFunc(s.Objects(), func(o blob.Object) bool { return inventory.IsDerived(root, ref, o.Key) })
	m := manifest{Format: format, Session: newSession(ref), Objects: len(objects) + 1}
	for _, o := range objects {
		m.Bytes += o.Size
	}
	p.Expect(m.Objects, m.Bytes)
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	e := exporter{ctx: ctx, store: store, out: tar.NewWriter(z), p: p}
	if err := e.writeManifest(m); err != nil {
		return err
	}
	for _, o := range objects {
		if err := e.writeObject(o, layout.DefaultRoot+o.Key[len(root):]); err != nil {
			return fmt.Errorf("export %s: %w", o.Key, err)
		}
	}
	// Only the key of a marker counts, so it is always written as an empty file.
	name, err := local.FileName(layout.MarkerKey(layout.DefaultRoot, ref))
	if err != nil {
		return err
	}
	if err := e.beginEntry(name, 0, s.LastWrite); err != nil {
		return err
	}
	p.Did(1, 0)
	return errors.Join(e.out.Close(), z.Close())
}

// exporter writes objects into an archive.
type exporter struct {
	ctx   context.Context
	store blob.Reader
	out   *tar.Writer
	p     *progress.Counter
}

// writeManifest writes the manifest into the archive.
func (e *exporter) writeManifest(m manifest) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := e.beginEntry(manifestName, int64(len(data)), time.Time{}); err != nil {
		return err
	}
	_, err = e.out.Write(data)
	return err
}

// writeObject writes an object to the archive, under its key as a file's name.
func (e *exporter) writeObject(o blob.Object, key string) error {
	name, err := local.FileName(key)
	if err != nil {
		return err
	}
	if err := e.beginEntry(name, o.Size, o.ModTime); err != nil {
		return err
	}
	body := blob.Body(e.ctx, e.store, o)
	_, err = io.Copy(e.out, counted{body, e.p})
	if err := errors.Join(err, body.Close()); err != nil {
		return err
	}
	e.p.Did(1, 0)
	return nil
}

// beginEntry begins a file of size bytes in the archive, with the time when its object was stored.
func (e *exporter) beginEntry(name string, size int64, written time.Time) error {
	return e.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644,
		ModTime: written.Truncate(time.Second), Format: tar.FormatPAX})
}

// counted adds the bytes that are read to the progress.
type counted struct {
	io.Reader
	p *progress.Counter
}

// Read implements io.Reader, and counts the bytes as progress.
func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.p.Did(0, int64(n))
	return n, err
}
