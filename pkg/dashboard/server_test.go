package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// sharedStore is where the default recording's session is stored for all tests that do not change it.
var sharedStore string

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	dir, err := os.MkdirTemp("", "dashboard-")
	if err != nil {
		panic(err)
	}
	sharedStore = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// asker asks a Dashboard about one session.
type asker struct {
	t       testing.TB
	session *session.Session
	mux     *http.ServeMux
	at      int64
}

// lab is the session of tests that store what it has themselves.
var lab = layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab",
	Name: "session_2026-11-20_23-19-45_581717_22125"}

// put writes an object of a store in a folder.
func put(t testing.TB, dir, key, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(key))
	must.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(t, os.WriteFile(file, []byte(text), 0o644))
}

// load loads a session from a folder that a local store wrote.
func load(t testing.TB, dir string, ref layout.Session) *session.Session {
	t.Helper()
	store := must.Get(local.Open(dir))(t)
	s := must.Get(session.Load(t.Context(), store, layout.DefaultRoot, ref, session.Options{Log: logrus.New()}))(t)
	return s
}

var writeShared = sync.OnceValues(func() (*recording.Archive, error) {
	archive, err := recording.Find(recording.Default)
	if err == nil {
		err = archive.WriteStore(sharedStore)
	}
	return archive, err
})

// recorded asks about the default recording's session, as our own collectors store it.
func recorded(t testing.TB) *asker {
	t.Helper()
	archive := must.Get(writeShared())(t)
	ref := must.Get(archive.Session())(t)
	return newAsker(t, load(t, sharedStore, ref), Options{})
}

func newAsker(t testing.TB, s *session.Session, opts Options) *asker {
	opts.Log = logrus.New()
	a := &asker{t: t, session: s, mux: http.NewServeMux()}
	d := New(opts)
	for _, route := range d.Routes() {
		pattern := strings.ReplaceAll(route.Path, ":*}", "...}")
		if strings.HasSuffix(pattern, "/") {
			pattern += "{$}"
		}
		a.mux.HandleFunc(route.Method+" "+pattern, func(w http.ResponseWriter, r *http.Request) {
			route.Serve(w, &Request{Request: r, Moment: *d.MomentAt(a.session, a.at)})
		})
	}
	return a
}

func (a *asker) do(method, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, httptest.NewRequest(method, url, nil))
	return w
}

func (a *asker) get(url string) *httptest.ResponseRecorder { return a.do(http.MethodGet, url) }
