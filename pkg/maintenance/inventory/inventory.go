// Package inventory lists the stored objects of a session, for the commands that verify, compact, copy, export and
// remove it.
package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Stream is a log, or an hour of events, metrics or hardware figures.
type Stream struct {
	chunks.Stream
	Path string    // of a log, below its node's logs folder
	Hour time.Time // of any other stream, in UTC
}

// Object is a stored object that is read by itself: a snapshot, metadata, a list of empty logs or a table of the index.
type Object struct {
	Object blob.Object
	Parsed layout.Object
}

// Session lists the stored objects of one session.
type Session struct {
	Ref     layout.Session
	Streams []*Stream     // in order of their keys
	Others  []Object      // snapshots, metadata, lists of empty logs and tables of the index
	Foreign []blob.Object // objects whose keys the layout does not know
	// LastWrite is when the newest object was stored. Objects of the index do not count.
	LastWrite time.Time
	// Ended says that an end is stored after which the session did not continue, or that it was copied without one and
	// is abandoned, and End when that was.
	Ended bool
	End   time.Time
	// HeadStarts are when further heads of the session started.
	HeadStarts []time.Time
}

// List lists the objects of a session, its index too, and finds out whether and when it ended. Objects of streams are
// sorted into these.
func List(ctx context.Context, store blob.Reader, root string, ref layout.Session) (*Session, error) {
	s := &Session{Ref: ref}
	streams := make(map[string]*Stream)
	signs := lifetime.NewSigns(root, ref, time.Time{})
	for _, prefix := range []string{layout.Prefix(root, ref), layout.IndexPrefix(root, ref)} {
		for object, err := range store.List(ctx, prefix, blob.ListOptions{}) {
			if err != nil {
				return nil, fmt.Errorf("list session %s: %w", ref, err)
			}
			s.add(root, streams, signs, object)
		}
	}
	if err := signs.ReadLife(ctx, store); err != nil {
		return nil, fmt.Errorf("list session %s: %w", ref, err)
	}
	// Ended sessions are changed in ways that cannot be undone, so a session must be quiet for Abandoned to count as
	// ended where only times of objects show that.
	s.End, s.LastWrite = signs.Life(time.Now(), Abandoned).End, signs.LastWrite
	s.Ended = !s.End.IsZero()
	for _, stream := range s.Streams {
		stream.Sort()
	}
	slices.SortFunc(s.Streams, func(a, b *Stream) int { return cmp.Compare(a.Key, b.Key) })
	return s, nil
}

// add adds an object to its stream, to Others or, if the layout does not know its key, to Foreign. streams has the
// streams so far by key.
func (s *Session) add(root string, streams map[string]*Stream, signs *lifetime.Signs, object blob.Object) {
	o, err := layout.ParseObject(root, s.Ref, object.Key)
	signs.Add(o, object)
	if err != nil {
		s.Foreign = append(s.Foreign, object)
		return
	}
	if !o.Kind.InStreams() {
		s.Others = append(s.Others, Object{Object: object, Parsed: o})
		if o.Stream == layout.MetadataKey(root, s.Ref, layout.Start) && o.Offset > 0 {
			s.HeadStarts = append(s.HeadStarts, time.UnixMilli(o.Offset))
		}
		return
	}
	stream := streams[o.Stream]
	if stream == nil {
		stream = &Stream{Stream: chunks.Stream{Key: o.Stream, Kind: o.Kind}, Path: o.Path, Hour: o.Hour}
		streams[o.Stream] = stream
		s.Streams = append(s.Streams, stream)
	}
	stream.Add(o, object)
}

// Of returns the objects in Others of one kind; none for kinds that are stored in chunks.
func (s *Session) Of(kind layout.Kind) (objects []blob.Object) {
	for _, o := range s.Others {
		if o.Parsed.Kind == kind {
			objects = append(objects, o.Object)
		}
	}
	return objects
}

// Objects returns all objects of the session except its marker, sorted by key.
func (s *Session) Objects() []blob.Object {
	objects := slices.Clone(s.Foreign)
	for _, stream := range s.Streams {
		for _, c := range stream.Chunks {
			objects = append(objects, c.Object)
		}
	}
	for _, o := range s.Others {
		objects = append(objects, o.Object)
	}
	slices.SortFunc(objects, func(a, b blob.Object) int { return cmp.Compare(a.Key, b.Key) })
	return objects
}

// IsDerived says whether an object of a session was made from others.
func IsDerived(root string, ref layout.Session, key string) bool {
	o, err := layout.ParseObject(root, ref, key)
	return err == nil && o.Derived()
}

// Usage says how much is stored of one kind.
type Usage struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Streams is the number of objects that would be left after compaction.
	Streams int `json:"wholes"`
}

// Usage returns how much is stored of each kind. The names are: events, logs, series, metrics, grafana, snapshots,
// facts, index, foreign.
func (s *Session) Usage() map[string]Usage {
	usage := make(map[string]Usage)
	add := func(name string, objects int, bytes int64) { // a stream, or an object that is in none
		u := usage[name]
		usage[name] = Usage{Objects: u.Objects + objects, Bytes: u.Bytes + bytes, Streams: u.Streams + 1}
	}
	for _, stream := range s.Streams {
		add(stream.Kind.String(), len(stream.Chunks), stream.Bytes())
	}
	for _, o := range s.Others {
		add(o.Parsed.Kind.String(), 1, o.Object.Size)
	}
	for _, o := range s.Foreign {
		add("foreign", 1, o.Size)
	}
	return usage
}

// Summary says what is stored for a session, and under which keys of the bucket.
type Summary struct {
	Layout string `json:"layout"`
	// Prefix is the common prefix of all keys except the marker's.
	Prefix  string           `json:"prefix"`
	Marker  string           `json:"marker"`
	Usage   map[string]Usage `json:"usage"`
	Foreign []string         `json:"foreign,omitempty"`
}

// LayoutNames are the names of layouts.
var LayoutNames = map[layout.Version]string{layout.V16: "1.6", layout.V17: "1.7"}

// Summarize lists the objects of a session. bucketKey gives the whole key of the bucket for a key of the store.
func Summarize(ctx context.Context, store blob.Reader, root string, ref layout.Session,
	bucketKey func(string) string) (Summary, error) {
	s, err := List(ctx, store, root, ref)
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{
		Layout: LayoutNames[ref.Version], Prefix: bucketKey(layout.Prefix(root, ref)),
		Marker: bucketKey(layout.MarkerKey(root, ref)), Usage: s.Usage(),
	}
	for _, f := range s.Foreign {
		summary.Foreign = append(summary.Foreign, bucketKey(f.Key))
	}
	return summary, nil
}
