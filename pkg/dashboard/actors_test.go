package dashboard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestActorsHaveTheirOwnIDs: a dashboard's answer was saved in the moment in which it gave actors that had just begun
// the nil ID, as Ray 2.60's does. They are shown, each under its own.
func TestActorsHaveTheirOwnIDs(t *testing.T) {
	const nilID = `"actorId": "ffffffffffffffffffffffffffffffff", "jobId": "ffffffff", "state": "ALIVE"`
	ref := layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab",
		Name: "session_2026-11-20_23-19-45_581717_22125"}
	dir := t.TempDir()
	file := filepath.Join(dir, filepath.FromSlash(layout.SnapshotKey(layout.DefaultRoot, ref, "/logical/actors")))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	saved := `{"result": true, "msg": "", "data": {"actors": {"3e3cfe62d63e7d8b43954ee404000000": {` +
		nilID + `, "name": "kept"},
		"5e19c11469fd95b314d8c2c605000000": {` + nilID + `, "name": "stats"}}}}`
	if err := os.WriteFile(file, []byte(saved), 0o644); err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, load(t, dir, ref), Options{})
	want := map[string]string{"3e3cfe62d63e7d8b43954ee404000000": "kept 04000000",
		"5e19c11469fd95b314d8c2c605000000": "stats 05000000"}
	logical := a.data("/logical/actors").Object("actors")
	for id, name := range want {
		row := logical.Object(id)
		if row == nil || row.String("actorId") != id || row.String("name")+" "+row.String("jobId") != name {
			t.Errorf("%s: %s", id, pyjson.Append(nil, row))
		}
	}
	if got := a.column("/api/v0/actors", "actor_id", "name"); got != "3e3cfe62:kept 5e19c114:stats" {
		t.Errorf("listed: %s", got)
	}
}
