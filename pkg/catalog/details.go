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

// details are what a session's objects say about it. What is not known is zero.
type details struct {
	Summary
	readAt                time.Time     // when reading them began
	took                  time.Duration // reading them
	lastWrite, start, end time.Time
	explained             int    // the version of the rules by which the outcome and its cause were found out
	text                  string // the text for searches, in lower case
}

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
	if s.details == nil || c.changed[ref] {
		return true
	}
	age := time.Since(s.details.readAt)
	if age < 0 {
		return true // the clock was set back
	}
	if c.wasQuiet(s) { // the longer a session has been idle, the less likely a further head continues it
		return age > s.details.idle()/quietShare || age > quietInterval
	}
	// The session grows. One that takes long or many requests to list is listed less often.
	pages := min(time.Duration(s.details.Objects/pageObjects)*pagePause, maxPagesPause)
	return age > max(max(c.opts.Interval, pages)-earlySecond, pauseShare*s.details.took)
}

// idle is how long nothing had been stored of the session when its details were read.
func (d *details) idle() time.Duration { return d.readAt.Sub(d.lastWrite) }

// noteUse is called when somebody looks at a session. It requests to read the details if they were never read, or if
// a further head may have continued the idle session since they were read. That is checked the sooner, the shorter the
// session had been idle: after the part usedShare of that time, but at least usedInterval and at most quietInterval.
// c.mu must be held.
func (c *Catalog) noteUse(ref layout.Session, s session) {
	switch {
	case s.details == nil:
		if c.isDue(ref, s) { // no reading failed just now
			c.schedule.request(ref)
		}
	case c.wasQuiet(s) && time.Since(s.details.readAt) > max(usedInterval,
		min(s.details.idle()/usedShare, quietInterval)):
		c.changed[ref] = true // so that isDue holds
		c.schedule.request(ref)
	}
}

// wasQuiet says whether nothing was stored of a session for Options.Quiet before its details were read. If only its
// marker is stored, the marker's time counts.
func (c *Catalog) wasQuiet(s session) bool {
	written := s.details.lastWrite
	if written.IsZero() {
		written = s.marked
	}
	return s.details.readAt.Sub(written) > c.opts.Quiet
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
	if s, _ := c.table.get(ref); s.details != nil && c.opts.Facts {
		c.changed[ref] = true
		c.schedule.request(ref)
	}
}

// described is what one reading found out about a session.
type described struct {
	*details
	quiet bool         // see wasQuiet
	facts *packs.Facts // nil while the session runs
	jobs  answer       // from which FailedJobs was read; zero unless the session runs
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
	d, from, err := c.readDetails(ctx, ref, began, marked)
	if err != nil {
		return found, err
	}
	found.details, found.quiet = d, c.wasQuiet(session{marked, d})
	if d.end.IsZero() && !found.quiet {
		found.jobs = c.readFailedJobs(ctx, ref, d, from)
	} else if c.opts.Facts {
		found.facts = c.readFacts(ctx, ref, d, from)
	}
	d.took = time.Since(began)
	return found, nil
}

// putSession puts what a reading found out about a session into the list, and has the facts of an ended one packed. s
// is what the list has of the session now, before is what it had when the reading began; c.mu must be held.
func (c *Catalog) putSession(ref layout.Session, s session, found described, before session) {
	d, running := found.details, found.end.IsZero() && !found.quiet
	if delete(c.jobs, ref); found.jobs.key != "" {
		c.jobs[ref] = found.jobs
	}
	if running && before.details != nil && c.wasQuiet(before) {
		c.removeFromPacks(ref) // the session continues: its packed end is wrong
	}
	if found.facts != nil {
		row := *found.facts
		// The facts that the list has may fill gaps in those read now, if nothing was stored in between. Without Seen
		// they count as older, even if they were read before the clock was set back.
		if known := s.details; known != nil && known.lastWrite.UnixMilli() == row.LastWrite.UnixMilli() {
			before := known.asFacts(ref)
			before.Seen = time.Time{}
			row = packs.Merge(before, row)
		}
		took := d.took // facts do not have it
		d = detailsOf(&row)
		d.took = took
		c.queueForPacking(found.facts, found.quiet)
	}
	if found.quiet && d.Objects == 0 {
		d.Outcome = Unknown // only its marker is stored
	}
	c.table.put(ref, session{s.marked, d})
}

