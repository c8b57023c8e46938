package session

import (
	"math"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
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

// FuzzRows: whatever columns of an index hold, rows are read or refused.
func FuzzRows(f *testing.F) {
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 20))
	s, err := Load(f.Context(), b, layout.DefaultRoot, testSession, Options{})
	if err != nil {
		f.Fatal(err)
	}
	tables := s.Tables()
	f.Add(uint8(0), uint8(3), int64(7), []byte{0x80})
	f.Add(uint8(20), uint8(3), int64(-1), []byte{2, 2, 200, 1})
	f.Fuzz(func(t *testing.T, column, row uint8, value int64, blob []byte) {
		changed := *tables
		changed.Source = damagedRows{tables.Source,
			func(c *tasktable.Columns) { damage(c, int(column), int(row)%len(c.Scan[0]), value, blob) }}
		got, err := (&source{opts: Options{Index: &rejecting{}}}).fromTables(t.Context(), testSession,
			&listing{logs: sessionlogs.New(b), snapshots: snapshots.New(b, snapshots.Options{})}, &changed)
		if err != nil {
			t.Fatal(err)
		}
		for n := range got.Tasks.Len() {
			r := got.Tasks.Row(n, 0)
			r.States(nil)
			r.Failure()
			r.LogInfo()
			r.Profile(&tasktable.Profile{})
		}
		_, _ = got.Tasks.Summarize(tasktable.Query{Limit: 10}, false)
	})
}

// damage changes one value of a column.
func damage(c *tasktable.Columns, column, row int, value int64, blob []byte) {
	switch {
	case column < len(c.Scan):
		c.Scan[column][row] = int32(value)
	case column < len(c.Scan)+len(c.Cells):
		c.Cells[column-len(c.Scan)][row] = int32(value)
	case column < len(c.Scan)+len(c.Cells)+len(c.Times):
		c.Times[column-len(c.Scan)-len(c.Cells)][row] = value
	case len(c.Blobs) > 0:
		b := &c.Blobs[column%len(c.Blobs)]
		b.Data = append(b.Data, blob...)
		b.Ends[len(b.Ends)-1] = uint32(min(len(b.Data), math.MaxInt32))
	}
}
