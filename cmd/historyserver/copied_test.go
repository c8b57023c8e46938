package main

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/indexing"
	"github.com/rayhistory/historyserver/pkg/session"
)

// TestCopiedStoreAnswersAtOnce: in a copy of a store every object has another time, so its indexes are out of date. The
// first requests are answered all the same, and nothing is called damaged.
func TestCopiedStoreAnswersAtOnce(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, archive := range []string{"jobs-2.55", "jobs-2.60"} {
		must.OK(t, recording.Unpack(filepath.Join("..", "..", "pkg", "findings", "testdata", archive+".tar.gz"), dir))
	}
	before := time.Now().Add(-3 * time.Hour)
	must.OK(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, before, before)
	}))
	log := silent.Logger()
	store := must.Get(local.Open(dir))(t)
	var sessions []layout.Session
	for o, err := range store.List(t.Context(), "log/metadir/", blob.ListOptions{}) {
		must.OK(t, err)
		if ref, err := layout.ParseMarker("log", o.Key); err == nil {
			sessions = append(sessions, ref)
		}
	}
	for _, ref := range sessions {
		writer := indexing.Places{Store: store, Root: "log", Log: log}.Open()
		loaded, err := session.Load(t.Context(), store, "log", ref, session.Options{Log: log})
		if err == nil {
			err = writer.Write(t.Context(), loaded, nil)
		}
		must.OK(t, err)
	}
	must.OK(t, os.CopyFS(copied, os.DirFS(dir)))
	o := must.Get(parse(t, []string{"--local-dir=" + copied, "--dashboard-dir=" + dir}, nil))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var said lockedText
	log = logrus.New()
	log.SetOutput(&said)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- o.serve(ctx, listener, log, metricdocs.NewRegistry()) }()
	base := "http://" + listener.Addr().String()
	assistant := assistantOf(t, base)
	var all sync.WaitGroup
	for i, ref := range sessions {
		other := sessions[(i+1)%len(sessions)]
		path := "/namespaces/" + ref.Namespace + "/clusters/" + ref.Cluster + "/sessions/" + ref.Name + "/"
		for _, below := range []string{"api/v0/tasks", "api/v0/tasks?detail=true", "api/v0/tasks/summarize", "findings",
			"api/history/findings", "compare?with=" + other.String(), "api/v0/actors", "api/jobs/"} {
			all.Go(func() {
				status, body, err := patient(base + path + below)
				says.True(t, err == nil && status == http.StatusOK && !strings.Contains(body, "damaged"),
					"%s: %d %v %.300s", below, status, err, body)
			})
		}
		all.Go(func() {
			text, isError := call(t, assistant, "why", map[string]any{"session": ref.String()})
			says.True(t, !isError, "why: %s", text)
		})
	}
	all.Wait()
	stop()
	says.OK(t, <-served)
	says.None(t, said.String(), "damaged", "level=warning", "level=error")
}

// patient asks again as long as the answer is that the session is still being read, as on a busy machine.
func patient(url string) (status int, body string, err error) {
	for {
		resp, err := http.Get(url)
		if err != nil {
			return 0, "", err
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			return resp.StatusCode, string(text), err
		}
	}
}

// lockedText keeps what several write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
