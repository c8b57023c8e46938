package archive

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// Options of Import.
type Options struct {
	Store blob.Store
	Root  string
	// MaxBytes bounds the uncompressed bytes of all objects. If the manifest states more, nothing is stored.
	MaxBytes int64
	// Add allows an archive to add objects to a session that is stored already.
	Add      bool
	Progress *progress.Counter
}

const (
	inMemory = 8 << 20 // an object up to this size is buffered in memory, a larger one in a file
	// maxWindow bounds the memory that decompression can ask for.
	maxWindow = 64 << 20
	// maxObjects bounds the memory for their keys. A hundred nodes store so many in two months, if they are never
	// compacted.
	maxObjects = 10_000_000
	// maxPadding bounds what may follow the end of the tar file, in bytes. Tools pad to a multiple of a record, which
	// is 10 KiB by default.
	maxPadding = 1 << 20
)

// Result says what Import did.
type Result struct {
	Session layout.Session `json:"-"`
	Stored  int            `json:"stored"` // objects, the session's marker among them
	Bytes   int64          `json:"bytes"`  // of them
	Kept    int            `json:"kept"`   // objects that were there with the same content
}

// Import stores the session of an archive. It reads the archive twice: nothing is stored before all of it is checked.
// Objects that are stored already are compared and kept, so an interrupted import can be repeated. If a key has other
// content, or if the session is stored without some of the archive's objects and Options.Add is not set, the error is
// os.ErrExist.
//
// Every entry must be a file whose name is a key of the manifest's session. No name may come twice, and all entries
// together must have the size that the manifest states; otherwise the error is errBad. The session's marker is stored
// last. An index is not stored.
func Import(ctx context.Context, r io.Reader, opts Options) (Result, error) {
	in, err := newSource(r, opts)
	if err != nil {
		return Result{}, err
	}
	defer in.close()
	check := importer{ctx: ctx, opts: opts, checking: true}
	switch err = check.read(in.first); {
	case err == nil:
		err = check.checkAdded()
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("the file is cut off, and nothing was stored: copy or export it again: %w", err)
	}
	var second io.Reader
	if err == nil {
		second, err = in.again()
	}
	if err != nil {
		return Result{Session: check.ref}, err
	}
	i := importer{ctx: ctx, opts: opts, stored: check.stored, existed: check.existed}
	err = i.read(second)
	i.result.Session = i.ref
	return i.result, err
}

// read reads the archive: while checking, it checks all entries and stores nothing; otherwise it stores them.
func (i *importer) read(r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	i.stream, i.in, i.seen = z, tar.NewReader(z), make(map[string]bool)
	if err := i.readManifest(); err != nil {
		return err
	}
	if i.checking {
		if err := i.listStored(); err != nil {
			return err
		}
	}
	for {
		h, err := i.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: after %d objects: %w", errBad, i.objects, err)
		}
		if err := i.readEntry(h); err != nil {
			return err
		}
	}
	if err := i.readPadding(); err != nil {
		return err
	}
	if i.objects != i.expected.Objects || i.bytes != i.expected.Bytes {
		return fmt.Errorf("%w: it has %d objects of %d bytes, its manifest says %d of %d", errBad, i.objects, i.bytes,
			i.expected.Objects, i.expected.Bytes)
	}
	if i.marker == "" {
		return fmt.Errorf("%w: the session's marker is not in it", errBad)
	}
	switch {
	case i.checking:
		return nil
	case i.existed: // the marker is stored
		i.result.Kept++
		return nil
	}
	if err := i.recordEnd(); err != nil {
		return err
	}
	return i.store(i.marker, strings.NewReader(""), 0)
}

