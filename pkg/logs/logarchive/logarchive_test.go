package logarchive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

// archive writes all logs of a session in each format, which hold the same.
func archive(t *testing.T, logs map[string]string, change func(*Options, *storetest.Store)) (files map[string]string,
	failed []string) {
	t.Helper()
	store := storetest.New()
	o := Options{Logs: sessionlogs.New(store)}
	for path, text := range logs {
		key := layout.LogKey("log", ref, rayid.Node{1}, path)
		store.Objects[key] = []byte(text)
		parsed := must.Get(layout.ParseObject("log", ref, key))(t)
		o.Logs.Add(parsed, blob.Object{Key: key, Size: int64(len(text))})
	}
	o.Selected = new(logsearch.Selection).Of(o.Logs)
	if change != nil {
		change(&o, store)
	}
	for _, format := range []Format{Zip, TarZst} {
		failed = nil
		o.Failed = func(log logsearch.Log, _ error) { failed = append(failed, log.Path) }
		var b bytes.Buffer
		must.OK(t, Write(t.Context(), &b, format, o))
		unpacked := map[string]string{}
		for name, text := range unpack(t, format, b.Bytes()) {
			// what is missing
			unpacked[strings.TrimPrefix(name, rayid.Node{1}.String()+"/")] = strings.TrimRight(text, "\x00")
		}
		says.True(t, files == nil || maps.Equal(files, unpacked), "%s holds %q, .zip %q", format.Suffix, unpacked,
			files)
		files = unpacked
	}
	return files, failed
}

// unpack gives the files of an archive.
func unpack(t *testing.T, format Format, archive []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(name string, body io.Reader, err error) {
		t.Helper()
		must.OK(t, err)
		text, err := io.ReadAll(body)
		must.OK(t, err)
		files[name] = string(text)
	}
	if format.Suffix == Zip.Suffix {
		r := must.Get(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
		for _, f := range r.File {
			body, err := f.Open()
			add(f.Name, body, err)
		}
		return files
	}
	plain := must.Get(zstd.NewReader(bytes.NewReader(archive)))(t)
	defer plain.Close()
	r := tar.NewReader(plain)
	for h, err := r.Next(); err != io.EOF; h, err = r.Next() {
		must.OK(t, err)
		add(h.Name, r, nil)
	}
	return files
}

func TestArchives(t *testing.T) {
	files, failed := archive(t, map[string]string{"raylet.out": "one\n", "old/raylet.out": "two\n",
		"a:b.log": "three\n", "a?b.log": "four\n", "A_b.log": ""}, nil)
	want := map[string]string{"raylet.out": "one\n", "old/raylet.out": "two\n", "A_b.log": "", "a_b.log~2": "three\n",
		"a_b.log~3": "four\n"}
	says.Equal(t, len(files), len(want), "%q, %q failed", files, failed)
	says.Equal(t, len(failed), 0, "%q, %q failed", files, failed)
	for name, text := range want {
		got, ok := files[name]
		says.True(t, ok && got == text, "%s holds %q of %q", name, got, files)
	}
	files, _ = archive(t, map[string]string{"raylet.out": "one\n"}, func(o *Options, _ *storetest.Store) {
		o.End = func(context.Context, logsearch.Log) (int64, error) { return 2, nil }
	})
	says.Equal(t, files["raylet.out"], "on", "up to byte 2: %q", files)
}

// TestNotWhole: what cannot be read is said in the archive, which has all the rest.
func TestNotWhole(t *testing.T) {
	files, failed := archive(t, map[string]string{"bad.log": "x", "good.log": "y"},
		func(_ *Options, store *storetest.Store) {
			delete(store.Objects, layout.LogKey("log", ref, rayid.Node{1}, "bad.log"))
		})
	says.True(t, len(failed) == 1 && files["good.log"] == "y" &&
		strings.Contains(files[notWhole], "/bad.log: it could not be read\n"), "%q, %q failed", files, failed)
}

// TestCutLog: a log whose store gives less than it listed is filled up in a .tar.zst, whose other files are whole.
func TestCutLog(t *testing.T) {
	o := chunked(t, storetest.New(), []part{{"cut.log", 0, layout.Plain, "abc", 5},
		{"good.log", 0, layout.Plain, "y", 1}})
	var b bytes.Buffer
	must.OK(t, Write(t.Context(), &b, TarZst, o))
	files := unpack(t, TarZst, b.Bytes())
	cut := files[rayid.Node{1}.String()+"/cut.log"]
	says.True(t, cut == "abc\x00\x00" && files[rayid.Node{1}.String()+"/good.log"] == "y", "%q", files)
	says.True(t, strings.Contains(files[notWhole], "cut.log: 2 of 5 bytes are not stored\n") &&
		!strings.Contains(files[notWhole], "good.log"), "%q", files[notWhole])
}

// TestGap: what is not stored of a log is said but not written, however much of it the names of the chunks claim.
func TestGap(t *testing.T) {
	compressed := string(layouttest.Pack(t, "one\n", layout.Zstd))
	for name, parts := range map[string][]part{
		"small":        {{"a.log", 0, layout.Plain, "one\n", 4}, {"a.log", 10, layout.Plain, "two\n", 4}},
		"huge":         {{"a.log", 0, layout.Plain, "one\n", 4}, {"a.log", 1 << 60, layout.Plain, "two\n", 4}},
		"at the start": {{"a.log", 1 << 60, layout.Plain, "one\ntwo\n", 8}},
		"behind a compressed chunk": {{"a.log", 0, layout.Zstd, compressed, int64(len(compressed))},
			{"a.log", 1 << 60, layout.Plain, "two\n", 4}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []Format{Zip, TarZst} {
				o := chunked(t, storetest.New(), parts)
				failed := 0
				o.Failed = func(logsearch.Log, error) { failed++ }
				var b bytes.Buffer
				must.OK(t, Write(t.Context(), &limited{&b, 1 << 20}, format, o))
				files := unpack(t, format, b.Bytes())
				text := files[rayid.Node{1}.String()+"/a.log"]
				says.True(t, strings.TrimRight(text, "\x00") == "one\ntwo\n" && len(text) <= 1<<20,
					"%s: %d bytes, %.20q", format.Suffix, len(text), text)
				says.True(t, failed == 1 && strings.Contains(files[notWhole], "/a.log: ") &&
					strings.Contains(files[notWhole], " bytes are not stored\n"), "%s: %d failed, %q", format.Suffix,
					failed, files[notWhole])
			}
		})
	}
}

