package findings_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

// stored reads the metrics in the store of a folder.
func stored(t testing.TB, dir string) *promapi.Stored {
	t.Helper()
	store := must.Get(local.Open(dir))(t)
	return &promapi.Stored{
		API: promapi.New(promapi.Options{MaxSamples: 1_000_000, Timeout: time.Minute, Concurrent: 1,
			Wait: time.Minute}),
		Databases: metrics.NewDatabases(store, layout.DefaultRoot, 64<<20, nil),
	}
}

func withMetrics(t testing.TB, dir string, ref layout.Session, m moment.Metrics) *findings.Report {
	t.Helper()
	return reportWith(t, load(t, dir, ref, nil), m)
}

func reportWith(t testing.TB, s *session.Session, m moment.Metrics) *findings.Report {
	t.Helper()
	r := &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: s}
	return must.Get(findings.Reader{Metrics: m}.Read(t.Context(), r))(t)
}

// TestFigures: if a node died, workers ran out of memory or processes ended, what the stored metrics said about the
// node is evidence. This holds if Ray's metrics are stored, and if only hardware figures are.
func TestFigures(t *testing.T) {
	for _, want := range []struct{ archive, kind, text string }{
		{"oom_task", findings.OutOfMemory,
			`^memory of node 10\.\d+\.\d+\.\d+: [\d.]+ GiB of [\d.]+ GiB \(\d+ %\) used (?:\d+m )?\d+s before it failed.*; less than when Ray’s memory monitor acted, so it rose between two readings$`},
		{"node_death", findings.NodeDied,
			`^memory of node 10\.\d+\.\d+\.\d+: [\d.]+ GiB of [\d.]+ GiB \(\d+ %\) used (?:\d+m )?\d+s before it failed`},
		{"more-2.60", findings.WorkerDied,
			`^memory of node .*: [\d.]+ GiB of [\d.]+ GiB \(\d+ %\) used (?:\d+m )?\d+s before it failed`},
		{"more-2.60", findings.DriverKilled,
			`^memory of node .*: [\d.]+ GiB of [\d.]+ GiB \(\d+ %\) used (?:\d+m )?\d+s before it failed`},
	} {
		dir, ref := cluster(t, want.archive)
		r := withMetrics(t, dir, ref, stored(t, dir))
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == want.kind })
		must.True(t, i >= 0, "%s: no finding %s", want.archive, want.kind)
		f := r.Findings[i]
		at := slices.IndexFunc(f.Evidence, func(e findings.Evidence) bool { return e.Source == "metric" })
		if at < 0 {
			t.Errorf("%s: %s: no metrics: %+v; missing %q", want.archive, f.Title, f.Evidence, r.Missing)
			continue
		}
		e := f.Evidence[at]
		t.Log(want.archive, f.Title, f.First, e.Time, e.Text)
		when, err := time.Parse(time.RFC3339, e.Time)
		first, firstErr := time.Parse(time.RFC3339, f.First)
		says.True(t, err == nil && firstErr == nil && !when.After(first) && first.Sub(when) <= 5*time.Minute,
			"%s: at %s, and it happened at %s", want.archive, e.Time, f.First)
		if !regexp.MustCompile(want.text).MatchString(e.Text) || e.NodeID == "" ||
			!regexp.MustCompile(`/grafana/d-solo/rayDefaultDashboard/.*panelId=4&var-Instance=[0-9].*&from=\d{13}&to=\d{13}$`).MatchString(e.Link) {
			t.Errorf("%s: %+v", want.archive, e)
		}
	}
}

// noMetrics is a store whose metrics cannot be read.
type noMetrics struct{ asked int }

func (m *noMetrics) Values(context.Context, layout.Session, bool, time.Time, string,
	func(func(string) string, float64)) error {
	m.asked++
	return errors.New("the store is down")
}

// TestNoFigures: if metrics cannot be read, only their evidence is missing. They are requested once, and the report
// says that they are missing and is not kept. If no metrics are stored, the report is complete.
func TestNoFigures(t *testing.T) {
	dir, ref := cluster(t, "oom_task")
	without := withMetrics(t, dir, ref, nil)
	down := &noMetrics{}
	r := withMetrics(t, dir, ref, down)
	says.True(t, len(r.Findings) == len(without.Findings) && r.Findings[0].Title == without.Findings[0].Title &&
		len(r.Findings[0].Evidence) == len(without.Findings[0].Evidence), "findings %+v, without metrics %+v",
		r.Findings, without.Findings)
	says.True(t, down.asked == 1 && r.Partial && strings.Contains(strings.Join(r.Missing, "\n"), "stored metrics"),
		"asked %d times; partial %v; missing %q", down.asked, r.Partial, r.Missing)
	writeIndexWith(t, dir, ref, false, down)
	if _, err := os.Stat(keptFile(dir, ref)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the report was kept: %v", err)
	}
	writeIndexWith(t, dir, ref, false, stored(t, dir))
	if kept, err := os.ReadFile(keptFile(dir, ref)); err != nil || !bytes.Contains(kept, []byte(`"source":"metric"`)) {
		t.Errorf("the report is not kept with what metrics say: %v", err)
	}
	says.True(t, !without.Partial && len(without.Missing) == 0, "without metrics: missing %q", without.Missing)
}
