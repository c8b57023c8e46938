package dashboard

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/fidelity"
	"github.com/rayhistory/historyserver/internal/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// atLeast are the shares of recorded leaves that must be answered equal, by family of requests; families that are not named must be
// equal throughout. A family below 1 has its reason.
type atLeast map[string]float64

// wholeSession is what our own collectors store: events, logs and snapshots. The answers were recorded while the cluster still ran: what
// grew or changed after, or between the saved answer and the recorded one, is not as recorded.
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

// ray255 sends no events of workers, and the saved list of them was cut at 100: the others are known by their logs' names.
var ray255 = with(wholeSession, atLeast{"api/v0/workers": 0.97})

// What KubeRay's collectors never stored: hardware figures and process statistics, objects, runtime environments and service discovery;
// before 1.7 also placement groups, Serve and Data.
var (
	kuberay17 = with(wholeSession, atLeast{
		"nodes?view=summary": 0.03, "nodes/{id}": 0.01, "logical/actors": 0.03, "logical/actors/{id}": 0.03,
		"api/v0/objects": 0.01, "api/v0/objects/summarize": 0.19, "api/v0/runtime_envs": 0.5, "api/prometheus/sd": 0,
		"api/cluster_status":      0.95, // the autoscaler's text and process are in no log; the rest is what the nodes were
		"api/v0/workers":          0.99, // that Ray's own drivers ended, and why
		"api/v0/cluster_metadata": 0.8,  // Python's version
	})
	kuberay16 = with(kuberay17, atLeast{
		"api/v0/placement_groups": 0.09, "api/serve/applications": 0, "api/data/datasets/{id}": 0.01,
	})
)

func with(a, b atLeast) atLeast {
	all := atLeast{}
	for _, m := range []atLeast{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func TestFidelity(t *testing.T) {
	var sources []fidelity.Source
	for _, tt := range []struct {
		name      string
		column    string // of the table in docs/compatibility.md
		recording string
		bucket    string // written by another collector; empty for our own layout and snapshots
		floors    atLeast
		mean      float64
	}{
		{name: "ray 2.60", column: "Ray 2.60", recording: "ray-2.60", floors: wholeSession, mean: 0.97},
		{name: "ray 2.60 wide", column: "2.60, more", recording: "ray-2.60-wide", floors: wholeSession, mean: 0.97},
		{name: "ray 2.55", column: "2.55, more", recording: "ray-2.55", floors: ray255, mean: 0.96},
		{name: "kuberay 1.6", column: "KubeRay 1.6", recording: "ray-2.60", bucket: "kuberay-1.6", floors: kuberay16, mean: 0.78},
		{name: "kuberay 1.7", column: "KubeRay 1.7", recording: "ray-2.60", bucket: "kuberay-1.7", floors: kuberay17, mean: 0.85},
	} {
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
			report, err := fidelity.Compare(rec.Golden(), func(url string) (int, []byte, error) {
				w := a.get(url)
				return w.Code, w.Body.Bytes(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := report.Print(&text, 5); err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + text.String())
			sources = append(sources, fidelity.Source{Name: tt.column, Report: report})
			tt.floors.check(t, report)
			if share := report.MeanShare(); share < tt.mean {
				t.Errorf("mean family share %.3f, want at least %.3f", share, tt.mean)
			}
		})
	}
	fidelity.CheckTable(t, "../../docs/compatibility.md", sources)
}

func (floors atLeast) check(t *testing.T, report *fidelity.Report) {
	t.Helper()
	for _, f := range report.Families {
		want, lower := floors[f.Name]
		if !lower {
			want = 1
		}
		if share := f.Share(); share < want && f.Leaves > 0 {
			t.Errorf("%s: share %.4f, want at least %.4f", f.Name, share, want)
		}
		for _, wrong := range f.WrongStatus {
			if !better(wrong) {
				t.Errorf("%s: status %s", f.Name, wrong)
			}
		}
	}
}

// better says whether a wrong status is meant: the logs of nodes that are dead can be read here, and all health checks are answered.
func better(wrong string) bool {
	return strings.HasPrefix(wrong, "200 for 500: /api/v0/logs") || strings.HasPrefix(wrong, "200 for 404: /api/healthz")
}