// part is a stored chunk of a log; the store says that it has listed bytes.
type part struct {
	path        string
	offset      int64
	compression layout.Compression
	body        string
	listed      int64
}

// chunked selects all logs of a session that is stored in parts.
func chunked(t *testing.T, store *storetest.Store, parts []part) Options {
	t.Helper()
	o := Options{Logs: sessionlogs.New(store), Failed: func(logsearch.Log, error) {}}
	for _, p := range parts {
		key := layout.LogChunkKey(layout.LogKey("log", ref, rayid.Node{1}, p.path), p.offset, p.compression)
		store.Objects[key] = []byte(p.body)
		parsed := must.Get(layout.ParseObject("log", ref, key))(t)
		o.Logs.Add(parsed, blob.Object{Key: key, Size: p.listed})
	}
	o.Selected = new(logsearch.Selection).Of(o.Logs)
	return o
}

// limited refuses what is more than left bytes.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("the archive is too large")
	}
	return l.w.Write(p)
}

// TestClientGone: what cannot be sent ends the work.
func TestClientGone(t *testing.T) {
	gone := errors.New("gone")
	archive(t, map[string]string{"a.log": "x", "b.log": "y"}, func(o *Options, _ *storetest.Store) {
		o.End = func(context.Context, logsearch.Log) (int64, error) { return 1, nil }
		o.Failed = func(logsearch.Log, error) {}
		for _, format := range []Format{Zip, TarZst} {
			says.ErrorIs(t, Write(t.Context(), brokenWriter{gone}, format, *o), gone, "%s ends", format.Suffix)
		}
	})
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestNames(t *testing.T) {
	long := strings.Repeat("ä", 130)
	for path, want := range map[string]string{
		"CON": "CON_", "com1.log": "com1_.log", "nul.txt": "nul_.txt", "aux/a": "aux_/a", "a/LPT9": "a/LPT9_",
		"Prn .log": "Prn_ .log", "com².x.y": "com²_.x.y", "conin$": "conin$_",
		"console.log": "console.log", "com.log": "com.log", "com10": "com10", "xnul": "xnul", "nul_": "nul_",
		"CON.": "CON_", "con:": "con_", "\u202egpj.exe": "_gpj.exe", "a\u200bb": "a_b",
		"a\ufeff": "a_", "a\u2028b": "a_b", "a\u00adb": "a_b", "\u2066x\u2069": "_x_", "a\U000e0041": "a_",
		"grüße.log": "grüße.log", "日本.log": "日本.log", "e\u0301.log": "e\u0301.log",
		"a/..": "a/_", "worker-1.out": "worker-1.out", long + ".log": cutName(long+".log", maxPart),
	} {
		got := safePath(path)
		says.True(t, got == want && len(got) <= 255, "%q becomes %q, want %q", path, got, want)
		again := safePath(safePath(path))
		says.True(t, again == safePath(path), "%q becomes %q, and then %q", path, safePath(path), again)
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"a/../b", "/etc/passwd", `..\x`, "a//b", "con:", "\x1b[31m", ". ", "a/./b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name := safePath(path)
		says.True(t, fs.ValidPath(name) && !strings.ContainsAny(name, "\\:\x00\x1b"), "%q becomes %q", path, name)
	})
}
