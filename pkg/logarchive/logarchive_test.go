package logarchive

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/memstore"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logsearch"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

// archive writes all logs of a session.
func archive(t *testing.T, logs map[string]string, change func(*Options, *memstore.Store)) (files map[string]string, failed []string) {
	t.Helper()
	store := memstore.New()
	o := Options{Logs: sessionlogs.New(store), Failed: func(log logsearch.Log, _ error) { failed = append(failed, log.Path) }}
	for path, text := range logs {
		key := layout.LogKey("log", ref, rayid.Node{1}, path)
		store.Objects[key] = []byte(text)
		parsed, err := layout.ParseObject("log", ref, key)
		if err != nil {
			t.Fatal(err)
		}
		o.Logs.Add(parsed, blob.Object{Key: key, Size: int64(len(text))})
	}
	o.Selected = new(logsearch.Selection).Of(o.Logs)
	if change != nil {
		change(&o, store)
	}
	var b bytes.Buffer
	if err := WriteZip(t.Context(), &b, o); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(f.Name, rayid.Node{1}.String()+"/")] = string(text)
	}
	return files, failed
}

func TestZip(t *testing.T) {
	files, failed := archive(t, map[string]string{"raylet.out": "one\n", "old/raylet.out": "two\n", "a:b.log": "three\n", "a?b.log": "four\n", "A_b.log": ""}, nil)
	want := map[string]string{"raylet.out": "one\n", "old/raylet.out": "two\n", "A_b.log": "", "a_b.log~2": "three\n", "a_b.log~3": "four\n"}
	if len(files) != len(want) || len(failed) != 0 {
		t.Errorf("%q, %q failed", files, failed)
	}
	for name, text := range want {
		if got, ok := files[name]; !ok || got != text {
			t.Errorf("%s holds %q of %q", name, got, files)
		}
	}
	files, _ = archive(t, map[string]string{"raylet.out": "one\n"}, func(o *Options, _ *memstore.Store) {
		o.End = func(context.Context, logsearch.Log) (int64, error) { return 2, nil }
	})
	if files["raylet.out"] != "on" {
		t.Errorf("up to byte 2: %q", files)
	}
}

// TestNotWhole: what cannot be read is said in the archive, which has all the rest.
func TestNotWhole(t *testing.T) {
	files, failed := archive(t, map[string]string{"bad.log": "x", "good.log": "y"}, func(_ *Options, store *memstore.Store) {
		delete(store.Objects, layout.LogKey("log", ref, rayid.Node{1}, "bad.log"))
	})
	if len(failed) != 1 || files["good.log"] != "y" || !strings.Contains(files[notWhole], "bad.log") {
		t.Errorf("%q, %q failed", files, failed)
	}
}

// TestClientGone: what cannot be sent ends the work.
func TestClientGone(t *testing.T) {
	gone := errors.New("gone")
	archive(t, map[string]string{"a.log": "x", "b.log": "y"}, func(o *Options, _ *memstore.Store) {
		o.End = func(context.Context, logsearch.Log) (int64, error) { return 1, nil }
		if err := WriteZip(t.Context(), brokenWriter{gone}, *o); !errors.Is(err, gone) {
			t.Errorf("it ends with %v", err)
		}
	})
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func FuzzName(f *testing.F) {
	for _, seed := range []string{"a/../b", "/etc/passwd", `..\x`, "a//b", "con:", "\x1b[31m", ". ", "a/./b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if name := Name(path); !fs.ValidPath(name) || strings.ContainsAny(name, "\\:\x00\x1b") {
			t.Errorf("%q becomes %q", path, name)
		}
	})
}
