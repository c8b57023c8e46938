package session

import (
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// FuzzSeries: whatever an hour of hardware figures holds, there are figures or none.
func FuzzSeries(f *testing.F) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	f.Add([]byte(`{"t": 1795216800000, "node": "ab", "cpu": 12.5, "mem": [1, 2], "gpus": [{"util": 1, "used": 2, "total": 3}]}` + "\n"))
	f.Add([]byte(`{"t": "1", "node": 3}` + "\n{\n\x00\n" + `{"mem": [1,2,3,4]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBucket()
		b.objects[layout.SeriesKey(layout.DefaultRoot, testSession, hour)] = body
		s := loadBucket(t, b)
		if _, err := s.Snapshots.SamplesAt(t.Context(), hour.Add(time.Minute).UnixNano()); err != nil {
			t.Error(err)
		}
	})
}

// FuzzSnapshotOfWorkers: whatever the saved list of workers holds, the session is loaded.
func FuzzSnapshotOfWorkers(f *testing.F) {
	f.Add([]byte(`{"data": {"result": {"result": [{"worker_id": "ab", "is_alive": false, "end_time_ms": 5, "exit_type": "x"}]}}}`))
	f.Add([]byte(`{"data": {"result": {"result": [null, 3, {"end_time_ms": 1e999}]}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBucket()
		b.objects[testWhole] = []byte(lines(0, 2))
		b.objects[layout.SnapshotKey(layout.DefaultRoot, testSession, "/api/v0/workers?limit=10000&detail=1")] = body
		loadBucket(t, b)
	})
}