// readDetails lists all objects of a session and reads its metadata. began is now, marked is when the session's marker
// was stored. It also returns the objects from which facts can be read. Ray's version is that of the collector's
// metadata or, if these do not have it, of the dashboard's answer. After an error of metadata d is incomplete.
func (c *Catalog) readDetails(ctx context.Context, ref layout.Session, began, marked time.Time) (d *details,
	from sources, err error) {
	d = &details{readAt: began}
	metadataKey := layout.SnapshotKey(c.opts.Root, ref, "/api/v0/cluster_metadata")
	hasMetadata := false
	signs := lifetime.NewSigns(c.opts.Root, ref, marked)
	for o, err := range c.opts.Store.List(ctx, layout.Prefix(c.opts.Root, ref), blob.ListOptions{}) {
		if err != nil {
			return d, from, fmt.Errorf("list the objects of session %s: %w", ref, err)
		}
		d.Objects++
		d.Bytes += o.Size
		hasMetadata = hasMetadata || o.Key == metadataKey
		parsed, _ := layout.ParseObject(c.opts.Root, ref, o.Key) // zero after an error, as Add takes it
		from.add(parsed, o)
		signs.Add(parsed, o)
	}
	failed := signs.Read(ctx, c.opts.Store, c.logDamaged) // the error, if objects of metadata cannot be read
	life := signs.Life(time.Now(), c.opts.Quiet)
	d.lastWrite, d.start, d.end, d.Nodes = signs.LastWrite, life.Start, life.End, max(0, signs.End.Nodes)
	d.OwnerKind, d.OwnerName = Kind(signs.Start.OwnerKind), signs.Start.OwnerName
	d.RayVersion = cmp.Or(signs.End.RayVersion, signs.Start.RayVersion)
	if d.RayVersion == "" && hasMetadata {
		// The answer of ray/dashboard/modules/usage_stats/usage_stats_head.py, as the collector saved it.
		var metadata struct{ Data struct{ RayVersion string } }
		err := blob.ReadJSON(ctx, c.opts.Store, metadataKey, layout.MaxMetadata, &metadata)
		switch {
		case errors.Is(err, blob.ErrMalformed), errors.Is(err, blob.ErrArchived):
			c.logDamaged(metadataKey, err)
		case !errors.Is(err, os.ErrNotExist): // it may have been removed since it was listed
			failed = errors.Join(failed, err)
		}
		d.RayVersion = metadata.Data.RayVersion
	}
	from.labels, from.ahead = signs.Start.Labels, life.Ahead
	return d, from, failed
}

// logDamaged logs that a metadata object does not parse, or is archived; the object is ignored.
func (c *Catalog) logDamaged(key string, err error) {
	c.opts.Log.WithError(err).WithField("key", key).Warn("skipped metadata of a session that cannot be read")
}

// entry returns the list's entry of a session.
func (s session) entry(ref layout.Session, now time.Time, quiet time.Duration) Entry {
	e := s.details.entry(ref, s.marked)
	e.Running, e.End = lifetime.State(e.End, e.LastWrite, e.Objects, now, quiet)
	if !e.Running {
		e.FailedJobs = 0
		if e.Outcome == "" {
			e.Cause = "" // it was about a job that failed while the session ran
		}
	}
	return e
}

// entry returns the entry of a session with these details, which may be nil: then it has what the key and the time of
// the marker say. It does not say whether the session is running. An owner that is not known is the cluster itself.
func (d *details) entry(ref layout.Session, marked time.Time) Entry {
	described := d != nil
	if !described {
		d = &details{}
	}
	e := Entry{Ref: ref, Summary: d.Summary, Start: d.start, End: d.end, LastWrite: d.lastWrite, Described: described}
	e.OwnerKind, e.OwnerName = cmp.Or(d.OwnerKind, Kind(ref.OwnerKind), RayCluster),
		cmp.Or(d.OwnerName, ref.OwnerName, ref.Cluster)
	if e.LastWrite.IsZero() {
		e.LastWrite = marked
	}
	if e.Start.IsZero() {
		e.Start = lifetime.StartOf(time.Time{}, ref.Name, marked, d.lastWrite)
	}
	return e
}
