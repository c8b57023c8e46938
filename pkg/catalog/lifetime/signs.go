package lifetime

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Limits of what is kept of one session. What exceeds them belongs to damaged or hostile data.
const (
	maxMarks = 16     // starts, and ends: the first and the newest
	maxNodes = 20_000 // further nodes count as one
)

// Signs are what a listing of a session's objects says about its life. The zero value with a Session is ready for Add.
type Signs struct {
	// Marked is when the session's marker was stored; zero: not known.
	Marked time.Time
	// LastWrite is when the newest object was stored; objects of indexes do not count. Zero: there is none.
	LastWrite time.Time
	// Start and End are what the metadata objects say, after Read: what the first start knew, and what the newest end
	// knew.
	Start layout.StartMetadata
	End   layout.EndMetadata

	ref          layout.Session
	root         string
	first        time.Time // when the oldest object was stored
	starts, ends []mark
	joined       mark                   // what compaction recorded; zero: nothing
	nodes        map[rayid.Node]*writes // the zero ID is for objects that belong to no node
	named        time.Time              // the latest time in an object's name; for an hour, its start
	until        time.Time              // likewise; for an hour, its end
	hour         time.Time              // the earliest hour of which there are events
	// ahead is how far the head's clock is ahead of the store's: by so much answers seem to be stored before they were
	// taken. The head's recorded start does not show this: it is made from the session's name, which may have the local
	// time of another zone.
	ahead time.Duration
}

// mark is a metadata object: a head started, or ended.
type mark struct {
	key        string
	stored     time.Time
	version    int64 // Unix ms in the key, by the collector's clock; 0 for the session's first
	start, end time.Time
	node       rayid.Node
}

// writes are when objects of one node were stored.
type writes struct {
	first, last time.Time
	// grown is like last without the first chunks of streams, which compaction replaces.
	grown time.Time
}

// NewSigns returns the signs of a session of which no object is listed yet. marked is when its marker was stored.
func NewSigns(root string, ref layout.Session, marked time.Time) *Signs {
	return &Signs{Marked: marked, ref: ref, root: root, nodes: make(map[rayid.Node]*writes)}
}

// Add adds a listed object of the session. parsed is what layout.ParseObject returned for its key. If it is zero, as
// after an error, no collector wrote the object, and it does not count: it may be the folder of a console, or a file of
// a program that mounts the bucket. Objects that the server made from others (Derived) do not count either.
//
// It notes when objects were stored, of each node too, and the latest time in their names: when a snapshot was taken
// or an hour began (f.named), and the same with the hour's end (f.until). A snapshot that seems to be stored before it
// was taken shows how far the head's clock is ahead.
func (f *Signs) Add(parsed layout.Object, o blob.Object) {
	if parsed.Kind == 0 || parsed.Derived() {
		return
	}
	f.LastWrite, f.first = Latest(f.LastWrite, o.ModTime), earliest(f.first, o.ModTime)
	switch {
	case parsed.Kind == layout.Metadata:
		f.addMark(parsed, o)
		return
	case parsed.Kind == layout.Snapshot && parsed.Offset > 0:
		taken := validOrZero(time.UnixMilli(parsed.Offset))
		f.named, f.until = Latest(f.named, taken), Latest(f.until, taken)
		if ahead := taken.Sub(o.ModTime); ahead >= time.Second { // stores may cut times to whole seconds
			f.ahead = max(f.ahead, ahead)
		}
	case !parsed.Hour.IsZero():
		f.named, f.until = Latest(f.named, parsed.Hour), Latest(f.until, parsed.Hour.Add(time.Hour))
		if parsed.Kind == layout.NodeEvents || parsed.Kind == layout.JobEvents { // metrics may begin later
			f.hour = earliest(f.hour, validOrZero(parsed.Hour))
		}
	}
	w := f.nodes[parsed.Node]
	if w == nil && len(f.nodes) >= maxNodes { // too many nodes: this one counts as none
		parsed.Node = rayid.Node{}
		w = f.nodes[parsed.Node]
	}
	if w == nil {
		w = &writes{}
		f.nodes[parsed.Node] = w
	}
	w.first, w.last = earliest(w.first, o.ModTime), Latest(w.last, o.ModTime)
	if parsed.Offset > 0 || !parsed.Kind.InStreams() { // not a first chunk, which compaction stores again
		w.grown = Latest(w.grown, o.ModTime)
	}
}

// addMark adds a metadata object to the starts, to the ends, or as joined, by its key.
func (f *Signs) addMark(parsed layout.Object, o blob.Object) {
	m := mark{key: o.Key, stored: o.ModTime, version: parsed.Offset}
	switch parsed.Stream {
	case layout.MetadataKey(f.root, f.ref, layout.Start):
		f.starts = addMark(f.starts, m)
	case layout.MetadataKey(f.root, f.ref, layout.End):
		f.ends = addMark(f.ends, m)
	case layout.MetadataKey(f.root, f.ref, layout.Joined):
		f.joined = m
	}
}

