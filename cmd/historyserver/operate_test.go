package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/recording"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const recorded = "default/lab/session_2026-11-20_23-19-45_581717_22125"

// runCommand runs a command and gives its standard output.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runCommand(t, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

// TestOperatorsDay copies a recorded bucket to the other layout, takes a session home and back, joins, checks and removes it.
func TestOperatorsDay(t *testing.T) {
	from, dir := "--local-dir="+recording.Open(t).Bucket("kuberay-1.7"), t.TempDir()
	copied, file, home := filepath.Join(dir, "copied"), filepath.Join(dir, "session.tar.zst"), filepath.Join(dir, "home")
	mustRun(t, "copy", "--all", from, "--to=local-dir="+copied, "--layout=1.6")
	mustRun(t, "export", "default/lab/latest", "--local-dir="+copied, "--file="+file)
	mustRun(t, "import", file, "--local-dir="+home)

	var sessions []listed
	if err := json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", "--local-dir="+home)), &sessions); err != nil {
		t.Fatal(err)
	}
	if len(sessions) != 1 || sessions[0].Cluster != "lab" || sessions[0].RayVersion != "2.60.0" || sessions[0].Objects == 0 {
		t.Errorf("%+v", sessions)
	}
	for _, args := range [][]string{{"ls"}, {"du"}, {"show", recorded}} {
		if out := mustRun(t, append(args, "--local-dir="+home)...); !strings.Contains(out, "session_2026-11-20_23-19-45_581717_22125") {
			t.Errorf("%q tells %s", args, out)
		}
	}
	mustRun(t, "compact", "--all", "--local-dir="+home)
	mustRun(t, "verify", recorded, "--local-dir="+home)
	mustRun(t, "rm", recorded, "--quiet=1ns", "--dry-run", "--local-dir="+home)
	if _, err := runCommand(t, "rm", recorded, "--local-dir="+home); err == nil || !strings.Contains(err.Error(), "running") {
		t.Errorf("a session that was written just now is removed: %v", err)
	}
	mustRun(t, "rm", recorded, "--quiet=1ns", "--local-dir="+home)
	if out := mustRun(t, "ls", "-o", "json", "--local-dir="+home); strings.TrimSpace(out) != "[]" {
		t.Errorf("after all: %s", out)
	}
}

func TestCommandsSayWhatToDo(t *testing.T) {
	dir := "--local-dir=" + t.TempDir()
	for want, args := range map[string][]string{
		"--all":            {"compact", dir},
		"--older-than":     {"rm", dir},
		"historyserver ls": {"show", recorded, dir},
		"--to local-dir":   {"copy", "--all", dir},
		"want 1.6 or 1.7":  {"copy", "--all", dir, "--to=local-dir=x", "--layout=2"},
		"storage flag":     {"copy", "--all", dir, "--to=nothing=x"},
		"table or json":    {"ls", "-o", "xml", dir},
		"no such file":     {"import", "nowhere.tar.zst", dir},
		"--file":           {"export", recorded, "--file=/nowhere/x", "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")},
	} {
		if _, err := runCommand(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

func TestVerifyFails(t *testing.T) {
	dir := recording.Open(t).Bucket("kuberay-1.6")
	store, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	if err := store.Put(t.Context(), layout.FactsKey("log", ref, layout.End), strings.NewReader("{")); err != nil {
		t.Fatal(err)
	}
	if out, err := runCommand(t, "verify", "--all", "--local-dir="+dir); err == nil || !strings.Contains(out, "end.json") {
		t.Errorf("damage is told as %q, %v", out, err)
	}
}

// TestUpkeep: a round joins what it may, and removes what ended long ago and is not written.
func TestUpkeep(t *testing.T) {
	dir := t.TempDir()
	store, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	now := time.Now()
	var entries []catalog.Entry
	for cluster, age := range map[string]time.Duration{"old": 800 * time.Hour, "young": time.Hour} {
		ref := layout.Session{Namespace: "default", Cluster: cluster, Name: "session_1"}
		log := layout.Prefix("log", ref) + "logs/" + strings.Repeat("0", 56) + "/a"
		for key, body := range map[string]string{
			layout.MetaKey("log", ref): "", layout.FactsKey("log", ref, layout.End): "{}", log: "one\n", layout.ChunkKey(log, 4, layout.Plain): "two\n",
		} {
			if err := store.Create(t.Context(), key, strings.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, key), now.Add(-age), now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
		entries = append(entries, catalog.Entry{Ref: ref, Described: true, End: now.Add(-age), LastWrite: now.Add(-age)})
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	u := upkeep{
		options: &upkeepOptions{compact: true, retention: 720 * time.Hour}, store: store, root: "log", log: log,
		sessions: func() []catalog.Entry { return entries },
	}
	u.round(context.Background(), now)
	out := mustRun(t, "ls", "-o", "json", "--local-dir="+dir)
	var left []listed
	if err := json.Unmarshal([]byte(out), &left); err != nil || len(left) != 1 || left[0].Cluster != "young" || left[0].Objects != 2 || left[0].Bytes != 10 {
		t.Errorf("left is %s, %v", out, err)
	}
}
