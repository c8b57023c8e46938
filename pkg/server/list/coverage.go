package list

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// Coverage answers GET /api/history/coverage: the running clusters that the caller may see, each with how well its
// collectors cover it.
func (h *Handlers) Coverage(w http.ResponseWriter, r *http.Request) error {
	report, err := h.coverage(r)
	if err != nil {
		return err
	}
	writer.Data(w, report)
	return nil
}

// CoverageParams are the parameters of CoveragePage.
var CoverageParams = []string{"state"}

// maxCovered limits the number of clusters on the page.
const maxCovered = 1000

// CoveragePage shows what Coverage answers, clusters that need attention first; ?state= shows only that state.
func (h *Handlers) CoveragePage(w http.ResponseWriter, r *http.Request) error {
	form := param.Form{Values: r.URL.Query()}
	page := web.Coverage{Frame: visible.Frame(r), Chosen: form.Get("state")}
	form.Parse("state", func(state string) bool { return slices.Contains(coverage.States, coverage.State(state)) },
		human.Or(coverage.States))
	if form.Err != nil {
		return form.Err
	}
	report, err := h.coverage(r)
	if err != nil {
		return err
	}
	page.Warning = report.Warning
	for _, state := range coverage.States {
		page.States = append(page.States, web.CoverageState{Name: string(state), Means: state.Means(),
			Count: report.Counts[state]})
		if page.Chosen != "" && page.Chosen != string(state) {
			continue
		}
		for _, c := range report.Clusters {
			switch {
			case c.State != state:
			case len(page.Clusters) == maxCovered:
				page.LeftOut++
			default:
				page.Clusters = append(page.Clusters, coverageRecord(c))
			}
		}
	}
	web.Write(w, http.StatusOK, page)
	return nil
}

// coverageRecord is a cluster's row on the page.
func coverageRecord(c coverage.Cluster) web.CoverageRecord {
	r := web.CoverageRecord{Namespace: c.Namespace, Name: c.Name, State: string(c.State), Why: c.Why,
		Created: c.Created, LastWrite: c.LastWrite}
	if c.OwnerKind != catalog.RayCluster {
		r.Owner = c.OwnerKind + " " + c.OwnerName
	}
	return r
}

// coverage returns how well collectors cover the running clusters that the caller may see.
func (h *Handlers) coverage(r *http.Request) (coverage.Report, error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.opts.LoadWait, shared.ErrWaited)
	defer cancel()
	return h.opts.Sessions.Coverage(ctx, h.opts.CollectorVersion)
}

// coverageMetrics counts all running clusters by state whenever Prometheus reads the server's metrics, whoever may see
// the clusters.
type coverageMetrics struct {
	sessions visible.Sessions
	version  string
	desc     *prometheus.Desc
}

// NewCoverage makes the metrics of Coverage; there are none if no clusters are watched.
func NewCoverage(sessions visible.Sessions, version string) prometheus.Collector {
	return coverageMetrics{sessions, version, prometheus.NewDesc("historyserver_clusters_covered",
		"Running RayClusters, by how well collectors cover them.", []string{"state"}, nil)}
}

func (c coverageMetrics) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// coverageWait is how long a request for metrics waits for the first listings of a server that has just started.
const coverageWait = 2 * time.Second

// Collect implements prometheus.Collector.
func (c coverageMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), coverageWait)
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
