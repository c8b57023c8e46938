package coverage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
)

func TestOf(t *testing.T) {
	now := time.Date(2026, 11, 26, 7, 0, 0, 0, time.UTC)
	const ours, before = "registry:5000/collector:v0.2.0@sha256:00", "collector:v0.1.0"
	old, young := now.Add(-time.Hour), now.Add(-time.Minute)
	for name, tt := range map[string]struct {
		cluster kube.Cluster
		stored  bool
		want    State
	}{
		"covered": {kube.Cluster{State: "ready", Created: old, Collectors: []string{ours, ours}},
			true, Covered},
		"without workers": {kube.Cluster{State: "ready", Created: old, Collectors: []string{ours}}, true,
			Covered},
		"by digest": {kube.Cluster{State: "ready", Created: old,
			Collectors: []string{"collector@sha256:00"}}, true, Covered},
		"no collector": {kube.Cluster{State: "ready", Created: young, Collectors: []string{""}}, false,
			Uncovered},
		"a group without": {kube.Cluster{State: "ready", Created: old, Collectors: []string{ours, ""}}, true,
			Uncovered},
		"old": {kube.Cluster{State: "ready", Created: old, Collectors: []string{ours, before}},
			true, Old},
		"KubeRay's": {kube.Cluster{State: "ready", Created: old, Collectors: []string{before}, AddedByKubeRay: true},
			true, Covered},
		"KubeRay's, silent": {kube.Cluster{State: "ready", Created: old, Collectors: []string{before},
			AddedByKubeRay: true}, false, Silent},
		"old, nothing stored": {kube.Cluster{State: "ready", Created: old, Collectors: []string{before}}, false,
			Silent},
		"old, young": {kube.Cluster{State: "ready", Created: young, Collectors: []string{before}}, false,
			Old},
		"silent": {kube.Cluster{State: "ready", Created: old, Collectors: []string{ours}}, false,
			Silent},
		"young": {kube.Cluster{State: "ready", Created: young, Collectors: []string{ours}}, false,
			Starting},
		"waits for its pods": {kube.Cluster{Created: old, Collectors: []string{ours}}, false, Starting},
		"just resumed": {kube.Cluster{State: "ready", Created: old, ReadySince: young, Collectors: []string{ours}}, false,
			Starting},
		"silent since it was resumed": {kube.Cluster{State: "ready", Created: old, ReadySince: old,
			Collectors: []string{ours}}, false, Silent},
		"being resumed":             {kube.Cluster{State: "suspended", Created: old, Collectors: []string{ours}}, false, Starting},
		"stores before it is ready": {kube.Cluster{Created: young, Collectors: []string{ours}}, true, Covered},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{CollectorVersion: "v0.2.0", Now: now, LastWrites: map[Key]time.Time{}}
			tt.cluster.Namespace, tt.cluster.Name = "team", "lab"
			if tt.stored {
				f.LastWrites[Key{"team", "lab"}] = young
			}
			r := Of([]kube.Cluster{tt.cluster}, f)
			want := map[State]int{Uncovered: 0, Silent: 0, Old: 0, Starting: 0, Covered: 0}
			want[tt.want] = 1
			says.Equal(t, cmp.Diff(want, r.Counts), "")
			for _, c := range r.Clusters {
				says.True(t, c.State == tt.want && (c.Why == "") == (tt.want == Covered) &&
					c.LastWrite.IsZero() != tt.stored, "%+v", c)
			}
		})
	}
}

// Without a wanted version any will do.
func TestAnyVersion(t *testing.T) {
	c := kube.Cluster{Namespace: "team", Name: "lab", State: "ready", Collectors: []string{"collector:x"}}
	r := Of([]kube.Cluster{c}, Facts{LastWrites: map[Key]time.Time{{"team", "lab"}: {}}})
	says.Equal(t, r.Counts[Covered], 1, "%+v", r)
}
