// Package compact joins the chunks of each stream into one object.
//
// A hundred nodes store 144,000 chunks a day when no job runs, and each costs a reader one request. Joining is safe
// while readers and other compactors work, and can be interrupted at any point. The joined object replaces the first
// chunk in one step. Readers take each byte from one chunk, even if chunks overlap. Later chunks are deleted only after
// the joined object was read back and holds their bytes. If a reader has listed a chunk that is deleted since, it finds
// the bytes in the joined object. A listing is not of one moment, so chunks are deleted some time after the object was
// stored that joins them: a listing that began before shows the chunks, one that begins later the joined object.
//
// Streams are joined in batches, the smallest first: what is done of a large session stays done if time runs out.
package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/carry"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// Options of Session.
type Options struct {
	Store blob.Store
	Root  string
	// Quiet is the time without writes after which a session without an end marker may have ended; see Candidates.
	Quiet    time.Duration
	Progress *progress.Counter
}

// settled is how long after the end of an hour its events count as complete: they come late if a node was cut off. An
// even later event becomes a chunk of its own.
const settled = time.Hour

// concurrency is how many streams are joined at a time.
const concurrency = 4

// batchBytes and batchChunks limit the stored bytes and the chunks of a batch; a stream that has more is a batch of its
// own.
const batchBytes, batchChunks = 1 << 30, 5000

// listingTimes is how many times the duration of its own listing compaction waits before it deletes chunks, because
// readers may list more slowly.
const listingTimes = 4

// Result says what was compacted.
type Result struct {
	Joined  int   `json:"joined"`  // streams
	Removed int   `json:"removed"` // chunks
	Bytes   int64 `json:"bytes"`   // of the joined objects, as stored
	// Left has the key of each stream that was not joined, and why, such as that it is damaged.
	Left []string `json:"left,omitempty"`
	// Over says that the session has ended. Then nothing new can be joined until more is stored.
	Over bool `json:"-"`
}

// errSkipped says that a stream stays as it is.
var errSkipped = errors.New("left as it is")

// Candidates returns the streams of a session that have chunks to join: all streams of an ended session, or the hours
// that are over of a running one. It returns none for a session without an end marker that was not written for longer
// than quiet but is not abandoned yet: joining writes objects, and the time of the last write is the only sign of when
// such a session ended.
func Candidates(s *inventory.Session, quiet time.Duration, now time.Time) []*inventory.Stream {
	_, over := s.Over(now)
	if !over && now.Sub(s.LastWrite) > quiet {
		return nil
	}
	var found []*inventory.Stream
	for _, stream := range s.Streams {
		if len(stream.Chunks) > 1 && (over || isClosedHour(stream, now)) {
			found = append(found, stream)
		}
	}
	return found
}

// isClosedHour says whether a stream of a running session is an hour that is over. It is false if chunks are
// compressed, because their collector computes from the sizes of the chunks how much it has stored.
func isClosedHour(stream *inventory.Stream, now time.Time) bool {
	if stream.Kind == layout.Log || now.Before(stream.Hour.Add(time.Hour+settled)) {
		return false
	}
	for _, c := range stream.Chunks {
		if c.Compression != layout.Plain {
			return false
		}
	}
	return true
}

// Session joins the chunks of a session's candidates. lease.ErrBusy says that another command works on the session.
func Session(ctx context.Context, ref layout.Session, opts Options) (result Result, err error) {
	s, err := inventory.List(ctx, opts.Store, opts.Root, ref)
	if err != nil {
		return result, err
	}
	_, result.Over = s.Over(time.Now())
	if len(Candidates(s, opts.Quiet, time.Now())) == 0 {
		return result, nil
	}
	err = lease.Do(ctx, opts.Store, opts.Root, ref, func(ctx context.Context) error {
		if err := lease.CheckClock(ctx, opts.Store, opts.Root, ref); err != nil {
			return err
		}
		// Another compactor may have changed the session until now.
		began := time.Now()
		if s, err = inventory.List(ctx, opts.Store, opts.Root, ref); err != nil {
			return err
		}
		return result.compactStreams(ctx, opts, s, listingTimes*time.Since(began))
	})
	return result, err
}

