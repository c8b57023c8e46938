package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestMetricsKills: a collector that is killed again and again while it reads metrics, over a store with every kind of
// failure, stores what the exporter told and nothing else; at most the read under way is lost at each end. Events and
// logs are whole.
func TestMetricsKills(t *testing.T) {
	t.Parallel()
	const asOftenAsALoadedMachineCan = 400 * time.Millisecond
	r := newRig(t, ourselves(role{Faults: "all", Metrics: asOftenAsALoadedMachineCan}))
	e := r.export()
	r.run(4, 11)
	s := r.verifyMetrics(e)
	s.answers(e)
	gaveUp := s.gaveUp
	for _, number := range s.missing(e.answered()) {
		ended := slices.ContainsFunc(r.ended, func(at int64) bool {
			return (number == 0 || at >= e.asked[number-1].at) &&
				(number == len(e.asked)-1 || at <= e.asked[number+1].at)
		})
		if ended {
			continue
		}
		if gaveUp--; gaveUp < 0 {
			t.Errorf("request %d of %s is not stored, though the collector ran on; it warned:%s", number,
				time.UnixMilli(e.asked[number].at).Format(time.StampMilli), r.warnings())
		}
	}
	t.Logf("%d lives, %d requests answered, %d stored whole, %d given up", r.lives, e.answered(), len(s.reads),
		s.gaveUp)
}

// TestMetricsOfAnExporter: an exporter that hangs, fails, sends garbage or far too many series, or is started again
// costs its own figures only, and each is told.
func TestMetricsOfAnExporter(t *testing.T) {
	t.Parallel()
	const maxSeries = hugeSeries / 15
	// Half of it is the time for a read, enough for many series on a loaded machine.
	r := newRig(t, ourselves(role{Metrics: time.Second, MaxSeries: maxSeries}))
	e := r.export()
	r.start(false)
	events, writers, stop := r.load(4, 12)
	until := func(name string, least float64) {
		t.Helper()
		waitFor(t, fmt.Sprintf("%s >= %v", name, least), func() bool {
			got, err := r.read("rayhistory_collector_metrics_" + name)
			return err == nil && got >= least
		})
	}
	// On a busy machine a read may fail for another reason than the one that is made here.
	told := func(words string) {
		t.Helper()
		waitFor(t, "it is told of "+words, func() bool { return strings.Contains(r.logged(), words) })
	}
	e.await(t, 2)
	e.be("fail")
	told("status 500")
	failed := must.Get(r.read("rayhistory_collector_metrics_errors_total"))(t)
	e.be("hang")
	until("errors_total", failed+1)
	told("context deadline exceeded")
	e.be("garbage")
	until("bad_lines_total", 1)
	e.be("")
	e.await(t, 2)
	e.restart()
	e.await(t, 2)
	e.be("huge")
	until("dropped_samples_total", 1)
	e.be("")
	e.await(t, 3) // a table that is full of what is gone is given up for a new one
	stop()
	r.end()
	r.verify(events, writers)
	s := r.verifyMetrics(e)
	s.answers(e)
	if len(s.reads) > 0 {
		says.Equal(t, s.ask("resets("+counterName+`{i="0"}[1h])`, s.reads[len(s.reads)-1].at), 1,
			"the counter was reset")
	}
	huge := s.find(labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "ray_huge"))
	says.True(t, len(huge) != 0 && len(huge) <= maxSeries, "%d series of %d are kept", len(huge), hugeSeries)
	missing := s.missing(e.answered())
	if len(missing) > s.gaveUp+1 { // and the one before the new table
		t.Errorf("requests %v are not stored", missing)
	}
	told("series of port")
	t.Logf("%d requests answered, %d stored whole, %d given up, %d of %d series kept", e.answered(), len(s.reads),
		s.gaveUp, len(huge), hugeSeries)
}

// TestMetricsGiveWay: while the store is down, metrics take no more than half of the spool, or of a disk that is
// smaller; the rest is for events. Those left out are told, and the others are stored once the store is back.
func TestMetricsGiveWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		disk bool // the disk is the limit
	}{{"of the spool", false}, {"of its disk", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const limit = 2 << 20
			down := role{Faults: "down", Metrics: time.Second}
			if !c.disk {
				down.MaxSpool = limit
			}
			r := newRig(t, ourselves(down))
			if c.disk {
				r.smallDisk(limit)
			}
			e := r.export()
			w := r.writers(0)
			write := func() { must.OK(t, w.append("raylet.out", "a line\n")) }
			write()
			r.start(false)
			r.waitReady()
			e.await(t, 3)
			e.be("wide") // stored, it would take more than half of the spool
			waitFor(t, "metrics that are left out",
				func() bool { return strings.Contains(r.logged(), "reserved for events") })
			if taken, err := r.read("rayhistory_collector_spool_bytes"); err != nil || taken > limit/2 {
				t.Errorf("the spool has %v bytes of metrics, %v", taken, err)
			}
			e.be("")
			e.await(t, 3)
			posted := r.post(func() bool {
				n, err := r.read(`rayhistory_collector_events_batches_total{code="503"}`)
				return err == nil && n > 20 && r.subject.Faults(r.dir) > 0
			})
			left, err := r.read("rayhistory_collector_metrics_errors_total")
			says.True(t, err == nil && left != 0, "%v reads are counted as left out, %v", left, err)
			write()
			r.kill()
			r.start(true)
			r.waitReady()
			e.await(t, 2)
			r.end()
			f := r.verify(posted, w)
			says.True(t, f.Sent != 0 && f.Faults != 0, "%+v", f)
			s := r.verifyMetrics(e)
			s.answers(e)
			missing := s.missing(3)
			says.True(t, len(missing) <= s.gaveUp, "requests %v of before are not stored", missing)
			t.Logf("%d events answered 200 and found, %d requests for metrics stored of %d, %v left out",
				len(posted.sent), len(s.reads), e.answered(), left)
		})
	}
}
