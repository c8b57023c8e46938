package catalog

import (
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

// detail is what a look at a session's objects told.
type detail struct {
	at         time.Time     // of the look
	took       time.Duration // the look
	lastWrite  time.Time
	bytes      int64
	objects    int
	rayVersion string
	start      layout.StartFacts
	end        layout.EndFacts // End is zero if there is none
}

const (
	// maxFacts bounds what is read of an object that the list is made from: they are some hundred bytes.
	maxFacts = 1 << 20
	// settledAgain is after how long a session that ended is looked at again, for compaction may have changed its size.
	settledAgain = 24 * time.Hour
	// lookShare bounds the share of time spent on looking at a session that grows: after a look that took t it rests lookShare × t.
	lookShare = 20
)

// due says whether the session's objects should be looked at (again).
func (c *Catalog) due(ref layout.Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.details[ref]
	if !ok {
		return true
	}
	age := time.Since(d.at)
	if d.at.Sub(d.lastWrite) > c.opts.Quiet {
		return age > settledAgain
	}
	return age > max(c.opts.Interval-time.Second, lookShare*d.took)
}

// describe looks at a session's objects and keeps what they tell. If it cannot, what was known stays and the next round tries again.
func (c *Catalog) describe(ctx context.Context, ref layout.Session) {
	began := time.Now()
	d, err := c.look(ctx, ref)
	if ctx.Err() != nil {
		return
	}
	c.metrics.looks.WithLabelValues(result(err)).Inc()
	if err != nil {
		c.opts.Log.WithError(err).WithField("session", ref.String()).Warn("cannot look at the objects of a session; its size and state may be missing or old")
		return
	}
	d.at, d.took = began, time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.details[ref] = d
	c.entries = nil
}

// look lists all objects of a session and reads the small ones that tell facts.
func (c *Catalog) look(ctx context.Context, ref layout.Session) (detail, error) {
	var d detail
	prefix := layout.Prefix(c.opts.Root, ref)
	startKey, endKey := layout.FactsKey(c.opts.Root, ref, layout.Start), layout.FactsKey(c.opts.Root, ref, layout.End)
	metadataKey := layout.SnapshotKey(c.opts.Root, ref, "/api/v0/cluster_metadata")
	found := make(map[string]bool)
	for o, err := range c.opts.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return d, fmt.Errorf("look at session %s: %w", ref, err)
		}
		d.objects++
		d.bytes += o.Size
		switch o.Key {
		case startKey, endKey, metadataKey:
			found[o.Key] = true
		}
		// An index is written long after.
		if o.ModTime.After(d.lastWrite) && !strings.HasPrefix(o.Key[len(prefix):], "index/") {
			d.lastWrite = o.ModTime
		}
	}
	// Facts that do not parse are as good as none.
	var damaged error
	if found[startKey] {
		damaged = errors.Join(damaged, c.readJSON(ctx, startKey, &d.start))
	}
	if found[endKey] {
		damaged = errors.Join(damaged, c.readJSON(ctx, endKey, &d.end))
	}
	d.rayVersion = firstOf(d.end.RayVersion, d.start.RayVersion)
	if d.rayVersion == "" && found[metadataKey] {
		// The answer of ray/dashboard/modules/usage_stats/usage_stats_head.py, as the collector saved it.
		var metadata struct{ Data struct{ RayVersion string } }
		damaged = errors.Join(damaged, c.readJSON(ctx, metadataKey, &metadata))
		d.rayVersion = metadata.Data.RayVersion
	}
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	if errors.As(damaged, &syntax) || errors.As(damaged, &mismatch) {
		c.opts.Log.WithError(damaged).WithField("session", ref.String()).Warn("skipped damaged facts of a session")
		damaged = nil
	}
	return d, damaged
}

func (c *Catalog) readJSON(ctx context.Context, key string, into any) error {
	r, err := c.opts.Store.Get(ctx, key, 0, maxFacts)
	if errors.Is(err, os.ErrNotExist) {
		return nil // gone since it was listed
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { _ = r.Close() }()
	body, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	return nil
}

// entry makes the list's entry of a session from what is known; c.mu must be held. marked is when its marker was written.
func (c *Catalog) entry(ref layout.Session, marked time.Time) Entry {
	d, described := c.details[ref]
	e := Entry{
		Ref: ref, Described: described, Bytes: d.bytes, Objects: d.objects, Nodes: d.end.Nodes, RayVersion: d.rayVersion,
		OwnerKind: firstOf(Kind(d.start.OwnerKind), Kind(ref.OwnerKind), RayCluster),
		OwnerName: firstOf(d.start.OwnerName, ref.OwnerName, ref.Cluster),
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
		if e.Start, ok = startOf(ref.Name); !ok {
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

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
