package metrics

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
)

// someReads is how many reads show how far apart they are.
const someReads = 9

// intervalWait is how long the hours may take to be listed, and one of them to show it: pages wait for this, and stored
// lines need not end.
const intervalWait = 2 * time.Second

// KnownInterval is what Interval has found out; 0: nothing yet.
func (d *Database) KnownInterval() time.Duration {
	known, _ := d.interval.Loaded()
	return known
}

// Interval returns the usual time between two reads of a node's metrics, as some stored reads show it. It is 0 if they
// do not show it, or if the session has only hardware figures, whose times between reads vary. It reads once for all
// that ask, in the largest hour. If too few reads came within intervalWait, it reads again a minute later. The hours
// must be listed within the same time; else the error is context.DeadlineExceeded.
func (d *Database) Interval(ctx context.Context) (time.Duration, error) {
	if known := d.KnownInterval(); known > 0 {
		return known, nil
	}
	listing, stop := context.WithTimeout(ctx, intervalWait)
	defer stop()
	hours, err := d.Hours(listing)
	if err != nil || len(hours) == 0 || areHardware(hours) {
		return 0, err
	}
	key := time.Now().Format("15:04 ") + fingerprintOf(hours) // another one each minute, under which it reads again
	return d.interval.GetFor(ctx, key, func(ctx context.Context) (time.Duration, error) {
		// The largest hour: a short one may have too few reads.
		return d.intervalOf(ctx, slices.MaxFunc(hours, func(a, b Hour) int { return cmp.Compare(a.Bytes, b.Bytes) }))
	})
}

// intervalOf returns the interval that an hour shows: the median of the times between some reads. It is 0 if the hour
// shows none within intervalWait and an eighth of the memory.
func (d *Database) intervalOf(ctx context.Context, h Hour) (time.Duration, error) {
	reading, stop := context.WithTimeout(ctx, intervalWait)
	defer stop()
	t := &readTimes{enough: stop}
	err := guard.CatchPanic(h.stream.Key, func() error {
		undamaged := func(string, error) {} // what can be read is enough
		return h.visitLines(reading, d.store, t, newAllowance(d.maxBytes/workShare), undamaged)
	})
	ended := reading.Err() != nil && ctx.Err() == nil // by enough reads, or by the time
	if err != nil && !ended && !errors.Is(err, errLargeHour) {
		return 0, err
	}
	if len(t.pauses) == 0 {
		return 0, nil
	}
	slices.Sort(t.pauses)
	return t.pauses[len(t.pauses)/2], nil
}

// readTimes is a visitor of the times between the first reads of an hour.
type readTimes struct {
	enough func()
	last   int64
	pauses []time.Duration
}

func (*readTimes) Start([][]samples.Label)                 {}
func (*readTimes) Wants(string) bool                       { return false }
func (*readTimes) Series(int, string, []samples.Label) int { return -1 }
func (*readTimes) Metric(samples.Metric)                   {}
func (t *readTimes) Read(r *samples.Read) {
	if r.Target != 0 { // all targets are read at one interval, so the first one shows it
		return
	}
	if pause := r.Time - t.last; t.last != 0 && pause > 0 {
		t.pauses = append(t.pauses, time.Duration(pause)*time.Millisecond)
	}
	if t.last = r.Time; len(t.pauses) == someReads-1 {
		t.enough()
	}
}
