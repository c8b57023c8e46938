package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

// TestMemoryOfADay: the jobs of a day's sessions count, too, in what is cached and in what is reserved, however little
// they take in a pack.
func TestMemoryOfADay(t *testing.T) {
	for jobs, cached := range map[int]bool{2: true, 200: false} {
		stored := packs.Packs{Store: storetest.New(), Root: "log"}
		var all []packs.Facts
		for i := range 700 {
			f := facts("lab", fmt.Sprint(i), 0)
			f.Jobs = make([]packs.Job, jobs)
			all = append(all, f)
		}
		must.OK(t, stored.Append(t.Context(), first, nil, all))
		listed := must.Get(stored.ListDay(t.Context(), first))(t)
		small := &Fleet{Packs: &stored, Memory: budget.New(budget.Options{Bytes: 8 << 20})}
		if _, _, err := small.readDay(t.Context(), first, listed); errors.Is(err, budget.ErrTooLarge) == cached {
			t.Errorf("sessions with %d jobs, in 8 MiB: %v", jobs, err)
		}
		f := &Fleet{Packs: &stored}
		rows, release, err := f.readDay(t.Context(), first, listed)
		must.OK(t, err)
		release()
		says.Equal(t, len(rows), len(all), "sessions with %d jobs", jobs)
		_, found := f.rowsOfDays().Get(first)
		says.Equal(t, found, cached, "sessions with %d jobs are cached", jobs)
	}
}
