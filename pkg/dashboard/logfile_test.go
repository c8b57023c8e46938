package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// TestNothingIsSentBeforeAnError: a log that cannot be read is answered with an error, also if what was read may be the
// beginning of a colour.
func TestNothingIsSentBeforeAnError(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	store := storetest.New()
	set := sessionlogs.New(store)
	for offset, text := range map[int64]string{0: "\x1b[3", 3: "1mred\n"} {
		key := layout.LogChunkKey(layout.LogKey("log", ref, rayid.Node{1}, "a.log"), offset, layout.Plain)
		if offset == 0 {
			store.Objects[key] = []byte(text) // the other is lost
		}
		o, err := layout.ParseObject("log", ref, key)
		if err != nil {
			t.Fatal(err)
		}
		set.Add(o, blob.Object{Key: key, Size: int64(len(text))})
	}
	w := httptest.NewRecorder()
	r := &Request{Request: httptest.NewRequest(http.MethodGet, "/", nil),
		Moment: moment.Moment{Session: &session.Session{Logs: set}}}
	f, err := set.Open(t.Context(), rayid.Node{1}, "a.log")
	if err != nil {
		t.Fatal(err)
	}
	err = sendLog(w, r, &options{mediaType: "file", lines: -1, filterANSI: true},
		part{file: f, name: "a.log", end: 8, open: true})
	if err == nil || w.Body.Len() > 0 || w.Header().Get("Content-Disposition") != "" {
		t.Errorf("error %v after %q, %v", err, w.Body, w.Header())
	}
}
