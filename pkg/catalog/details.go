package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	// quietInterval is the longest time between two reads of an idle session's details: compaction may change its size.
	quietInterval = 24 * time.Hour
	// The details of a session that was idle for t are read again after t / quietShare, because a further head may
	// continue it. If somebody looks at the session, they are read again after t / usedShare, but not before
	// usedInterval.
	quietShare, usedShare = 2, 16
	usedInterval          = time.Minute
	// earlySecond is by how much less than an interval details count as old: the listing that asks comes an interval
	// after the last one, and the details were read some moments after that.
	earlySecond = time.Second
	// pauseShare bounds the share of time spent on the details of a growing session: reading them for t is followed by
	// a pause of pauseShare × t.
	pauseShare = 20
	// pagePause is the pause for each pageObjects objects of a growing session, which stores list with one request.
	// maxPagesPause bounds it, because a session's end is noticed that much later.
	pageObjects   = 1000
	pagePause     = 10 * time.Second
	maxPagesPause = 2 * time.Minute
)

// isDue says whether a session's details should be read, or read again; c.mu must be held. If the last reading failed,
// they should after an Interval. They always should if they were never read, or if more may be stored (c.changed). A
// session that had been quiet for long is read again less and less often, a growing one less often if it is large.
func (c *Catalog) isDue(ref layout.Session, s session) bool {
	if at, failed := c.failed[ref]; failed && time.Since(at) <= c.opts.Interval-earlySecond {
		return false
	}
	if s.facts == nil || c.changed[ref] {
		return true
	}
	age := time.Since(s.facts.Seen)
	if age < 0 {
		return true // the clock was set back
	}
	if c.wasQuiet(s) { // the longer a session has been idle, the less likely a further head continues it
		return age > s.idle()/quietShare || age > quietInterval
	}
	// The session grows. One that takes long or many requests to list is listed less often.
	pages := min(time.Duration(s.facts.Objects/pageObjects)*pagePause, maxPagesPause)
	return age > max(max(c.opts.Interval, pages)-earlySecond, pauseShare*s.took)
}

// idle is how long nothing had been stored of the session when its details were read.
func (s session) idle() time.Duration { return s.facts.Seen.Sub(s.facts.LastWrite) }

// noteUse is called when somebody looks at a session. It requests to read the details if they were never read, or if
// a further head may have continued the idle session since they were read. If the session had been idle for t, that is
// checked after t / usedShare, but at least usedInterval and at most quietInterval. c.mu must be held.
func (c *Catalog) noteUse(ref layout.Session, s session) {
	switch {
	case s.facts == nil:
		if c.isDue(ref, s) { // no reading failed just now
			c.schedule.request(ref)
		}
	case c.wasQuiet(s) && time.Since(s.facts.Seen) > max(usedInterval, min(s.idle()/usedShare, quietInterval)):
		c.changed[ref] = true // so that isDue holds
		c.schedule.request(ref)
	}
}

// wasQuiet says whether nothing was stored of a session for Options.Quiet before its details were read. If only its
// marker is stored, the marker's time counts.
func (c *Catalog) wasQuiet(s session) bool {
	written := s.facts.LastWrite
	if written.IsZero() {
		written = s.marked
	}
	return s.facts.Seen.Sub(written) > c.opts.Quiet
}

// Reread has the details of an ended session read again soon, because more may be stored now, such as its outcome. It
// does nothing without Options.Facts.
func (c *Catalog) Reread(ref layout.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requestReread(ref)
}

// requestReread is Reread; c.mu must be held.
func (c *Catalog) requestReread(ref layout.Session) {
	if s, _ := c.table.get(ref); s.facts != nil && c.opts.Facts {
		c.changed[ref] = true
		c.schedule.request(ref)
	}
}

// described is what one reading found out about a session.
type described struct {
	facts   *packs.Facts
	took    time.Duration // the reading
	quiet   bool          // see wasQuiet
	running bool
	whole   bool   // the facts can be packed: readFacts has completed them
	jobs    answer // from which FailedJobs was read; zero unless the session runs
}

// describe reads and keeps a session's details and, if the session has ended, its facts. After an error the old details
// stay, and reading is tried again after an interval.
func (c *Catalog) describe(ctx context.Context, ref layout.Session) {
	c.mu.Lock()
	before, _ := c.table.get(ref)
	c.mu.Unlock()
	found, err := c.readSession(ctx, ref, before.marked)
	if ctx.Err() != nil {
		return
	}
	c.metrics.looks.WithLabelValues(resultLabel(err)).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed[ref] = time.Now()
		c.opts.Log.WithError(err).WithField("session",
			ref.String()).Warn("cannot list the objects of a session; its size and state may be missing or old")
		return
	}
	delete(c.failed, ref)
	delete(c.changed, ref)
	c.packed.discard(ref)                      // facts of an earlier reading need not be packed any more
	if s, stored := c.table.get(ref); stored { // else the session was removed meanwhile
		c.putSession(ref, s, found, before)
	}
}

// readSession reads what a session's objects say about it: of a running session its details and failed jobs, of one
// that has ended, or was quiet for Options.Quiet, its details and facts. marked is when its marker was stored.
func (c *Catalog) readSession(ctx context.Context, ref layout.Session, marked time.Time) (found described, err error) {
	began := time.Now()
	f, from, err := c.readDetails(ctx, ref, began, marked)
	if err != nil {
		return found, err
	}
	found.facts, found.quiet = f, c.wasQuiet(session{marked: marked, facts: f})
	if found.running = f.End.IsZero() && !found.quiet; found.running {
		found.jobs = c.readFailedJobs(ctx, f, from)
	} else if c.opts.Facts {
		found.facts, found.whole = c.readFacts(ctx, *f, from), true
	}
	found.took = time.Since(began)
	return found, nil
}