// compactStreams joins the candidates of a session whose lease is held, batch by batch: it reads the chunks, stores the
// joined objects, waits, and deletes the chunks. The findings that are stored of the session are carried on.
func (r *Result) compactStreams(ctx context.Context, opts Options, s *inventory.Session, wait time.Duration) error {
	candidates := Candidates(s, opts.Quiet, time.Now())
	if len(candidates) == 0 {
		return nil
	}
	kept, err := carry.Read(ctx, opts.Store, opts.Root, s)
	if err != nil {
		return err
	}
	for _, stream := range candidates {
		opts.Progress.Expect(len(stream.Chunks), stream.Bytes())
	}
	recorded := false // when the session ended
	for _, batch := range divide(candidates) {
		var joined []*joining
		for _, stream := range batch {
			joined = append(joined, &joining{store: opts.Store, stream: &stream.Stream})
		}
		if joined, err = r.forEach(ctx, joined, func(j *joining) error {
			defer opts.Progress.Did(len(j.stream.Chunks), j.stream.Bytes())
			return j.plan()
		}); err != nil {
			return err
		}
		if !recorded && slices.ContainsFunc(joined, func(j *joining) bool { return !j.isStored() }) {
			// Once a first object is written again, the store's times no longer show when the session ended. If there
			// is nothing to join, nothing is recorded either: the record is a write, and the session's age counts from
			// its last write.
			if end, over := s.Over(time.Now()); over {
				if err := inventory.RecordEnd(ctx, opts.Store, opts.Root, s.Ref, end); err != nil {
					return err
				}
			}
			recorded = true
		}
		if joined, err = r.forEach(ctx, joined, (*joining).join); err != nil {
			return err
		}
		if len(joined) == 0 {
			continue
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
		joined, err = r.forEach(ctx, joined, (*joining).removeJoined)
		for _, j := range joined {
			r.Joined++
			r.Bytes += j.size
		}
		if err != nil {
			return err
		}
		if err := kept.Keep(ctx, opts.Store, opts.Root, joinedOnly(opts.Root, s, candidates)); err != nil {
			return err
		}
	}
	return nil
}

// divide divides streams, the smallest first, into parts of at most batchBytes and batchChunks, or of one stream.
func divide(streams []*inventory.Stream) (all [][]*inventory.Stream) {
	var size int64
	var n int
	for _, stream := range slices.SortedStableFunc(slices.Values(streams), func(a, b *inventory.Stream) int {
		return cmp.Compare(a.Bytes(), b.Bytes())
	}) {
		size, n = size+stream.Bytes(), n+len(stream.Chunks)
		if len(all) == 0 || size > batchBytes || n > batchChunks {
			all = append(all, nil)
			size, n = stream.Bytes(), len(stream.Chunks)
		}
		all[len(all)-1] = append(all[len(all)-1], stream)
	}
	return all
}

// joinedOnly returns a function that says whether a session's objects now have the same content as before: nothing
// differs but that chunks of joined streams became one, and that layout.Joined is stored.
func joinedOnly(root string, was *inventory.Session, joined []*inventory.Stream) func(now []inventory.Object) bool {
	isJoined := make(map[string]bool) // by the stream's key
	for _, stream := range joined {
		isJoined[stream.Key] = true
	}
	record := layout.MetadataKey(root, was.Ref, layout.Joined)
	before, unjoined := make(map[string]blob.Object), 0
	for _, o := range carry.Sources(root, was) {
		if o.Object.Key == record {
			continue
		}
		before[o.Object.Key] = o.Object
		if !isJoined[o.Parsed.Stream] {
			unjoined++
		}
	}
	return func(now []inventory.Object) bool {
		missing := unjoined // objects of before that are not joined, and were not found yet
		for _, o := range now {
			old, known := before[o.Object.Key]
			switch {
			case known && old.Size == o.Object.Size && old.ETag == o.Object.ETag:
				if !isJoined[o.Parsed.Stream] {
					missing--
				}
			case isJoined[o.Parsed.Stream] && o.Parsed.Offset == 0: // the joined object
			case o.Object.Key == record:
			default:
				return false // somebody else stored or changed it
			}
		}
		return missing == 0
	}
}

// forEach calls do for all joinings, some at a time, and returns those for which it succeeded. Streams that cannot be
// joined are added to r.Left and stay as they are; any other error is returned.
func (r *Result) forEach(ctx context.Context, all []*joining, do func(*joining) error) (done []*joining, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, j := range all {
		g.Go(func() error {
			j.ctx = ctx
			err := do(j)
			mu.Lock()
			defer mu.Unlock()
			r.Removed += j.removed
			switch {
			case err == nil:
				done = append(done, j)
			case errors.Is(err, errSkipped) || errors.Is(err, chunks.ErrDamaged) || chunks.Changed(err):
				r.Left = append(r.Left, fmt.Sprintf("%s: %v", j.stream.Key, err))
			default:
				return fmt.Errorf("join the chunks of %s: %w", j.stream.Key, err)
			}
			return nil
		})
	}
	err = g.Wait()
	return done, err
}