// recordEnd stores when a session ended, if nothing else shows that because its last head was lost: the imported
// objects have other times than the original ones.
func (i *importer) recordEnd() error {
	if err := i.signs.ReadLife(i.ctx, i.opts.Store); err != nil {
		return err
	}
	now, last := time.Now(), i.signs.LastWrite
	if last.IsZero() || now.Sub(last) <= inventory.Abandoned || !i.signs.Life(now, inventory.Abandoned).End.IsZero() {
		return nil
	}
	return inventory.RecordEnd(i.ctx, i.opts.Store, i.opts.Root, i.ref, last)
}

// listStored sets existed and stored: what is stored of the session before the import.
func (i *importer) listStored() error {
	_, err := i.opts.Store.Stat(i.ctx, layout.MarkerKey(i.opts.Root, i.ref))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	i.existed, i.stored = err == nil, make(map[string]int64)
	for o, err := range i.opts.Store.List(i.ctx, layout.Prefix(i.opts.Root, i.ref), blob.ListOptions{}) {
		if err != nil {
			return err
		}
		if i.stored[o.Key] = o.Size; len(i.stored) > maxObjects {
			return fmt.Errorf("more than %d objects of the session are stored", maxObjects)
		}
	}
	return nil
}

// checkAdded returns an error if the session is stored and the archive would add objects to it without Options.Add.
func (i *importer) checkAdded() error {
	if !i.existed || i.added == 0 || i.opts.Add {
		return nil
	}
	return fmt.Errorf("%w: the session is stored already, without %d of the archive's %d objects, so nothing was "+
		"stored; to add them, say --add; to replace the session, remove it first with `historyserver rm`",
		os.ErrExist, i.added, i.objects)
}

// importer reads an archive once.
type importer struct {
	ctx  context.Context
	opts Options
	// checking says that this is the first reading: entries are checked, and nothing is stored.
	checking bool
	existed  bool             // the session's marker was stored before the import
	stored   map[string]int64 // sizes of the session's objects that were stored before the import, by key
	added    int              // while checking: how many objects of the archive are not stored

	in *tar.Reader
	// stream is what in reads.
	stream io.Reader

	expected manifest
	ref      layout.Session
	seen     map[string]bool // keys of the entries so far
	objects  int             // entries so far
	bytes    int64           // of them
	marker   string          // the marker's key below Options.Root, once its entry was seen
	signs    *lifetime.Signs // by the times that the objects have in the archive
	result   Result
}

// readManifest reads and checks the archive's first file, which says what the others are.
func (i *importer) readManifest() error {
	h, err := i.in.Next()
	if err != nil {
		return fmt.Errorf("%w: want a file made by `historyserver export`: %w", errBad, err)
	}
	if h.Name != manifestName || h.Size > maxManifest {
		return fmt.Errorf("%w: want a file made by `historyserver export`: it begins with %.100q", errBad, h.Name)
	}
	data, err := io.ReadAll(i.in)
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	if err := json.Unmarshal(data, &i.expected); err != nil {
		return fmt.Errorf("%w: its manifest: %w", errBad, err)
	}
	m := &i.expected
	if m.Format != format {
		return fmt.Errorf("%w: its format is %d, this version reads %d", errBad, m.Format, format)
	}
	if m.Bytes > i.opts.MaxBytes {
		return fmt.Errorf("%w: it holds %d bytes, but only %d are allowed: raise --max-size if you trust it", errBad,
			m.Bytes, i.opts.MaxBytes)
	}
	if m.Objects > maxObjects {
		return fmt.Errorf("%w: it holds %d objects, but only %d are allowed", errBad, m.Objects, maxObjects)
	}
	if i.ref, err = m.Session.ref(); err != nil {
		return fmt.Errorf("%w: the session it names: %w", errBad, err)
	}
	i.signs = lifetime.NewSigns(i.opts.Root, i.ref, time.Time{})
	i.opts.Progress.Expect(m.Objects, m.Bytes) // each time it is read
	return nil
}

