package catalog

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// FuzzMetadata: whatever metadata holds, the session's details are read.
func FuzzMetadata(f *testing.F) {
	for _, body := range []string{
		`{"ownerKind": "RayCluster", "ownerName": "lab", "rayVersion": "2.60.0", "start": "2026-11-20T23:19:45Z"}`,
		`{"rayVersion": "2.60.0", "start": "2026-11-20T23:19:45Z", "end": "2026-11-20T23:30:00Z", "nodes": 3}`,
		`{"start": "2026-11-20T23:19:4yZ"}`, `{"nodes": 1e400}`, `{"nodes": "3"}`, `[`, ``, `null`,
		`{"Data": {"RayVersion": 3}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		store := &storetest.Store{Objects: map[string][]byte{"session/start.json": body}}
		c := &Catalog{opts: Options{Store: store, Log: silent.Logger()}}
		var start layout.StartMetadata
		var end layout.EndMetadata
		for _, into := range []any{&start, &end} {
			if err := c.readJSON(t.Context(), "session/start.json", into); err != nil {
				t.Errorf("%q: %v", body, err)
			}
		}
	})
}
