package play

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// A session lasted as long as its recording, whenever it is played; what else was told of its end stays.
func TestEndAsRecorded(t *testing.T) {
	archive := must.Get(recording.Find(recording.Default))(t)
	session := must.Get(archive.Session())(t)
	data := t.TempDir()
	says.True(t, endAsRecorded(data, session, archive) != nil, "a session without an end was given one")
	file := filepath.Join(data, filepath.FromSlash(layout.MetadataKey(layout.DefaultRoot, session, layout.End)))
	must.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	body := must.Get(json.Marshal(layout.EndMetadata{RayVersion: "2.60.0", End: time.Now(), Nodes: 3}))(t)
	must.OK(t, os.WriteFile(file, body, 0o644))
	must.OK(t, endAsRecorded(data, session, archive))
	body = must.Get(os.ReadFile(file))(t)
	var facts layout.EndMetadata
	must.OK(t, json.Unmarshal(body, &facts))
	got := facts.End.Format("15:04")
	says.True(t, got == "23:21" && facts.Nodes == 3 && facts.RayVersion == "2.60.0", "%+v", facts)
	at := must.Get(os.Stat(file))(t).ModTime()
	says.True(t, at.Equal(facts.End), "the end was stored at %s", at)
}
