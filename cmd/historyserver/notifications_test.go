package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// TestTells: a server tells a receiver how a recorded session ended, and knows it for the list then, though nobody opened the session.
func TestTells(t *testing.T) {
	got := make(chan webhooks.Event, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e webhooks.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || !strings.HasPrefix(r.Header.Get("Rayhistory-Signature"), "t=") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got <- e
	}))
	defer receiver.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	copying := command()
	copying.SetArgs([]string{"copy", "--all", "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6"), "--to=local-dir=" + dir})
	copying.SetOut(io.Discard)
	if err := copying.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	write(layout.MetadataKey("log", ref, layout.End), `{"end":"2026-11-20T23:25:00Z"}`)
	write("log/webhooks/since/ours", `{"since":"2026-11-01T00:00:00Z"}`)
	config := write("webhooks.yaml", fmt.Sprintf(`
public_url: https://history.example.com
receivers: [{name: ours, url: %q, secret_file: %q, events: [job_failed, session_ended, finding]}]`, receiver.URL, write("secret", "correct horse battery staple")))

	o, err := parse(t, []string{"--local-dir=" + dir, "--dashboard-dir=" + dir, "--webhooks=" + config}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.webhooksTiming = webhooks.Timing{Interval: 10 * time.Millisecond, Settle: time.Nanosecond}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- o.serve(ctx, listener, log, metricdocs.NewRegistry()) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for told := map[string]int{}; told[webhooks.SessionEnded] == 0; {
		select {
		case e := <-got:
			told[e.Type]++
			t.Logf("%s %s: %s", e.Type, e.Outcome, e.Cause)
			if e.Cluster != "lab" || e.Outcome == "" || e.Outcome == "unknown" || e.URL != "https://history.example.com/namespaces/default/clusters/lab/sessions/"+ref.Name+"/findings" {
				t.Errorf("%+v", e)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("told are %v", told)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, layout.FindingsKey("log", ref))); err != nil {
		t.Errorf("how it ended is not kept: %v", err)
	}
}
