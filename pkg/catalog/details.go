package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// details are what a session's objects say about it. What is not known is zero.
type details struct {
	readAt                           time.Time     // when reading them began
	took                             time.Duration // reading them
	lastWrite, start, end            time.Time
	bytes                            int64
	objects, nodes                   int
	ownerKind, ownerName, rayVersion string
	outcome, cause                   string
	text                             string // the text for searches, in lower case
	failedJobs                       int    // while the session runs
}

const (
	// maxMetadata bounds the bytes that are read of one metadata object; a usual one has some hundred.
	maxMetadata = 1 << 20
	// quietInterval is the time between two reads of an idle session's details: compaction may change its size.
	quietInterval = 24 * time.Hour
	// pauseShare bounds the share of time spent on the details of a growing session: reading them for t is followed by a pause of
	// pauseShare × t.
	pauseShare = 20
)

// due says whether a session's details should be read, or read again; c.mu must be held.
func (c *Catalog) due(ref layout.Session, s session) bool {
	if at, failed := c.failed[ref]; failed && time.Since(at) <= c.opts.Interval-time.Second {
		return false
	}
	if s.details == nil || c.again[ref] {
		return true
	}
	age := time.Since(s.details.readAt)
	if age < 0 {
		return true // the clock was set back
	}
	if c.isQuiet(s) {
		return age > quietInterval
	}
	return age > max(c.opts.Interval-time.Second, pauseShare*s.details.took)
}

// isQuiet says whether nothing was stored of a session for some time before its details were read. Collectors store the marker before all else.
func (c *Catalog) isQuiet(s session) bool {
	written := s.details.lastWrite
	if written.IsZero() {
		written = s.marked
	}
	return s.details.readAt.Sub(written) > c.opts.Quiet
}

// Again says that more may be known about an ended session now, such as how it ended.
func (c *Catalog) Again(ref layout.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, _ := c.table.get(ref); s.details != nil && c.isQuiet(s) && c.opts.Facts {
		c.again[ref] = true
		c.schedule.request(ref)
	}
}

// describe reads and keeps a session's details and, if the session has ended, its facts. After an error the old details stay, and reading is tried
// again after an interval.
func (c *Catalog) describe(ctx context.Context, ref layout.Session) {
	began := time.Now()
	d, from, err := c.readDetails(ctx, ref, began)
	c.mu.Lock()
	before, _ := c.table.get(ref)
	c.mu.Unlock()
	quiet := c.isQuiet(session{before.marked, d})
	var facts *packs.Facts
	var jobs answer // that was read; only while the session runs
	switch {
	case err != nil:
	case d.end.IsZero() && !quiet:
		jobs = c.learnJobs(ctx, ref, d, from)
	case c.opts.Facts:
		facts = c.learn(ctx, ref, d, from, quiet)
	}
	if ctx.Err() != nil {
		return
	}
	c.metrics.looks.WithLabelValues(result(err)).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed[ref] = time.Now()
		c.opts.Log.WithError(err).WithField("session", ref.String()).Warn("cannot list the objects of a session; its size and state may be missing or old")
		return
	}
	d.took = time.Since(began)
	delete(c.failed, ref)
	delete(c.again, ref)
	delete(c.packed.unpacked, ref)
	s, stored := c.table.get(ref)
	if !stored {
		return
	}
	if delete(c.jobs, ref); jobs.key != "" {
		c.jobs[ref] = jobs
	}
	if facts != nil && !c.packed.denied {
		c.packed.unpacked[ref] = facts
		if len(c.packed.unpacked) >= maxUnpacked {
			select {
			case c.packed.wake <- struct{}{}:
			default:
			}
		}
	}
	c.table.put(ref, session{s.marked, d})
}

