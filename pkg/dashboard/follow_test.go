package dashboard

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestFollow: the stream of a running session's log sends what is stored while it is open, and ends with the session.
func TestFollow(t *testing.T) {
	ref := layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab",
		Name: "session_2026-11-20_23-19-45_581717_22125"}
	node := rayid.Node{0x11, 27: 0x58}
	for _, tt := range []struct {
		name, media, query string
		asked              int // how often it is answered that the session runs
		want               string
	}{
		{"running", "stream", "", 3, "a\nb\nc\nlast\n"},
		{"from the last line", "stream", "&lines=1", 3, "b\nc\nlast\n"},
		{"ended", "stream", "", 0, "a\nb\n"},
		{"a file is no stream", "file", "", 3, "a\nb\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			whole := layout.LogKey(layout.DefaultRoot, ref, node, "raylet.out")
			store := func(offset int64, text string) {
				t.Helper()
				file := filepath.Join(dir, filepath.FromSlash(layout.LogChunkKey(whole, offset, layout.Plain)))
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			store(0, "a\nb\n")
			s := load(t, dir, ref)
			url := "/api/v0/logs/" + tt.media + "?node_id=" + node.String() + "&filename=raylet.out" + tt.query
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				running := func(context.Context) bool {
					switch asked++; asked {
					case 2:
						store(4, "c\n")
					case tt.asked + 1:
						store(6, "last\n")
					}
					return asked <= tt.asked
				}
				w := httptest.NewRecorder()
				r := &Request{
					Request: httptest.NewRequest("GET", url, nil), Params: map[string]string{"media_type": tt.media},
					Moment: moment.Moment{Session: s, Running: running, Env: moment.NewEnv(logrus.New(), nil)},
				}
				if err := oneLog(w, r); err != nil {
					t.Fatal(err)
				}
				if got := w.Body.String(); w.Code != 200 || got != tt.want {
					t.Errorf("%d %q, want %q", w.Code, got, tt.want)
				}
			})
		})
	}
}
