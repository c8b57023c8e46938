package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/lines"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// seriesSet lists the stored hardware figures: a stream an hour, read like a log.
type seriesSet struct {
	hours  *sessionlogs.Set                  // all under the nil node, by seriesPath
	memory *budget.Budget                    // for reading them
	cached *cache.Cache[string, *seriesHour] // by path
}

// seriesHour is one hour that was read.
type seriesHour = shared.Value[hourSamples]

// hourSamples are an hour's figures in the order they are stored.
type hourSamples struct {
	samples []layout.Sample
	read    int64 // bytes of the hour that they were made of, to the end of a line
	bytes   int64 // of memory
}

const (
	// maxCachedHours is how many hours are cached. A moment shows the hour it is in and the one before, and people look
	// at several.
	maxCachedHours = 6
	// maxSeriesBytes bounds the memory of one hour's samples, the first that are stored: they take about 250 bytes a
	// node and half minute.
	maxSeriesBytes = 32 << 20
	maxSeriesLine  = 64 << 10
)

func seriesPath(hour time.Time) string { return hour.UTC().Format("2006-01-02-15") }

func (s *seriesSet) add(o layout.Object, b blob.Object) {
	o.Path = seriesPath(o.Hour)
	s.hours.Add(o, b)
}

// SamplesAt returns the last hardware figures of every node before a moment (Unix nanoseconds), by the node's ID in
// hex. It looks at the hour of the moment and the one before, without what the store has archived of them. Nothing
// stored is an empty map.
func (s *Set) SamplesAt(ctx context.Context, at int64) (map[string]layout.Sample, error) {
	last := make(map[string]layout.Sample)
	t := time.Unix(0, at)
	for _, hour := range []time.Time{t.Add(-time.Hour), t} {
		samples, err := s.series.readHour(ctx, seriesPath(hour))
		if errors.Is(err, blob.ErrArchived) {
			continue // the page shows the rest
		}
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

// readHour returns one hour's samples, in the order in which they are stored; none if the hour is not stored. If they
// were read before, it reads only what was stored since. Lines that cannot be read are left out.
func (s *seriesSet) readHour(ctx context.Context, path string) ([]layout.Sample, error) {
	f, err := s.hours.Open(ctx, rayid.Node{}, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read hardware figures: %w", err)
	}
	h, err := s.cached.Load(ctx, path, func(context.Context) (*seriesHour, error) { return new(seriesHour), nil })
	var got hourSamples
	if err == nil {
		version := strconv.FormatInt(f.Size(), 10) // the samples are read again when the hour has another size
		got, err = h.GetFor(ctx, version, func(ctx context.Context) (hourSamples, error) {
			before, _ := h.Loaded()
			return s.readSince(ctx, f, before)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read hardware figures: %w", err)
	}
	return got.samples, nil
}

// readSince returns out, what was read of an hour before, with the samples that f has since. When they take
// maxSeriesBytes, or all the memory that is reserved here, the rest is left out.
func (s *seriesSet) readSince(ctx context.Context, f *sessionlogs.File, out hourSamples) (hourSamples, error) {
	if out.read > f.Size() {
		out = hourSamples{} // the hour was replaced: read it from its start
	}
	// The text and its samples, which take no more than twice as much.
	part, needed := budget.Parse, 3*min(f.Size()-out.read, maxSeriesBytes)
	if needed > usualBytes {
		part = budget.LargeParse
	}
	release, err := s.memory.Reserve(ctx, part, min(needed, s.memory.Size(part)))
	if err != nil {
		return out, err
	}
	defer release()
	start, maxBytes := out.read, min(out.bytes+needed, maxSeriesBytes)
	out.samples = slices.Clip(out.samples) // so that appending later does not write into samples that others read
	addLine := func(line []byte, end int64) error {
		out.read = start + end
		var sample layout.Sample
		if json.Unmarshal(line, &sample) == nil && sample.Node != "" {
			out.samples = append(out.samples, sample)
			out.bytes += sampleBytes + int64(len(sample.Node)) +
				int64(len(sample.GPUs))*int64(unsafe.Sizeof(layout.GPUSample{}))
		}
		if out.bytes > maxBytes {
			return errEnough
		}
		return nil
	}
	err = f.WriteRange(ctx, &lines.Writer{Max: maxSeriesLine, Line: addLine}, out.read, f.Size())
	if err != nil && !errors.Is(err, errEnough) {
		return out, err
	}
	return out, nil
}

// sampleBytes is what a sample takes, the slice that grows included.
const sampleBytes = int64(unsafe.Sizeof(layout.Sample{})) * 5 / 4

var errEnough = errors.New("enough was read")
