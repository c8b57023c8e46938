package findings

import (
	"math/rand/v2"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestJobThen: what is made after its maker's end is for the only job that runs then. All jobs are asked one after the
// other for comparison.
func TestJobThen(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200 {
		maker := rayid.Job{255}
		b := &builder{jobs: []job{{id: maker, Job: moment.Job{Start: 1, End: 2}}}}
		for i := range random.IntN(6) {
			start := random.Int64N(20) * minHung
			b.jobs = append(b.jobs, job{id: rayid.Job{byte(random.IntN(4) * i)}, Job: moment.Job{Start: start,
				End: (start - minHung + random.Int64N(8)*minHung) * int64(random.IntN(2))}})
		}
		for at := range int64(24) {
			at = at*minHung + 2
			want, running := maker, 0
			for _, j := range b.jobs {
				if !j.id.Nil() && j.Start <= at && (j.End == 0 || at <= j.End) {
					want, running = j.id, running+1
				}
			}
			if running != 1 || at-2 < minHung {
				want = maker
			} else {
				found++
			}
			if got := b.jobThen(maker, at); got != want {
				t.Fatalf("at %d: %v, want %v, of %+v", at, got, want, b.jobs)
			}
		}
	}
	says.True(t, found >= 100, "a sole job in %d cases", found)
}
