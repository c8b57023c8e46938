package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// start stores the metadata of a session's start. Unless force is set, it does nothing while Ray's version is unknown but may still be
// learned.
//
// Each head of a session stores its own: with GCS fault tolerance another head continues a session under its name. The first makes
// session/start.json, a later one a version of it.
func (s *sessions) start(ctx context.Context, name string, head headNode, force bool) error {
	if !s.head {
		return nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	s.mu.Lock()
	known := *s.get(name)
	s.mu.Unlock()
	stored := known.Started && (head.id == "" || known.Head == "" || known.Head == head.id)
	if stored || (known.RayVersion == "" && !force && time.Since(s.began) < s.versionDue) {
		return nil
	}
	start := layout.StartMetadata{
		OwnerKind: s.ownerKind, OwnerName: s.ownerName, RayVersion: known.RayVersion, Labels: s.labels, Start: startTime(name, s.began), NodeID: head.id,
	}
	later := start
	if later.Start = head.began.UTC().Truncate(time.Millisecond); head.began.IsZero() {
		later.Start = s.began.UTC().Truncate(time.Millisecond)
	}
	if err := s.storeMetadata(ctx, name, layout.Start, start, later); err != nil {
		return err
	}
	return s.update(name, func(k *knownSession) { k.Started, k.Head = true, head.id })
}

// headNode is the head of a session as its collector knows it.
type headNode struct {
	id    string    // of its node, in hex; "" if it is not known
	began time.Time // when its raylet was first seen; zero if it was not
}

// seen notes that a session's raylet runs. If its end was stored before, there will be another.
func (s *sessions) seen(name string) error {
	s.mu.Lock()
	known := *s.get(name)
	s.mu.Unlock()
	if !s.head || (known.Raylet && !known.Ended) {
		return nil
	}
	return s.update(name, func(k *knownSession) { k.Raylet, k.Ended = true, false })
}

// end stores the metadata of a session's end. If the session continued after a stored end, this end becomes a later version.
func (s *sessions) end(ctx context.Context, name string, head headNode, at time.Time) error {
	if !s.head {
		return nil
	}
	if err := s.start(ctx, name, head, true); err != nil {
		return err
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	s.mu.Lock()
	known := *s.get(name)
	s.mu.Unlock()
	end := layout.EndMetadata{RayVersion: known.RayVersion, Start: startTime(name, s.began), End: at.UTC().Truncate(time.Millisecond), Nodes: known.Nodes, NodeID: head.id}
	if err := s.storeMetadata(ctx, name, layout.End, end, end); err != nil {
		return err
	}
	return s.update(name, func(k *knownSession) { k.Ended = true })
}

func (s *sessions) ended(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name] != nil && s.known[name].Ended
}

// storeMetadata stores a metadata object, or later as a further version of it if there is one.
func (s *sessions) storeMetadata(ctx context.Context, name, which string, first, later any) error {
	if err := s.mark(ctx, name); err != nil {
		return err
	}
	key := layout.MetadataKey(s.root, s.ref(name), which)
	err := s.createJSON(ctx, key, first)
	if errors.Is(err, os.ErrExist) {
		now := time.Now()
		err = s.createJSON(ctx, layout.SnapshotVersionKey(key, now), later)
		if which == layout.Start && err == nil {
			s.markHead(ctx, name, now)
		}
	}
	if err != nil {
		return fmt.Errorf("store the metadata of %s: %w", name, err)
	}
	return nil
}

// markHead stores the time-ordered marker of a further head, which makes servers list the session again at once. Without it they notice later
// that the session continues, so nothing waits for it.
func (s *sessions) markHead(ctx context.Context, name string, at time.Time) {
	if err := s.create(ctx, layout.RecentHeadKey(s.root, s.ref(name), at), nil); err != nil && ctx.Err() == nil {
		s.log.WithError(err).WithField("session", name).Warn("cannot store the time-ordered marker of a further head; servers notice minutes later that the session continues")
	}
}

func (s *sessions) createJSON(ctx context.Context, key string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return s.store.Create(ctx, key, bytes.NewReader(data))
}

// startTime is the time when a session began. Its name contains it in the head's local time (ray/_private/node.py makes it of the date, the
// microseconds and the process ID), and a collector in the same pod has the same local time.
func startTime(name string, fallback time.Time) time.Time {
	const form = "2006-01-02_15-04-05"
	stamp := strings.TrimPrefix(name, "session_")
	if len(stamp) >= len(form) {
		if t, err := time.ParseInLocation(form, stamp[:len(form)], time.Local); err == nil {
			return t.UTC()
		}
	}
	return fallback.UTC().Truncate(time.Second)
}
