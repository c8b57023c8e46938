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

// notShown is the interval of hours that do not show it, until they are listed again.
const notShown = -1

// Interval returns the usual time between two reads of a node's metrics, as some stored reads show it; 0: they do not,
// or the session has only hardware figures, whose times between reads vary.
func (d *Database) Interval(ctx context.Context) (time.Duration, error) {
	if known := d.interval.Load(); known > 0 {
		return time.Duration(known), nil
	}
	hours, err := d.Hours(ctx)
	if err != nil || len(hours) == 0 || hours[0].hardware != nil || d.interval.Load() == notShown {
		return 0, err
	}
	h := slices.MaxFunc(hours, func(a, b Hour) int { return cmp.Compare(a.Bytes, b.Bytes) })
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := &readTimes{stop: stop}
	err = guard.Do(h.stream.Key, func() error {
		return h.visit(ctx, d.store, t, newAllowance(d.maxBytes/8), func(string, error) {})
	})
	if err != nil && !errors.Is(err, errSomeReads) {
		return 0, err
	}
	slices.Sort(t.pauses)
	interval := time.Duration(notShown)
	if n := len(t.pauses); n > 0 {
		interval = t.pauses[n/2]
	}
	d.interval.Store(int64(interval))
	return max(0, interval), nil
}

// errSomeReads ends the reading of an hour.
var errSomeReads = errors.New("enough reads")

// readTimes is a visitor of the times between the first reads of an hour.
type readTimes struct {
	stop   context.CancelCauseFunc
	last   int64
	pauses []time.Duration
}

func (*readTimes) Start([][]samples.Label)                 {}
func (*readTimes) Wants(string) bool                       { return false }
func (*readTimes) Series(int, string, []samples.Label) int { return -1 }
func (*readTimes) Metric(samples.Metric)                   {}
func (t *readTimes) Read(r *samples.Read) {
	if r.Target != 0 {
		return
	}
	if pause := r.Time - t.last; t.last != 0 && pause > 0 {
		t.pauses = append(t.pauses, time.Duration(pause)*time.Millisecond)
	}
	if t.last = r.Time; len(t.pauses) == someReads-1 {
		t.stop(errSomeReads)
	}
}