// putSession puts what a reading found out about a session into the list, and has the facts of an ended one packed. s
// is what the list has of the session now, before is what it had when the reading began; c.mu must be held.
func (c *Catalog) putSession(ref layout.Session, s session, found described, before session) {
	f := found.facts
	if delete(c.jobs, ref); found.jobs.key != "" {
		c.jobs[ref] = found.jobs
	}
	if found.running && before.facts != nil && c.wasQuiet(before) {
		c.removeFromPacks(ref) // the session continues: its packed end is wrong
	}
	if found.whole {
		row := *f
		// The facts that the list has may fill gaps in those read now, if nothing was stored in between. Without Seen
		// they count as older, even if they were read before the clock was set back.
		if known := s.facts; known != nil && known.LastWrite.UnixMilli() == row.LastWrite.UnixMilli() {
			older := *known
			older.Seen = time.Time{}
			row = packs.Merge(older, row)
		}
		f = listedPart(row)
		c.queueForPacking(found.facts, found.quiet)
	}
	if found.quiet && f.Objects == 0 {
		f.Outcome = Unknown // only its marker is stored
	}
	c.table.put(ref, session{s.marked, found.took, f})
}

// readDetails lists all objects of a session and reads its metadata. began is now, marked is when the session's marker
// was stored. It also returns the objects from which facts can be read. Ray's version is that of the collector's
// metadata or, if these do not have it, of the dashboard's answer. After an error of metadata f is incomplete.
func (c *Catalog) readDetails(ctx context.Context, ref layout.Session, began, marked time.Time) (f *packs.Facts,
	from sources, err error) {
	f = &packs.Facts{Ref: ref, Seen: began}
	metadataKey := layout.SnapshotKey(c.opts.Root, ref, "/api/v0/cluster_metadata")
	hasMetadata := false
	signs := lifetime.NewSigns(c.opts.Root, ref, marked)
	for o, err := range c.opts.Store.List(ctx, layout.Prefix(c.opts.Root, ref), blob.ListOptions{}) {
		if err != nil {
			return f, from, fmt.Errorf("list the objects of session %s: %w", ref, err)
		}
		f.Objects++
		f.Bytes += o.Size
		hasMetadata = hasMetadata || o.Key == metadataKey
		parsed, _ := layout.ParseObject(c.opts.Root, ref, o.Key) // zero after an error, as Add takes it
		from.add(parsed, o)
		signs.Add(parsed, o)
	}
	failed := signs.Read(ctx, c.opts.Store, c.logDamaged) // the error, if objects of metadata cannot be read
	life := signs.Life(time.Now(), c.opts.Quiet)
	f.LastWrite, f.Start, f.End, f.Nodes = signs.LastWrite, life.Start, life.End, max(0, signs.End.Nodes)
	f.OwnerKind, f.OwnerName = Kind(signs.Start.OwnerKind), signs.Start.OwnerName
	f.RayVersion = cmp.Or(signs.End.RayVersion, signs.Start.RayVersion)
	if f.RayVersion == "" && hasMetadata {
		// The answer of ray/dashboard/modules/usage_stats/usage_stats_head.py, as the collector saved it.
		var metadata struct{ Data struct{ RayVersion string } }
		err := blob.ReadJSON(ctx, c.opts.Store, metadataKey, layout.MaxMetadata, &metadata)
		switch {
		case errors.Is(err, blob.ErrMalformed), errors.Is(err, blob.ErrArchived):
			c.logDamaged(metadataKey, err)
		case !errors.Is(err, os.ErrNotExist): // it may have been removed since it was listed
			failed = errors.Join(failed, err)
		}
		f.RayVersion = metadata.Data.RayVersion
	}
	from.labels, from.ahead = signs.Start.Labels, life.Ahead
	return f, from, failed
}

// logDamaged logs that a metadata object does not parse, or is archived; the object is ignored.
func (c *Catalog) logDamaged(key string, err error) {
	c.opts.Log.WithError(err).WithField("key", key).Warn("skipped metadata of a session that cannot be read")
}

// entry returns the list's entry of a session.
func (s session) entry(ref layout.Session, now time.Time, quiet time.Duration) Entry {
	e := entryOf(ref, s.facts, s.marked)
	e.Running, e.End = lifetime.State(e.End, e.LastWrite, e.Objects, now, quiet)
	if !e.Running {
		e.FailedJobs = 0
		if e.Outcome == "" {
			e.Cause = "" // it was about a job that failed while the session ran
		}
	}
	return e
}

// entryOf returns the entry of a session with these facts, which may be nil: then it has what the key and the time of
// the marker say. It does not say whether the session is running. An owner that is not known is the cluster itself.
func entryOf(ref layout.Session, f *packs.Facts, marked time.Time) Entry {
	described := f != nil
	if !described {
		f = &packs.Facts{}
	}
	e := Entry{Ref: ref, Summary: f.Summary, Start: f.Start, End: f.End, LastWrite: f.LastWrite, Described: described}
	e.OwnerKind, e.OwnerName = cmp.Or(f.OwnerKind, Kind(ref.OwnerKind), RayCluster),
		cmp.Or(f.OwnerName, ref.OwnerName, ref.Cluster)
	if e.LastWrite.IsZero() {
		e.LastWrite = marked
	}
	if e.Start.IsZero() {
		e.Start = lifetime.StartOf(time.Time{}, ref.Name, marked, f.LastWrite)
	}
	return e
}
