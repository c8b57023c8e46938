package list

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// Coverage answers which running clusters of those that the caller may see keep their history.
func (h *Handlers) Coverage(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.opts.LoadWait, problem.ErrWaited)
	defer cancel()
	report, err := h.opts.Sessions.Coverage(ctx, h.opts.CollectorVersion)
	if err != nil {
		return err
	}
	writer.Data(w, report)
	return nil
}

// covered counts the clusters by state, whoever may see them, when Prometheus asks.
type covered struct {
	sessions visible.Sessions
	version  string
	desc     *prometheus.Desc
}

// NewCoverage makes the metrics of Coverage; there are none if no clusters are watched.
func NewCoverage(sessions visible.Sessions, version string) prometheus.Collector {
	return covered{sessions, version, prometheus.NewDesc("historyserver_clusters_covered",
		"Running RayClusters, by how well collectors cover them.", []string{"state"}, nil)}
}

func (c covered) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// coveredWait is how long Prometheus waits for the first listings of a server that has just started.
const coveredWait = 2 * time.Second

func (c covered) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), coveredWait)
	defer cancel()
	report, err := c.sessions.CoverageOfAll(ctx, c.version)
	if err != nil || report.Warning != "" {
		return // a gap says that nothing is known; zeros would say that there are none
	}
	for _, state := range coverage.States {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(report.Counts[state]),
			string(state))
	}
}
