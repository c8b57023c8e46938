package session

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
	"unsafe"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// listing is what can be learned of a session from the names of its objects.
type listing struct {
	events    []*chunks.Stream // the largest first
	logs      *sessionlogs.Set
	snapshots *snapshots.Set
	endStored bool // an end is stored
	life      lifetime.Life
	foreign   int // objects that do not belong to the layout
	sources   Sources
	version   listingVersion
	bytes     int64 // memory that the names of events' objects take
}

// listingVersion changes when anything is stored.
type listingVersion struct {
	objects int
	bytes   int64
	last    time.Time // when the newest object was written
}

// add counts an object.
func (v *listingVersion) add(o blob.Object) {
	v.objects++
	v.bytes += o.Size
	if o.ModTime.After(v.last) {
		v.last = o.ModTime
	}
}

func (s *source) list(ctx context.Context) (*listing, error) {
	return s.sortObjects(ctx, s.store.List(ctx, layout.Prefix(s.root, s.ref), blob.ListOptions{}))
}

// sortObjects sorts the listed objects, which come in the order of their keys, into events, logs and snapshots. From
// time to time it checks that the names fit into the memory for the load.
func (s *source) sortObjects(ctx context.Context, objects iter.Seq2[blob.Object, error]) (*listing, error) {
	root, ref := s.root, s.ref
	found := &listing{logs: sessionlogs.New(s.store),
		snapshots: snapshots.New(s.store, snapshots.Options{Memory: s.opts.Memory, Grew: s.opts.Grew})}
	streams := make(map[string]*chunks.Stream)
	hash := newSourceHash()
	signs := lifetime.NewSigns(root, ref, time.Time{})
	for object, err := range objects {
		if err == nil && (found.version.objects+1)%listingStep == 0 {
			err = tasktable.CheckBudget(s.opts.Reserve, found.memory())
		}
		if err != nil {
			return nil, fmt.Errorf("list session %s: %w", ref, err)
		}
		o, err := layout.ParseObject(root, ref, object.Key)
		signs.Add(o, object)
		found.version.add(object)
		if err != nil {
			found.foreign++
			continue
		}
		hash.add(o, object)
		switch o.Kind {
		case layout.NodeEvents, layout.JobEvents:
			stream := streams[o.Stream]
			if stream == nil {
				stream = &chunks.Stream{Key: o.Stream, Kind: o.Kind}
				streams[o.Stream] = stream
				found.events = append(found.events, stream)
			}
			stream.Add(o, object)
			// twice, because lists grow by doubling
			found.bytes += int64(2*unsafe.Sizeof(chunks.Chunk{})) + int64(len(object.Key)+len(object.ETag))
			s.opts.Progress.Expect(1, object.Size)
		case layout.Log:
			found.logs.Add(o, object)
		case layout.EmptyLogs:
			found.logs.AddList(o, layout.LogPrefix(root, ref, o.Node), object)
		case layout.Snapshot, layout.Series:
			found.snapshots.Add(o, object)
		}
	}
	if err := signs.ReadLife(ctx, s.store); err != nil {
		return nil, fmt.Errorf("list session %s: %w", ref, err)
	}
	found.endStored = signs.EndStored()
	found.life = signs.Life(time.Now(), lifetime.Idle)
	found.sources.Fingerprint = hash.sum()
	for _, stream := range found.events {
		stream.Sort()
	}
	// The largest first: a large stream begun last would keep one reader busy after all others are done.
	slices.SortFunc(found.events, func(a, b *chunks.Stream) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.Key, b.Key))
	})
	return found, nil
}

// listingStep is how many objects are listed between two checks of the memory they take.
const listingStep = 10_000

// readLists reads the lists of empty logs, those that are new since former.
func (l *listing) readLists(ctx context.Context, former *Session, reserve func(total int64) bool) error {
	var before *sessionlogs.Set
	if former != nil {
		before = former.Logs
	}
	return l.logs.ReadLists(ctx, before,
		func(bytes int64) error { return tasktable.CheckBudget(reserve, l.bytes+bytes) })
}

// memory is about how many bytes the listing holds.
func (l *listing) memory() int64 {
	return l.bytes + l.logs.MemoryBytes() + l.snapshots.MemoryBytes()
}

// maxListsBytes bounds the memory for names of empty logs in a listing that counts no other.
const maxListsBytes = 256 << 20

// List returns a session of which only the names of objects are read: its Logs and Snapshots are known, its tables are
// missing, and it cannot be refreshed.
func List(ctx context.Context, store blob.Reader, root string, ref layout.Session) (*Session, error) {
	s := newSource(store, root, ref, Options{})
	found, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	allowed := found.memory() + maxListsBytes
	if err := found.readLists(ctx, nil, func(total int64) bool { return total <= allowed }); err != nil {
		return nil, fmt.Errorf("list session %s: %w", ref, err)
	}
	return s.newSession(found), nil
}

// newSession makes a session of what was listed, without tables.
func (s *source) newSession(found *listing) *Session {
	out := &Session{Ref: s.ref, source: s, fingerprint: found.sources.Fingerprint}
	out.setListing(found)
	return out
}

// shareLogs gives nodes without logs those of another node of the same machine: raylets of one session on one machine
// write into one folder, whose logs are stored once. It is called when both the listing and Nodes are known.
func (s *Session) shareLogs() {
	type machine struct{ ip, hostname string }
	stored, logsOf := map[rayid.Node]bool{}, map[machine]rayid.Node{}
	for _, id := range s.Logs.Nodes() {
		stored[id] = true
	}
	for _, n := range s.Nodes {
		if n.Hostname != "" && stored[n.ID] {
			logsOf[machine{n.IP, n.Hostname}] = n.ID
		}
	}
	for _, n := range s.Nodes {
		if with, ok := logsOf[machine{n.IP, n.Hostname}]; ok && with != n.ID {
			s.Logs.Share(n.ID, with)
		}
	}
}

// setListing gives the session what was listed, besides what its tables are made of.
func (s *Session) setListing(found *listing) {
	s.Logs, s.Snapshots, s.Foreign = found.logs, found.snapshots, found.foreign
	s.Life, s.EndStored, s.stored = found.life, found.endStored, found.version.last
	s.objectCount = found.version.objects
}
