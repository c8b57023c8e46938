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
func (s *sessions) start(ctx context.Context, name string, force bool) error {
	if !s.head {
		return nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	s.mu.Lock()
	known := *s.get(name)
	s.mu.Unlock()
	if known.Started || (known.RayVersion == "" && !force && time.Since(s.began) < s.versionDue) {
		return nil
	}
	start := layout.StartMetadata{OwnerKind: s.ownerKind, OwnerName: s.ownerName, RayVersion: known.RayVersion, Labels: s.labels, Start: startTime(name, s.began)}
	if err := s.storeMetadata(ctx, name, layout.Start, start); err != nil {
		return err
	}
	return s.update(name, func(k *knownSession) { k.Started = true })
}

// end stores the metadata of a session's end. If the session continued after a stored end, this end becomes a later version.
func (s *sessions) end(ctx context.Context, name string, at time.Time) error {
	if !s.head {
		return nil
	}
	if err := s.start(ctx, name, true); err != nil {
		return err
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	s.mu.Lock()
	known := *s.get(name)
	s.mu.Unlock()
	end := layout.EndMetadata{RayVersion: known.RayVersion, Start: startTime(name, s.began), End: at.UTC().Truncate(time.Millisecond), Nodes: known.Nodes}
	if err := s.storeMetadata(ctx, name, layout.End, end); err != nil {
		return err
	}
	return s.update(name, func(k *knownSession) { k.Ended = true })
}

func (s *sessions) ended(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name] != nil && s.known[name].Ended
}

func (s *sessions) storeMetadata(ctx context.Context, name, which string, metadata any) error {
	data, err := json.Marshal(metadata)
	if err != nil {
		return fmt.Errorf("encode the metadata of %s: %w", name, err)
	}
	if err := s.mark(ctx, name); err != nil {
		return err
	}
	key := layout.MetadataKey(s.root, s.ref(name), which)
	err = s.store.Create(ctx, key, bytes.NewReader(data))
	if errors.Is(err, os.ErrExist) && which == layout.End {
		err = s.create(ctx, layout.SnapshotVersionKey(key, time.Now()), data)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("store the metadata of %s: %w", name, err)
	}
	return nil
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
