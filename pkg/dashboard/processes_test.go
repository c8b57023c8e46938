package dashboard

import (
	"slices"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestNodeProcessesAt: the page of a node lists the workers that lived at the requested moment, whenever its snapshot
// was taken.
func TestNodeProcessesAt(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	a := newAsker(t, load(t, rec.Store(), rec.Session), Options{})
	head := rec.NodeID(recording.Head).String()
	counts := []int{}
	for _, after := range []time.Duration{45 * time.Second, 150 * time.Second} {
		a.at = a.session.Start + int64(after)
		var want, got []string
		for i := range a.session.Workers {
			w := &a.session.Workers[i]
			if state, existed := moment.WorkerAt(w, a.at); existed && state.Alive && w.Node.String() == head {
				want = append(want, w.ID.String())
			}
		}
		for _, v := range a.data("/nodes/" + head).Object("detail").List("workers") {
			for _, s := range v.(*pyjson.Object).List("coreWorkerStats") {
				id := s.(*pyjson.Object).String("workerId")
				if worker, err := rayid.Parse[rayid.Worker](id); err == nil && a.session.Worker(worker) != nil {
					got = append(got, id)
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("after %v: %d workers, want %d", after, len(got), len(want))
		}
		counts = append(counts, len(got))
	}
	if counts[0] == counts[1] {
		t.Errorf("%d workers at both moments: the test tells nothing", counts[0])
	}
}
