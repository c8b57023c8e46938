package dashboard

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestUnsavedSubmissions: without a saved list of jobs, events and logs tell how submissions ended, in Ray's words.
func TestUnsavedSubmissions(t *testing.T) {
	for _, name := range []string{"ray-2.55", "ray-2.60-wide"} {
		t.Run(name, func(t *testing.T) {
			rec := recording.OpenNamed(t, name)
			dir := rec.Store()
			for _, url := range []string{"/api/jobs/", "/api/v0/jobs?detail=1&limit=10000"} {
				if err := os.Remove(filepath.Join(dir,
					filepath.FromSlash(layout.SnapshotKey(layout.DefaultRoot, rec.Session, url)))); err != nil {
					t.Fatal(err)
				}
			}
			a := newAsker(t, load(t, dir, rec.Session), Options{})
			seen := 0
			for _, answer := range rec.Golden() {
				if answer.URL != "/api/jobs/" {
					continue
				}
				list, err := pyjson.Parse(answer.Body)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range list.([]any) {
					want := v.(*pyjson.Object)
					id := want.String("submission_id")
					if id == "" {
						continue
					}
					seen++
					got := a.body("/api/jobs/" + id).(*pyjson.Object)
					for _, column := range []string{"status", "message", "error_type", "driver_exit_code",
						"driver_node_id", "driver_agent_http_address", "metadata"} {
						if got, want := pyjson.Append(nil, got.Get(column)),
							pyjson.Append(nil, want.Get(column)); !bytes.Equal(got, want) {
							t.Errorf("%s of %s:\ngot  %s\nwant %s", column, id, got, want)
						}
					}
				}
			}
			if seen < 4 {
				t.Errorf("%d submissions", seen)
			}
		})
	}
}
