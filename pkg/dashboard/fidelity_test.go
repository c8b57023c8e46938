package dashboard

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/fidelity"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// atLeast are the shares of recorded leaves that must be answered equal, by family of requests; families that are not
// named must be equal throughout. A family below 1 has its reason.
type atLeast map[string]float64

// wholeSession is what our own collectors store: events, logs and snapshots. The answers were recorded while the
// cluster still ran: what grew or changed after, or between the saved answer and the recorded one, is not as recorded.
var wholeSession = atLeast{
	"api/v0/logs/file file":          0.39, // the last lines of logs that went on growing
	"api/v0/tasks":                   0.99, // tasks that ran after
	"api/v0/tasks/summarize":         0.95, // so do their counts
	"api/v0/tasks/summarize lineage": 0.99,
	"api/v0/tasks/timeline":          0.99,
	"api/v0/objects":                 0.98, // references that came and went
	"nodes/{id}":                     0.99, // counters of actors' processes
	"logical/actors/{id}":            0.92, // processes that Ray knew of some seconds later
}

// Ray before 2.58 sends no events of workers, and the recorded list of them was cut at 100 (a collector asks for
// 10,000): the others are known by their logs' names.
var (
	ray257 = with(wholeSession, atLeast{"api/v0/workers": 0.92, "api/v0/objects": 0.97})
	ray255 = with(wholeSession, atLeast{"api/v0/workers": 0.97})
)

// From KubeRay's buckets processes are known by events and logs, not what they used.
var (
	kuberay17 = with(wholeSession, atLeast{
		"nodes?view=summary": 0.87, "nodes/{id}": 0.85, "logical/actors": 0.96, "logical/actors/{id}": 0.96,
		"api/v0/objects": 0.01, "api/v0/objects/summarize": 0.15, "api/prometheus/sd": 0,
		// the autoscaler's text and process are in no log; the rest is what the nodes were
		"api/cluster_status":      0.92,
		"api/v0/workers":          0.99, // that Ray's own drivers ended, and why
		"api/v0/cluster_metadata": 0.8,  // Python's version
	})
	kuberay16 = with(kuberay17, atLeast{
		"api/v0/placement_groups": 0.09, "api/serve/applications": 0, "api/data/datasets/{id}": 0.01,
	})
)

// onPurpose are the statuses that differ from a live dashboard's because they should.
var onPurpose = []fidelity.StatusException{
	{Want: 500, Got: 200, URL: regexp.MustCompile(`^/api/v0/logs`),
		Reason: "a live dashboard cannot reach the logs of a node that is dead"},
	{Want: 200, Got: 500, URL: regexp.MustCompile(`^/api/v0/logs/file\?.*filename=\.\./`),
		Reason: "files outside of the logs folder are not given out"},
	{Want: 500, Got: 200, URL: regexp.MustCompile(`^/api/v0/cluster_events`),
		Reason: "a live dashboard fails to sort the events of a cluster that ran a job"},
	{Want: 404, Got: 200, URL: regexp.MustCompile(`^/api/healthz$`),
		Reason: "only agents answer it; probes may ask here"},
}

// What no collector of KubeRay stored, and what its 1.6 did not.
var (
	notIn17 = map[string]string{
		"api/v0/objects": "references to objects", "api/v0/objects/summarize": "references to objects",
		"api/prometheus/sd": "where processes offered metrics",
	}
	notIn16 = with(notIn17, map[string]string{
		"api/v0/placement_groups": "placement groups", "api/serve/applications": "Serve's state",
		"api/data/datasets/{id}": "Data's state",
	})
)

func with[M ~map[string]V, V any](a, b M) M {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func TestFidelity(t *testing.T) {
	var sources []fidelity.Source
	tests := []struct {
		name      string
		column    string // of the table in docs/compatibility.md
		recording string
		bucket    string // written by another collector; empty for our own layout and snapshots
		floors    atLeast
		notStored map[string]string
		// mean is the least mean share, and beside that without what was not stored. Cluster events, which no recorded
		// dashboard could list, take 2 % of the first.
		mean, beside float64
	}{
		{name: "ray 2.60", column: "Ray 2.60", recording: "ray-2.60", floors: wholeSession, mean: 0.96, beside: 0.98},
		{name: "ray 2.60 wide", column: "2.60, more", recording: "ray-2.60-wide", floors: wholeSession, mean: 0.95,
			beside: 0.98},
		{name: "ray 2.57", column: "2.57, more", recording: "ray-2.57", floors: ray257, mean: 0.945, beside: 0.98},
		{name: "ray 2.55", column: "2.55, more", recording: "ray-2.55", floors: ray255, mean: 0.945, beside: 0.98},
		{name: "kuberay 1.6", column: "KubeRay 1.6", recording: "ray-2.60", bucket: "kuberay-1.6", floors: kuberay16,
			notStored: notIn16, mean: 0.83, beside: 0.95},
		{name: "kuberay 1.7", column: "KubeRay 1.7", recording: "ray-2.60", bucket: "kuberay-1.7", floors: kuberay17,
			notStored: notIn17, mean: 0.90, beside: 0.96},
	}
	for _, tt := range tests {
		if race.Enabled && tt.name != "ray 2.60" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			rec := recording.OpenNamed(t, tt.recording)
			ref := rec.Session
			var dir string
			switch tt.bucket {
			case "":
				dir = rec.Store()
			case "kuberay-1.7":
				ref.Version, ref.OwnerKind = layout.V17, "raycluster"
				fallthrough
			default:
				dir = rec.Bucket(tt.bucket)
			}
			a := newAsker(t, load(t, dir, ref), Options{})
			report := must.Get(fidelity.Compare(rec.Golden(), func(url string) (int, []byte, error) {
				w := a.get(url)
				return w.Code, w.Body.Bytes(), nil
			}))(t)
			var text strings.Builder
			must.OK(t, report.Print(&text, 5))
			exceptions := fidelity.Exceptions{Families: tt.notStored, Statuses: onPurpose}
			mean, beside, status := report.MeanShare(), report.MeanShareBeside(exceptions),
				report.RightStatusShareBeside(exceptions)
			t.Logf("\n%swithout the exceptions: mean family share %.1f%%, right status %.1f%%", text.String(),
				100*beside, 100*status)
			sources = append(sources, fidelity.Source{Name: tt.column, Report: report, Exceptions: exceptions})
			tt.floors.check(t, report, exceptions)
			if mean < tt.mean || beside < tt.beside || status < 1 {
				t.Errorf("mean family share %.3f, without the exceptions %.3f with right status %.3f, want at least %.3f, %.3f, 1", mean, beside, status, tt.mean, tt.beside)
			}
		})
	}
	if len(sources) < len(tests) {
		return // -run chose some
	}
	fidelity.CheckTable(t, "../../docs/compatibility.md", sources)
}

func (floors atLeast) check(t *testing.T, report *fidelity.Report, exceptions fidelity.Exceptions) {
	t.Helper()
	for _, f := range report.Families {
		want, lower := floors[f.Name]
		if !lower {
			want = 1
		}
		share := f.Share()
		says.True(t, share >= want || f.Leaves <= 0, "%s: share %.4f, want at least %.4f", f.Name, share, want)
		for _, wrong := range f.WrongStatus {
			says.True(t, exceptions.Covers(wrong), "%s: status %s", f.Name, wrong)
		}
	}
}
