// Package verify reads all objects of a session and reports the damaged ones.
package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// Damage is one error that was found.
type Damage struct {
	Key  string `json:"key"`
	What string `json:"what"`
}

// Report is the result of verifying a session.
type Report struct {
	Objects int      `json:"objects"`
	Bytes   int64    `json:"bytes"` // as stored
	Damage  []Damage `json:"damage"`
}

// isFolder says whether an object is one that consoles and file systems over object stores make for a folder.
func isFolder(o blob.Object) bool {
	return o.Size == 0 && (strings.HasSuffix(o.Key, "/") || strings.HasSuffix(o.Key, "_$folder$"))
}

// concurrency is how many streams are read at a time.
const concurrency = 8

// Session reads all objects of a session, and returns which are damaged. The error is the store's. Objects with foreign
// keys are reported and not read; folders, which some stores list as objects, are not damage.
func Session(ctx context.Context, store blob.Reader, s *inventory.Session, p *progress.Counter) (Report, error) {
	v := &verifier{store: store, p: p, report: Report{Damage: []Damage{}}}
	for _, o := range s.Foreign {
		if isFolder(o) {
			continue
		}
		v.addDamage(o.Key, "is not a key of the layout: nothing reads it")
	}
	objects := s.Objects()
	v.report.Objects = len(objects)
	for _, o := range objects {
		v.report.Bytes += o.Size
		p.Expect(1, o.Size)
	}
	for _, o := range s.Foreign { // they are among the objects, but not read
		p.Did(1, o.Size)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, stream := range s.Streams {
		g.Go(func() error { return v.readStream(ctx, &stream.Stream) })
	}
	for _, o := range s.Others {
		g.Go(func() error { return v.readObject(ctx, o) })
	}
	err := g.Wait()
	slices.SortFunc(v.report.Damage,
		func(a, b Damage) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.What, b.What)) })
	return v.report, err
}

// verifier verifies the objects of one session.
type verifier struct {
	store blob.Reader
	p     *progress.Counter

	mu     sync.Mutex
	report Report
}

// addDamage adds a damage to the report. The text goes on after the object's key, such as "is not whole JSON".
func (v *verifier) addDamage(key, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Damage = append(v.report.Damage, Damage{key, fmt.Sprintf(format, args...)})
}

// readStream reads a whole stream. Except in logs, it checks that each line is JSON.
func (v *verifier) readStream(ctx context.Context, stream *chunks.Stream) error {
	r := &tolerant{verifier: v, Reader: chunks.NewReader(ctx, v.store, stream, chunks.Options{
		Exact: true, OnChunk: func(c chunks.Chunk) { v.p.Did(1, c.Object.Size) },
	})}
	defer r.Close()
	if stream.Kind == layout.Log {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	return checkLines(r, func(format string, args ...any) { v.addDamage(stream.Key, format, args...) })
}

// maxObject bounds the memory for one object, in bytes. Of a larger object only the size is checked.
const maxObject = 256 << 20

// readObject reads an object that is not a chunk of a stream, and checks its form by its kind. An object of maxObject
// bytes or more is only read.
func (v *verifier) readObject(ctx context.Context, o inventory.Object) error {
	defer v.p.Did(1, o.Object.Size)
	body := blob.Body(ctx, v.store, o.Object)
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxObject))
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	switch {
	case errors.Is(err, blob.ErrArchived):
		v.addDamage(o.Object.Key, "is archived by the store: restore it")
		return nil
	case chunks.Changed(err) || errors.Is(err, io.ErrUnexpectedEOF):
		v.addDamage(o.Object.Key, "cannot be read as it was listed (%v): verify again", err)
		return nil
	case err != nil:
		return err
	case len(data) == maxObject:
		return nil
	}
	switch text := bytes.TrimSpace(data); {
	case o.Parsed.Kind == layout.Index && !strings.HasSuffix(o.Parsed.Path, ".parquet"):
		// It has findings, which are made again if they are damaged.
	case o.Parsed.Kind == layout.Index:
		const magic = "PAR1" // at both ends of a Parquet file
		if len(data) < 2*len(magic) || !bytes.HasPrefix(data, []byte(magic)) || !bytes.HasSuffix(data, []byte(magic)) {
			v.addDamage(o.Object.Key, "is not a Parquet file: write the index again with `historyserver index --force`")
		}
	case o.Parsed.Kind == layout.EmptyLogs:
		if len(data) > 0 && data[len(data)-1] != '\n' {
			v.addDamage(o.Object.Key, "ends within a line: the empty log that it names last is not shown")
		}
	case o.Parsed.Kind == layout.Metadata || (len(text) > 0 && (text[0] == '{' || text[0] == '[')):
		if !json.Valid(data) && !json.Valid(new(jsonstream.Finite).Append(nil, data)) { // Ray's may have NaN
			v.addDamage(o.Object.Key, "is not whole JSON")
		}
	}
	return nil
}

// tolerant reads a stream, reports its gaps, and reads on after them. In place of a gap it returns a newline, so that
// the following bytes are not taken for the rest of a cut line.
type tolerant struct {
	*chunks.Reader
	verifier *verifier
}

// Read implements io.Reader. A gap counts as damage, and reads as a line end, so that what is before it and what is
// behind it are no one line.
func (t *tolerant) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	gap, isGap := errors.AsType[*chunks.Gap](err)
	if !isGap {
		return n, err
	}
	advice := ""
	if chunks.Changed(gap) {
		advice = ": verify again"
	}
	t.verifier.addDamage(gap.Key, "%s%s", gap.What(), advice)
	p[0] = '\n'
	return 1, nil
}