// readPadding reads what follows the tar file, up to the end, where the decoder compares the checksum of the archive.
func (i *importer) readPadding() error {
	n, err := io.Copy(io.Discard, io.LimitReader(i.stream, maxPadding+1))
	if err == nil && n > maxPadding {
		err = errors.New("more data follows after its end")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	return nil
}

// readEntry checks one entry's header and, except for the marker and what is made from other objects, checks or stores
// its content.
func (i *importer) readEntry(h *tar.Header) error {
	key, err := local.Key(h.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	left := i.expected.Bytes - i.bytes
	i.objects++
	i.bytes += h.Size
	switch {
	case h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%w: %.300q is not a file", errBad, h.Name)
	case i.seen[key]:
		return fmt.Errorf("%w: %.300q is in it twice", errBad, h.Name)
	case h.Size < 0 || h.Size > left || i.objects > i.expected.Objects:
		return fmt.Errorf("%w: it holds more than its manifest says", errBad)
	}
	i.seen[key] = true
	target := i.opts.Root + strings.TrimPrefix(key, layout.DefaultRoot)
	if key == layout.MarkerKey(layout.DefaultRoot, i.ref) {
		if h.Size != 0 {
			return fmt.Errorf("%w: its marker is not empty", errBad)
		}
		i.marker = target
		i.opts.Progress.Did(1, 0)
		return nil
	}
	if inventory.IsDerived(layout.DefaultRoot, i.ref, key) {
		i.opts.Progress.Did(1, h.Size)
		return nil
	}
	if !strings.HasPrefix(key, layout.Prefix(layout.DefaultRoot, i.ref)) {
		return fmt.Errorf("%w: %.300q does not belong to its session", errBad, h.Name)
	}
	parsed, _ := layout.ParseObject(i.opts.Root, i.ref, target) // zero after an error, as Add takes it
	i.signs.Add(parsed, blob.Object{Key: target, Size: h.Size, ModTime: h.ModTime})
	handle := i.storeEntry
	if i.checking {
		handle = i.checkEntry
	}
	if err := handle(target, h.Size); err != nil {
		return fmt.Errorf("%.300q: %w", h.Name, err)
	}
	i.opts.Progress.Did(1, h.Size)
	return nil
}

// checkEntry is what the first reading does with the current entry, of size bytes: it is errOtherStored if another
// content is stored under the key target. What is not stored, the second reading adds: it is counted, and read here, so
// that damage is found before anything is stored.
func (i *importer) checkEntry(target string, size int64) error {
	stored, known := i.stored[target]
	switch {
	case !known:
		i.added++
		_, err := io.Copy(io.Discard, i.in)
		return err
	case target == layout.MetadataKey(i.opts.Root, i.ref, layout.Joined):
		return nil // it may differ: recordEnd may have stored a later end
	case stored != size:
		return errOtherStored
	}
	same, err := i.sameContent(target, i.in)
	if err == nil && !same {
		err = errOtherStored
	}
	return err
}

// storeEntry is what the second reading does with the current entry, of size bytes: it stores it under the key target,
// unless it was stored before the import.
func (i *importer) storeEntry(target string, size int64) error {
	if _, known := i.stored[target]; known {
		i.result.Kept++
		return nil
	}
	body, closeBody, err := i.buffer(size)
	if err != nil {
		return err
	}
	defer closeBody()
	return i.store(target, body, size)
}

// errOtherStored says that an object is stored with other content.
var errOtherStored = fmt.Errorf("%w with other content: the session is stored already; to replace it, remove it first "+
	"with `historyserver rm`", os.ErrExist)

// store creates an object of size bytes and counts it as stored, or as kept if it exists with the same content. The
// error is errOtherStored if it exists with other content.
func (i *importer) store(key string, body io.ReadSeeker, size int64) error {
	err := i.opts.Store.Create(i.ctx, key, body)
	if err == nil {
		i.result.Stored++
		i.result.Bytes += size
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	// Somebody has stored it since the archive was checked.
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	same, err := i.sameContent(key, body)
	if err == nil && !same {
		err = errOtherStored
	}
	if err == nil {
		i.result.Kept++
	}
	return err
}
