package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestMemoryOfCopies: memory is reserved for copies of saved rows and of events by what is in them, not by how many
// there are.
func TestMemoryOfCopies(t *testing.T) {
	const datasets, runs = "/api/data/datasets/01000000", "/api/train/v2/runs"
	for members, copied := range map[int]int{10: http.StatusOK, 20_000: http.StatusServiceUnavailable} {
		var row strings.Builder
		for i := range members {
			fmt.Fprintf(&row, `, "m%d": {}`, i)
		}
		saved := savedSession(t,
			savedAt{datasets, "10:04:00", fmt.Sprintf(`{"datasets": [{"start_time": %d%s}]}`, sec("10:00:10"), &row)},
			savedAt{runs, "10:04:00",
				fmt.Sprintf(`{"train_runs": [{"start_time_ns": %d%s}]}`, rayevents.At("10:00:10"), &row)})
		logged, _ := withLogs(t, map[string]string{"events/event_GCS.log": fmt.Sprintf(
			`{"event_id": "a", "timestamp": 1795217001, "custom_fields": {"a": 1%s}}`+"\n", &row)})
		for _, tt := range []struct {
			of     *asker
			url    string
			at     int64
			status int
		}{
			{saved, datasets, rayevents.At("10:03:00"), copied}, {saved, datasets, moment.AtEnd, http.StatusOK},
			{saved, runs, rayevents.At("10:03:00"), copied}, {saved, runs, moment.AtEnd, http.StatusOK},
			{logged, "/events", moment.AtEnd, copied}, {logged, "/api/v0/cluster_events", moment.AtEnd, copied},
		} {
			a := newAsker(t, tt.of.session, Options{Memory: budget.New(budget.Options{Bytes: littleBytes})})
			a.at = tt.at
			w := a.get(tt.url)
			says.Equal(t, w.Code, tt.status, "%d members: %s at %d: %.200s", members, tt.url, tt.at, w.Body)
		}
	}
}
