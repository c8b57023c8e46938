package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// seriesSet knows the stored hardware figures, which are a whole an hour, in chunks like a log's.
type seriesSet struct {
	hours *LogSet // all under the nil node, by seriesPath

	mu    sync.Mutex
	path  string          // of the hour that is held
	size  int64           // of it, when it was read
	lines []layout.Sample // of it
}

// maxSeriesBytes bounds what is read of one hour, from its start: some 250 bytes a node and half minute.
const maxSeriesBytes = 256 << 20

func seriesPath(hour time.Time) string { return hour.UTC().Format("2006-01-02-15") }

func (s *seriesSet) add(o layout.Object, b blob.Object) {
	o.Path = seriesPath(o.Hour)
	s.hours.Add(o, b)
}

// SamplesAt gives the last hardware figures of every node before a moment (Unix nanoseconds), by the node's ID in hex, none that are
// older than an hour and what the hour before it has. Nothing stored is an empty map.
func (s *SnapshotSet) SamplesAt(ctx context.Context, at int64) (map[string]layout.Sample, error) {
	last := make(map[string]layout.Sample)
	t := time.Unix(0, at)
	for _, hour := range []time.Time{t.Add(-time.Hour), t} {
		samples, err := s.series.hour(ctx, seriesPath(hour))
		if err != nil {
			return nil, err
		}
		for _, sample := range samples {
			if sample.Time <= at/int64(time.Millisecond) && sample.Time >= last[sample.Node].Time {
				last[sample.Node] = sample
			}
		}
	}
	return last, nil
}

// hour reads one hour's samples, or gives those that were read last. Lines that cannot be read are left out.
func (s *seriesSet) hour(ctx context.Context, path string) ([]layout.Sample, error) {
	f, err := s.hours.Open(ctx, rayid.Node{}, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read hardware figures: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == path && s.size == f.Size() {
		return s.lines, nil
	}
	data, err := f.ReadRange(ctx, 0, min(f.Size(), maxSeriesBytes))
	if err != nil {
		return nil, fmt.Errorf("read hardware figures: %w", err)
	}
	var samples []layout.Sample
	for line := range bytes.Lines(data) {
		var sample layout.Sample
		if json.Unmarshal(line, &sample) == nil {
			samples = append(samples, sample)
		}
	}
	s.path, s.size, s.lines = path, f.Size(), samples
	return samples, nil
}
