// Package verify reads all that is stored of a session and tells what is wrong with it.
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
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Damage is one thing that is wrong.
type Damage struct {
	Key  string `json:"key"`
	What string `json:"what"`
}

// Report is what was read of a session.
type Report struct {
	Objects int      `json:"objects"`
	Bytes   int64    `json:"bytes"` // as stored
	Damage  []Damage `json:"damage"`
}

// concurrency is how many wholes are read at a time.
const concurrency = 8

// Session reads all objects of a session. Errors are the store's; damage is in the report.
func Session(ctx context.Context, store blob.Reader, s *inventory.Session, p *inventory.Progress) (Report, error) {
	v := &verifier{store: store, p: p, report: Report{Damage: []Damage{}}}
	for _, o := range s.Foreign {
		v.damaged(o.Key, "is not a key of the layout: nothing reads it")
	}
	objects := s.Objects()
	v.report.Objects = len(objects)
	for _, o := range objects {
		v.report.Bytes += o.Size
		p.Expect(1, o.Size)
	}
	for _, o := range s.Foreign {
		p.Did(1, o.Size)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, w := range s.Wholes {
		g.Go(func() error { return v.whole(ctx, w) })
	}
	for _, o := range s.Singles {
		g.Go(func() error { return v.single(ctx, o) })
	}
	err := g.Wait()
	slices.SortFunc(v.report.Damage, func(a, b Damage) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.What, b.What)) })
	return v.report, err
}

type verifier struct {
	store blob.Reader
	p     *inventory.Progress

	mu     sync.Mutex
	report Report
}

func (v *verifier) damaged(key, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Damage = append(v.report.Damage, Damage{key, fmt.Sprintf(format, args...)})
}

func (v *verifier) whole(ctx context.Context, w *inventory.Whole) error {
	s := &stream{ctx: ctx, verifier: v, whole: w, chunks: w.Chunks}
	defer s.close()
	if w.Kind == layout.Log {
		_, err := io.Copy(io.Discard, s)
		return err
	}
	return checkLines(s, func(format string, args ...any) { v.damaged(w.Key, format, args...) })
}

// maxSingle bounds what is held of a snapshot; of larger ones only the size is checked.
const maxSingle = 256 << 20

func (v *verifier) single(ctx context.Context, o inventory.Single) error {
	defer v.p.Did(1, o.Object.Size)
	body := blob.Join(ctx, v.store, []blob.Object{o.Object})
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxSingle))
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	switch {
	case inventory.Changed(err) || errors.Is(err, io.ErrUnexpectedEOF):
		v.damaged(o.Object.Key, "cannot be read as it was listed (%v): verify again", err)
		return nil
	case err != nil:
		return err
	case len(data) == maxSingle:
		return nil
	}
	switch text := bytes.TrimSpace(data); {
	case o.Parsed.Kind == layout.Index:
		const magic = "PAR1" // at both ends of a Parquet file
		if len(data) < 2*len(magic) || !bytes.HasPrefix(data, []byte(magic)) || !bytes.HasSuffix(data, []byte(magic)) {
			v.damaged(o.Object.Key, "is not a Parquet file: write the index again with `historyserver index --force`")
		}
	case o.Parsed.Kind == layout.Facts || (len(text) > 0 && (text[0] == '{' || text[0] == '[')):
		if !json.Valid(data) {
			v.damaged(o.Object.Key, "is not whole JSON")
		}
	}
	return nil
}