// readDetails lists all objects of a session and reads its metadata. It also returns the objects from which facts can be read.
func (c *Catalog) readDetails(ctx context.Context, ref layout.Session, began time.Time) (d *details, from sources, err error) {
	d = &details{readAt: began}
	prefix := layout.Prefix(c.opts.Root, ref)
	startKey, endKey := layout.MetadataKey(c.opts.Root, ref, layout.Start), layout.MetadataKey(c.opts.Root, ref, layout.End)
	metadataKey := layout.SnapshotKey(c.opts.Root, ref, "/api/v0/cluster_metadata")
	found := make(map[string]bool)
	for o, err := range c.opts.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return d, from, fmt.Errorf("list the objects of session %s: %w", ref, err)
		}
		d.objects++
		d.bytes += o.Size
		switch o.Key {
		case startKey, endKey, metadataKey:
			found[o.Key] = true
		}
		from.add(c.opts.Root, ref, o)
		// Earlier versions stored indexes here, long after the session's end.
		if o.ModTime.After(d.lastWrite) && !strings.HasPrefix(o.Key[len(prefix):], "index/") {
			d.lastWrite = o.ModTime
		}
	}
	var failed error
	var start layout.StartMetadata
	var end layout.EndMetadata
	if found[startKey] {
		failed = errors.Join(failed, c.readJSON(ctx, startKey, &start))
	}
	if found[endKey] {
		failed = errors.Join(failed, c.readJSON(ctx, endKey, &end))
	}
	d.ownerKind, d.ownerName, d.rayVersion = Kind(start.OwnerKind), start.OwnerName, cmp.Or(end.RayVersion, start.RayVersion)
	d.start, d.end, d.nodes = cmp.Or(validTime(end.Start), validTime(start.Start)), validTime(end.End), max(0, end.Nodes)
	if d.rayVersion == "" && found[metadataKey] {
		// The answer of ray/dashboard/modules/usage_stats/usage_stats_head.py, as the collector saved it.
		var metadata struct{ Data struct{ RayVersion string } }
		failed = errors.Join(failed, c.readJSON(ctx, metadataKey, &metadata))
		d.rayVersion = metadata.Data.RayVersion
	}
	from.labels = start.Labels
	return d, from, failed
}

// validTime checks a time from metadata: it returns zero for a time that no session can have. JSON cannot even represent some of them in UTC.
func validTime(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1970 || year > 9998 {
		return time.Time{}
	}
	return t
}

func (c *Catalog) readJSON(ctx context.Context, key string, into any) error {
	r, err := c.opts.Store.Get(ctx, key, 0, maxMetadata)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed since it was listed
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { _ = r.Close() }()
	body, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	// Metadata that does not parse is ignored.
	if err := json.Unmarshal(body, into); err != nil {
		c.opts.Log.WithError(err).WithField("key", key).Warn("skipped damaged metadata of a session")
	}
	return nil
}

// entry returns the list's entry of a session.
func (c *Catalog) entry(ref layout.Session, s session) Entry {
	e := s.details.entry(ref, s.marked)
	if e.End.IsZero() {
		if e.Running = time.Since(e.LastWrite) < c.opts.Quiet; !e.Running && e.Objects > 0 {
			e.End = e.LastWrite
		}
	}
	if !e.Running {
		e.FailedJobs = 0
	}
	return e
}

// entry returns the entry of a session with these details, which may be nil. It does not say whether the session is running.
func (d *details) entry(ref layout.Session, marked time.Time) Entry {
	e := Entry{Ref: ref, Described: d != nil}
	if d == nil {
		d = &details{}
	}
	e.Bytes, e.Objects, e.Nodes, e.RayVersion = d.bytes, d.objects, d.nodes, d.rayVersion
	e.OwnerKind, e.OwnerName = cmp.Or(d.ownerKind, Kind(ref.OwnerKind), RayCluster), cmp.Or(d.ownerName, ref.OwnerName, ref.Cluster)
	e.Start, e.End, e.LastWrite = d.start, d.end, d.lastWrite
	e.Outcome, e.Cause, e.FailedJobs = d.outcome, d.cause, d.failedJobs
	if e.LastWrite.IsZero() {
		e.LastWrite = marked
	}
	if e.Start.IsZero() {
		var ok bool
		if e.Start, ok = layout.NamedStart(ref.Name); !ok {
			e.Start = marked
		}
	}
	return e
}
