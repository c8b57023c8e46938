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
	"github.com/rayhistory/historyserver/pkg/layout"
)

// details are what a session's objects say about it.
type details struct {
	readAt     time.Time     // when reading them began
	took       time.Duration // reading them
	lastWrite  time.Time
	bytes      int64
	objects    int
	rayVersion string
	start      layout.StartMetadata
	end        layout.EndMetadata // End is zero if there is none
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
func (c *Catalog) due(ref layout.Session) bool {
	if at, failed := c.failed[ref]; failed && time.Since(at) <= c.opts.Interval-time.Second {
		return false
	}
	d, ok := c.details[ref]
	if !ok {
		return true
	}
	age := time.Since(d.readAt)
	if d.readAt.Sub(d.lastWrite) > c.opts.Quiet {
		return age > quietInterval
	}
	return age > max(c.opts.Interval-time.Second, pauseShare*d.took)
}

// describe reads and keeps a session's details. After an error the old ones stay, and reading is tried again after an interval.
func (c *Catalog) describe(ctx context.Context, ref layout.Session) {
	began := time.Now()
	d, err := c.readDetails(ctx, ref)
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
	d.readAt, d.took = began, time.Since(began)
	delete(c.failed, ref)
	c.details[ref] = d
	c.entries = nil
}

// readDetails lists all objects of a session and reads its metadata.
func (c *Catalog) readDetails(ctx context.Context, ref layout.Session) (details, error) {
	var d details
	prefix := layout.Prefix(c.opts.Root, ref)
	startKey, endKey := layout.MetadataKey(c.opts.Root, ref, layout.Start), layout.MetadataKey(c.opts.Root, ref, layout.End)
	metadataKey := layout.SnapshotKey(c.opts.Root, ref, "/api/v0/cluster_metadata")
	found := make(map[string]bool)
	for o, err := range c.opts.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return d, fmt.Errorf("list the objects of session %s: %w", ref, err)
		}
		d.objects++
		d.bytes += o.Size
		switch o.Key {
		case startKey, endKey, metadataKey:
			found[o.Key] = true
		}
		// Earlier versions stored indexes here, long after the session's end.
		if o.ModTime.After(d.lastWrite) && !strings.HasPrefix(o.Key[len(prefix):], "index/") {
			d.lastWrite = o.ModTime
		}
	}
	var failed error
	if found[startKey] {
		failed = errors.Join(failed, c.readJSON(ctx, startKey, &d.start))
	}
	if found[endKey] {
		failed = errors.Join(failed, c.readJSON(ctx, endKey, &d.end))
	}
	d.rayVersion = cmp.Or(d.end.RayVersion, d.start.RayVersion)
	if d.rayVersion == "" && found[metadataKey] {
		// The answer of ray/dashboard/modules/usage_stats/usage_stats_head.py, as the collector saved it.
		var metadata struct{ Data struct{ RayVersion string } }
		failed = errors.Join(failed, c.readJSON(ctx, metadataKey, &metadata))
		d.rayVersion = metadata.Data.RayVersion
	}
	return d, failed
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

// entry returns the list's entry of a session; c.mu must be held. marked is when the session's marker was written.
func (c *Catalog) entry(ref layout.Session, marked time.Time) Entry {
	d, described := c.details[ref]
	e := Entry{
		Ref: ref, Described: described, Bytes: d.bytes, Objects: d.objects, Nodes: d.end.Nodes, RayVersion: d.rayVersion,
		OwnerKind: cmp.Or(Kind(d.start.OwnerKind), Kind(ref.OwnerKind), RayCluster),
		OwnerName: cmp.Or(d.start.OwnerName, ref.OwnerName, ref.Cluster),
		Start:     d.end.Start, End: d.end.End, LastWrite: d.lastWrite,
	}
	if e.LastWrite.IsZero() {
		e.LastWrite = marked
	}
	if e.Start.IsZero() {
		e.Start = d.start.Start
	}
	if e.Start.IsZero() {
		var ok bool
		if e.Start, ok = layout.NamedStart(ref.Name); !ok {
			e.Start = marked
		}
	}
	if e.End.IsZero() {
		if e.Running = time.Since(e.LastWrite) < c.opts.Quiet; !e.Running && d.objects > 0 {
			e.End = e.LastWrite
		}
	}
	return e
}