// addMark adds a mark, in the order in which the marks were stored. If there are more than maxMarks, it keeps the first
// and the newest.
func addMark(all []mark, m mark) []mark {
	all = append(all, m)
	slices.SortFunc(all, func(a, b mark) int {
		return cmp.Or(a.stored.Compare(b.stored),
			cmp.Compare(a.version, b.version))
	})
	if len(all) > maxMarks {
		all = slices.Delete(all, 1, 2)
	}
	return all
}

// endedAt returns when the head ended: by its own clock or, if that is not known or later than the store's, when the
// mark was stored.
func (m mark) endedAt() time.Time {
	end := m.recordedEnd()
	if end.IsZero() || end.After(m.stored) {
		return m.stored
	}
	return end
}

// recordedEnd returns when the head ended by its own clock; zero if that is not stored.
func (m mark) recordedEnd() time.Time {
	if end := validOrZero(m.end); !end.IsZero() || m.version == 0 {
		return end
	}
	return validOrZero(time.UnixMilli(m.version))
}

// Read reads the metadata objects that were listed: one request for each head's start and end. Without it Life uses
// when they were stored. damaged, if set, is called for objects that cannot be parsed, or that the store has archived;
// of these only the time when they were stored counts. After an error of the store it reads the others, and returns all
// errors.
func (f *Signs) Read(ctx context.Context, store blob.Reader, damaged func(key string, err error)) error {
	return f.readMarks(ctx, store, damaged, f.starts)
}

// ReadLife reads only the objects that Life needs: usually one, the first start or the end. Those that cannot be parsed
// are not reported. If only compaction has recorded an end, all starts are needed, because it records no start.
func (f *Signs) ReadLife(ctx context.Context, store blob.Reader) error {
	switch {
	case f.hasJoined() && len(f.ends) == 0:
		return f.readMarks(ctx, store, nil, f.starts)
	case len(f.ends) == 0:
		return f.readMarks(ctx, store, nil, f.starts[:min(1, len(f.starts))])
	}
	// An end has the start of the first head, too, so only the starts of later heads are read, which may have continued
	// the session. Starts are in the order in which they were stored.
	later := slices.IndexFunc(f.starts, func(m mark) bool { return m.version > 0 })
	if later < 0 {
		later = len(f.starts)
	}
	return f.readMarks(ctx, store, nil, f.starts[later:])
}

// readMarks reads some of f.starts, all ends, and what compaction recorded, into f and the marks themselves. Objects
// that were removed since count as empty, and so do those that cannot be parsed, for which damaged is called unless it
// is nil. Other errors are joined: each object is tried.
func (f *Signs) readMarks(ctx context.Context, store blob.Reader, damaged func(key string, err error),
	starts []mark) error {
	var failed error
	read := func(m *mark, into any) {
		err := blob.ReadJSON(ctx, store, m.key, layout.MaxMetadata, into)
		switch {
		case errors.Is(err, os.ErrNotExist): // removed since it was listed
		case !errors.Is(err, blob.ErrMalformed) && !errors.Is(err, blob.ErrArchived):
			failed = errors.Join(failed, err)
		case damaged != nil:
			damaged(m.key, err)
		}
	}
	for i := range starts {
		var start layout.StartMetadata
		read(&starts[i], &start)
		starts[i].start = start.Start
		starts[i].node, _ = rayid.Parse[rayid.Node](start.NodeID) // none: not known
		f.Start = mergeStarts(f.Start, start)
	}
	for i := range f.ends {
		var end layout.EndMetadata
		read(&f.ends[i], &end)
		f.ends[i].start, f.ends[i].end = end.Start, end.End
		f.End = layout.EndMetadata{
			RayVersion: cmp.Or(end.RayVersion, f.End.RayVersion), Start: end.Start, End: end.End,
			Nodes: max(f.End.Nodes, end.Nodes),
		}
	}
	if f.hasJoined() {
		var joined layout.JoinedMetadata
		read(&f.joined, &joined)
		f.joined.end = joined.End
	}
	return failed
}

// mergeStarts returns the first start, with values from a later one where it has none.
func mergeStarts(first, later layout.StartMetadata) layout.StartMetadata {
	first.OwnerKind, first.OwnerName = cmp.Or(first.OwnerKind, later.OwnerKind),
		cmp.Or(first.OwnerName, later.OwnerName)
	first.RayVersion = cmp.Or(first.RayVersion, later.RayVersion)
	if first.Labels == nil {
		first.Labels = later.Labels
	}
	if first.Start.IsZero() {
		first.Start = later.Start
	}
	return first
}
