// Package inventory tells what is stored of a session, and reads it strictly: for commands that check, join, move and remove it.
//
// Package session reads the same objects to show them, and makes the best of what is damaged. Here damage is an error.
package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Chunk is one stored object of a whole.
type Chunk struct {
	Object blob.Object
	// Offset is of the chunk's first byte in the whole, uncompressed.
	Offset      int64
	Compression layout.Compression
}

// Whole is what grew in the cluster: a log, an hour's events, an hour's hardware figures.
type Whole struct {
	Key    string
	Kind   layout.Kind
	Path   string    // a log's, below its node's logs folder
	Hour   time.Time // of events and hardware figures, UTC
	Chunks []Chunk   // in order of their offsets; of several at one offset the plain one first, as readers take them
}

// Bytes are those stored.
func (w *Whole) Bytes() (n int64) {
	for _, c := range w.Chunks {
		n += c.Object.Size
	}
	return n
}

// FirstKey is the key of the whole's first chunk when it is stored with a compression, and so that of all of it in one object.
func (w *Whole) FirstKey(c layout.Compression) string {
	if w.Kind == layout.Log {
		return layout.LogChunkKey(w.Key, 0, c)
	}
	return layout.ChunkKey(w.Key, 0, c)
}

// Single is an object that is stored at once.
type Single struct {
	Object blob.Object
	Parsed layout.Object
}

// Session is what is stored of one session.
type Session struct {
	Ref     layout.Session
	Wholes  []*Whole // in order of their keys
	Singles []Single // snapshots, facts and tables of the index
	Foreign []blob.Object
	// LastWrite is when the last object was stored. An index does not count.
	LastWrite time.Time
	// Ended says that session/end.json is there.
	Ended bool
}

// List lists a session.
func List(ctx context.Context, store blob.Reader, root string, ref layout.Session) (*Session, error) {
	s := &Session{Ref: ref}
	wholes := make(map[string]*Whole)
	for object, err := range store.List(ctx, layout.Prefix(root, ref), blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list session %s: %w", ref, err)
		}
		s.add(root, wholes, object)
	}
	for _, w := range s.Wholes {
		slices.SortFunc(w.Chunks, func(a, b Chunk) int {
			return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Compression, b.Compression), cmp.Compare(a.Object.Key, b.Object.Key))
		})
	}
	slices.SortFunc(s.Wholes, func(a, b *Whole) int { return cmp.Compare(a.Key, b.Key) })
	return s, nil
}

func (s *Session) add(root string, wholes map[string]*Whole, object blob.Object) {
	o, err := layout.ParseObject(root, s.Ref, object.Key)
	if err != nil {
		s.Foreign = append(s.Foreign, object)
		return
	}
	if o.Kind != layout.Index && object.ModTime.After(s.LastWrite) {
		s.LastWrite = object.ModTime
	}
	switch o.Kind {
	case layout.NodeEvents, layout.JobEvents, layout.Log, layout.Series:
		w := wholes[o.Whole]
		if w == nil {
			w = &Whole{Key: o.Whole, Kind: o.Kind, Path: o.Path, Hour: o.Hour}
			wholes[o.Whole] = w
			s.Wholes = append(s.Wholes, w)
		}
		w.Chunks = append(w.Chunks, Chunk{Object: object, Offset: o.Offset, Compression: o.Compression})
	default:
		s.Singles = append(s.Singles, Single{Object: object, Parsed: o})
		s.Ended = s.Ended || object.Key == layout.FactsKey(root, s.Ref, layout.End)
	}
}

// Objects are all objects of the session but its marker, in order of their keys.
func (s *Session) Objects() []blob.Object {
	objects := slices.Clone(s.Foreign)
	for _, w := range s.Wholes {
		for _, c := range w.Chunks {
			objects = append(objects, c.Object)
		}
	}
	for _, o := range s.Singles {
		objects = append(objects, o.Object)
	}
	slices.SortFunc(objects, func(a, b blob.Object) int { return cmp.Compare(a.Key, b.Key) })
	return objects
}

// Usage is how much is stored of one kind.
type Usage struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Wholes are how many objects it could be: see package compact.
	Wholes int `json:"wholes"`
}

func (u *Usage) add(objects int, bytes int64) {
	u.Objects += objects
	u.Bytes += bytes
	u.Wholes++
}

// Usage tells how much is stored, by the name of a kind: events, logs, series, snapshots, facts, index, foreign.
func (s *Session) Usage() map[string]Usage {
	usage := make(map[string]*Usage)
	of := func(name string) *Usage {
		if usage[name] == nil {
			usage[name] = new(Usage)
		}
		return usage[name]
	}
	for _, w := range s.Wholes {
		of(kindNames[w.Kind]).add(len(w.Chunks), w.Bytes())
	}
	for _, o := range s.Singles {
		of(kindNames[o.Parsed.Kind]).add(1, o.Object.Size)
	}
	for _, o := range s.Foreign {
		of("foreign").add(1, o.Size)
	}
	out := make(map[string]Usage, len(usage))
	for name, u := range usage {
		out[name] = *u
	}
	return out
}

var kindNames = map[layout.Kind]string{
	layout.NodeEvents: "events", layout.JobEvents: "events", layout.Log: "logs", layout.Series: "series",
	layout.Snapshot: "snapshots", layout.Facts: "facts", layout.Index: "index",
}
