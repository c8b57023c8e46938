// Package transfer copies sessions from one store to another, from one layout to the other.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Place is where a session is.
type Place struct {
	Store blob.Store
	Root  string
	Ref   layout.Session
}

// Result is what was done.
type Result struct {
	Copied int   `json:"copied"` // objects
	Bytes  int64 `json:"bytes"`  // of them
	// Kept are objects that were there: of an earlier copy, or joined there since.
	Kept int `json:"kept"`
	// Skipped are the keys of objects that are not copied, for they have no place in the other layout.
	Skipped []string `json:"skipped,omitempty"`
}

// concurrency is how many objects are copied at a time.
const concurrency = 8

// Copy copies a session. Objects that the target has in the same size are not copied again, so a copy that was cut short goes on, and
// one of a running session takes what came since. Of an object that exists in two sizes the larger one stays: chunks never change but by
// joining. The marker comes last: a session shows once it is whole.
func Copy(ctx context.Context, from, to Place, p *inventory.Progress) (Result, error) {
	var result Result
	s, err := inventory.List(ctx, from.Store, from.Root, from.Ref)
	if err != nil {
		return result, err
	}
	stored := make(map[string]int64)
	for o, err := range to.Store.List(ctx, layout.Prefix(to.Root, to.Ref), blob.ListOptions{}) {
		if err != nil {
			return result, fmt.Errorf("list the target: %w", err)
		}
		stored[o.Key] = o.Size
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, o := range s.Objects() {
		key, ok := rename(from, to, o.Key)
		if !ok {
			result.Skipped = append(result.Skipped, o.Key)
			continue
		}
		p.Expect(1, o.Size)
		if size, ok := stored[key]; ok && size >= o.Size && !(derived(to, key) && size != o.Size) {
			result.Kept++
			p.Did(1, o.Size)
			continue
		}
		result.Copied++
		result.Bytes += o.Size
		_, replace := stored[key]
		g.Go(func() error {
			if err := copyObject(gctx, from.Store, o, to.Store, key, replace); err != nil {
				return fmt.Errorf("copy %s: %w", o.Key, err)
			}
			p.Did(1, o.Size)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return result, err
	}
	err = to.Store.Create(ctx, layout.MetaKey(to.Root, to.Ref), strings.NewReader(""))
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return result, err
}

// derived says whether an object is made of others, so that its size says nothing of its age.
func derived(at Place, key string) bool {
	o, err := layout.ParseObject(at.Root, at.Ref, key)
	return err == nil && o.Kind == layout.Index
}

func copyObject(ctx context.Context, from blob.Reader, o blob.Object, to blob.Store, key string, replace bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	body := blob.Join(ctx, from, []blob.Object{o})
	store := to.Create
	if replace {
		store = to.Put
	}
	err := store(ctx, key, body)
	if errors.Is(err, os.ErrExist) {
		err = nil // another copy was faster
	}
	return errors.Join(err, body.Close())
}

// rename gives the key that an object has at the target; false if there is none.
func rename(from, to Place, key string) (string, bool) {
	rest := strings.TrimPrefix(key, layout.Prefix(from.Root, from.Ref))
	prefix := layout.Prefix(to.Root, to.Ref)
	o, err := layout.ParseObject(from.Root, from.Ref, key)
	switch {
	case from.Ref.Version == to.Ref.Version:
		return prefix + rest, true
	case err != nil:
		return "", false
	}
	switch o.Kind {
	case layout.Log:
		// What follows the whole's key says which chunk it is.
		return layout.LogKey(to.Root, to.Ref, o.Node, o.Path) + strings.TrimPrefix(key, o.Whole), true
	case layout.NodeEvents, layout.JobEvents:
		file := key[strings.LastIndexByte(key, '/')+1:]
		folder := "node_events/"
		if o.Kind == layout.JobEvents {
			folder = "job_events/" + layout.JobFolder(to.Ref.Version, o.Job) + "/"
		}
		if to.Ref.Version == layout.V17 {
			folder = o.Node.String() + "/" + folder
		}
		return prefix + folder + file, true
	case layout.Index:
		return "", false // made of keys that are others there
	}
	return prefix + rest, true
}
