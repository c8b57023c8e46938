package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/pathglob"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestLogsOfAMoment: of a moment no later lines are shown, in each of the forms that Ray's processes write times in;
// where none of the last lines has a time the answer says so.
func TestLogsOfAMoment(t *testing.T) {
	long := strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(&long, "[2026-11-20 23:%02d:%02d,%03d I 7 7] line %d\n", 20+i/6000, i/100%60, i%100*10, i)
	}
	a, node := withLogs(t, map[string]string{
		"raylet.out":        "[2026-11-20 23:20:00,100 I 7 7] early\n[2026-11-20 23:20:01,000 I 7 7] now\n  more of it\n[2026-11-20 23:20:01,500 W 7 7] late\n",
		"dashboard.log":     "2026-11-20 23:20:00,100\tINFO a.py:1 -- early\n2026-11-20 23:20:02,000\tINFO a.py:1 -- late\n",
		"serve/replica.log": "INFO 2026-11-20 23:20:00,100 app -- early\nINFO 2026-11-20 23:20:02,000 app -- late\n",
		"json.log": `{"asctime": "2026-11-20 23:20:00,100", "message": "early"}` + "\n" +
			`{"levelname": "INFO", "timestamp_ns": 1795216802000000000, "message": "late"}` + "\n",
		"later.log":      "2026-11-20 23:20:02,000\tINFO a.py:1 -- late\n",
		"prints.log":     "2026-11-20 23:20:00,100\tINFO a.py:1 -- early\nprinted\n",
		"gcs_server.out": long.String(),
	})
	a.at = at("23:20:01")
	notice := "\n[Ray History Server: the last lines above carry no time; some may be later than 2026-11-20 23:20:01.000 UTC.]\n"
	for file, want := range map[string]string{
		"raylet.out":        "[2026-11-20 23:20:00,100 I 7 7] early\n[2026-11-20 23:20:01,000 I 7 7] now\n  more of it\n" + notice,
		"dashboard.log":     "2026-11-20 23:20:00,100\tINFO a.py:1 -- early\n",
		"serve/replica.log": "INFO 2026-11-20 23:20:00,100 app -- early\n",
		"json.log":          `{"asctime": "2026-11-20 23:20:00,100", "message": "early"}` + "\n",
		"later.log":         "",
		"prints.log":        "2026-11-20 23:20:00,100\tINFO a.py:1 -- early\nprinted\n" + notice,
	} {
		w := a.get("/api/v0/logs/file?lines=-1&node_id=" + node + "&filename=" + file)
		says.Equal(t, w.Code, 200, file)
		says.Equal(t, w.Body.String(), want, file)
	}
	lines := strings.Split(long.String(), "\n")
	for _, n := range []int{0, 1, 99, 5000, 12_345, 19_999} {
		a.at = at("23:20:00") + int64(n/100)*int64(time.Second) + int64(n%100*10)*int64(time.Millisecond)
		got := a.get("/api/v0/logs/file?lines=1&node_id=" + node + "&filename=gcs_server.out").Body.String()
		says.Equal(t, got, lines[n]+"\n", "the last line at that of line %d", n)
	}
	a.at = 0
	if got := a.get("/api/v0/logs/file?lines=-1&node_id=" + node +
		"&filename=prints.log").Body.String(); strings.Contains(got, "History Server") {
		t.Errorf("at the session's end: %q", got)
	}
}

// TestLocalTimesOfDay: the name of a session has the local time of its head, as lines have that say only a time of day.
func TestLocalTimesOfDay(t *testing.T) {
	const lines = "%s early\n%s late\n"
	for offset, c := range map[string]struct{ name, early, late string }{
		"+08:00": {"session_2026-11-21_07-15-00_000000_1", "07:20:00", "07:40:00"},
		"-05:00": {"session_2026-11-20_18-15-00_000000_1", "18:20:00", "18:40:00"},
		"+00:00": {"session_2026-11-20_23-15-00_000000_1", "23:20:00", "23:40:00"},
	} {
		dir, ref := t.TempDir(), layout.Session{Namespace: "ml", Cluster: "lab", Name: c.name}
		log := layout.LogKey(layout.DefaultRoot, ref, rayid.Node{0x11}, "app.log")
		put(t, dir, log, fmt.Sprintf(lines, c.early, c.late))
		put(t, dir, layout.SnapshotKey(layout.DefaultRoot, ref, "/timezone"), fmt.Sprintf(`{"offset": %q}`, offset))
		stored := time.Unix(0, at("23:50:00"))
		must.OK(t, os.Chtimes(filepath.Join(dir, filepath.FromSlash(log)), stored, stored))
		must.OK(t, os.Chtimes(filepath.Join(dir, filepath.FromSlash(
			layout.SnapshotKey(layout.DefaultRoot, ref, "/timezone"))), stored, stored))
		a := newAsker(t, load(t, dir, ref), Options{})
		a.at = at("23:30:00")
		file := "/api/v0/logs/file?lines=-1&node_id=" + rayid.Node{0x11}.String() + "&filename=app.log"
		says.Equal(t, a.get(file).Body.String(), c.early+" early\n", "zone %s", offset)
	}
}

// TestWorkerLogOfAMoment: the log of a recorded worker ends where its next task's output begins.
func TestWorkerLogOfAMoment(t *testing.T) {
	a := recorded(t)
	a.at = at("23:20:28")
	checked := 0
	for i := range a.session.Tasks.Len() {
		row := a.session.Tasks.Row(i, 0)
		info, ok := row.LogInfo()
		if !ok || info.StdoutStart == nil || len(info.StdoutFile) == 0 || row.Node() == nil {
			continue
		}
		began := int64(0)
		for _, s := range row.States(nil) {
			if s.State == "RUNNING" {
				began = s.Time
			}
		}
		if began <= a.at {
			continue
		}
		path := string(info.StdoutFile)
		path = path[strings.LastIndex(path, "/")+1:]
		w := a.get(fmt.Sprintf("/api/v0/logs/file?lines=-1&node_id=%x&filename=%s", row.Node(), path))
		text, _, _ := strings.Cut(w.Body.String(), "\n[Ray History Server")
		if w.Code == 200 && int64(len(text)) > *info.StdoutStart {
			t.Errorf("%s: %d bytes, a task that began later wrote from %d on", path, len(text), *info.StdoutStart)
		}
		checked++
	}
	says.True(t, checked >= 5, "only %d tasks began later", checked)
}

// TestTasksAreGoneThroughOnce: what tasks say about the logs of their workers at a moment, and which jobs had ended by
// then, is found out for all logs in one go: nobody goes through them whose context has ended.
func TestTasksAreGoneThroughOnce(t *testing.T) {
	a := recorded(t)
	m := New(Options{Log: silent.Logger()}).MomentAt(a.session, at("23:20:28"))
	first := must.Get(outputsAt(t.Context(), m))(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if again, err := outputsAt(ended, m); err != nil || len(again) != len(first) || len(first) < 5 {
		t.Errorf("%d workers, then %d: %v", len(first), len(again), err)
	}
	m.At++
	says.ErrorIs(t, says.Err(outputsAt(ended, m)), context.Canceled, "at another moment")
	jobs := must.Get(jobsAt(t.Context(), m))(t)
	if again, err := jobsAt(ended, m); err != nil || len(again) != len(jobs) || len(jobs) == 0 {
		t.Errorf("%d jobs, then %d: %v", len(jobs), len(again), err)
	}
}

func TestANSIFilter(t *testing.T) {
	const text = "a\x1b[1;32mb\x1b[0mc\x1b[md\x1b[2Ke\x1b\x1b[31mf\x1b[(0)mg\x1b[12"
	const want = "abc\x1b[md\x1b[2Ke\x1bfg\x1b[12"
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		f := withoutColours(&b)
		for part := range slices.Chunk([]byte(text), size) {
			must.Get(f.Write(part))(t)
		}
		must.OK(t, f.flush())
		must.True(t, b.String() == want, "in parts of %d: %q, want %q", size, b.String(), want)
	}
}

func TestJobLogText(t *testing.T) {
	const text = "a\r\nb\rc\n\"ü€😀\" \xff\x1b[0m\r"
	const want = `a\nb\nc\n\"\u00fc\u20ac\ud83d\ude00\" \ufffd\u001b[0m\n`
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		j := jsonString(&b)
		for part := range slices.Chunk([]byte(text), size) {
			must.Get(j.Write(part))(t)
		}
		err := j.flush()
		must.True(t, err == nil && b.String() == want, "in parts of %d: %s, %v, want %s", size, b.String(), err, want)
	}
}

func TestGlob(t *testing.T) {
	paths := []string{"raylet.out", "raylet.err", "worker-ab-01-7.out", "serve/replica.log", "serve/deep/x.log",
		"weird[1].log"}
	for glob, want := range map[string]string{
		"*":              "events/ nsight/ old/ profiles/ raylet.err raylet.out rocprof_sys/ serve/ weird[1].log worker-ab-01-7.out",
		"raylet*":        "raylet.err raylet.out",
		"raylet.???":     "raylet.err raylet.out",
		"raylet.[eo]??":  "raylet.err raylet.out",
		"raylet.[!o]*":   "raylet.err",
		"weird[[]1].log": "weird[1].log",
		"serve/*":        "serve/deep/ serve/replica.log",
		"serve/":         "serve/",
		"./serve/*.log":  "serve/replica.log",
		"**/*.log":       "serve/deep/x.log serve/replica.log weird[1].log",
		"**":             "events/ nsight/ old/ profiles/ rocprof_sys/ serve/ serve/deep/",
		"nope":           "",
		"(raylet|x).out": "",
	} {
		got, err := globLogs(t.Context(), paths, glob)
		says.True(t, err == nil && strings.Join(got, " ") == want, "%s: %v, %v, want %s", glob, got, err, want)
	}
	for _, glob := range []string{"", "/etc/*", "../*", "serve/../../*"} {
		if got, err := globLogs(t.Context(), paths, glob); err == nil {
			t.Errorf("%q lists %v", glob, got)
		}
	}
}

func TestLogCategories(t *testing.T) {
	for file, want := range map[string]string{
		"worker-ab-01-7.out": "worker_out", "worker-ab-01-7.err": "worker_err",
		"python-core-worker-ab_7.log": "core_worker",
		"python-core-driver-01_7.log": "driver", "raylet.out": "raylet", "gcs_server.err": "gcs_server",
		"log_monitor.log": "internal",
		"monitor.out":     "autoscaler", "dashboard_agent.log": "agent", "runtime_env_agent.log": "agent",
		"dashboard.log": "dashboard", "serve/": "internal",
	} {
		says.Equal(t, logCategory(file), want, file)
	}
}

// TestGlobIsBounded: what is long or has many wildcards is refused, what is left takes time as its length and that of
// the names, and ends when nobody waits for it.
func TestGlobIsBounded(t *testing.T) {
	for _, glob := range []string{strings.Repeat("*", 60_000), strings.Repeat("a*", pathglob.MaxWildcards+1),
		strings.Repeat("a", pathglob.MaxLength+1), strings.Repeat("[a]", 1000), strings.Repeat("**/", 1000)} {
		says.ErrorIs(t, says.Err(globLogs(t.Context(), nil, glob)), pathglob.ErrLong, "%.20s", glob)
	}
	// Backtracking would take longer than the universe is old.
	name := strings.Repeat("a", 1000)
	glob := strings.Repeat("a*", pathglob.MaxWildcards) + "b"
	says.Equal(t, len(must.Get(globLogs(t.Context(), []string{name, strings.Repeat("a/", 500) + "a"}, glob))(t)), 0)
	says.Equal(t, len(must.Get(globLogs(t.Context(), []string{strings.Repeat("a/", 500) + "a"},
		strings.Repeat("**/a/", pathglob.MaxWildcards/2)+"b"))(t)), 0)
	gone, leave := context.WithCancel(t.Context())
	leave()
	says.ErrorIs(t, says.Err(globLogs(gone, []string{name}, "*")), context.Canceled)
}

func TestAttachment(t *testing.T) {
	for name, want := range map[string]string{
		"raylet.out": "raylet.out", "": "file.txt", "..": "file.txt", "../../etc/passwd": "_._.._etc_passwd",
		".bashrc":               "_bashrc",
		`a"; filename=evil.exe`: "a_; filename=evil.exe", "a\r\nSet-Cookie: x": "a__Set-Cookie: x", `C:\x`: "C:_x",
		"Überblick 1.log": "Überblick 1.log",
		"txt.\u202eexe":   "txt._exe", "a\xffb": "a_b", "\u0085x": "_x",
	} {
		kind, fields, err := mime.ParseMediaType(Attachment(name))
		if err != nil || kind != "attachment" || fields["filename"] != want {
			t.Errorf("%q: %s: %q %v", name, Attachment(name), fields["filename"], err)
		}
	}
	got := Attachment(strings.Repeat("ü", 500) + ".log")
	says.True(t, len(got) <= 1000 && strings.HasSuffix(got, ".log"), "a long name: %s", got)
}

func FuzzAttachment(f *testing.F) {
	f.Add("raylet.out")
	f.Add("../\"\r\n")
	f.Add("@Ь")
	f.Fuzz(func(t *testing.T, name string) {
		header := Attachment(name)
		says.True(t, !strings.ContainsFunc(header, func(c rune) bool { return c < ' ' || c >= 0x7f }), "%q: %q", name,
			header)
		_, fields, err := mime.ParseMediaType(header)
		says.True(t, err == nil && fields["filename"] != "" && !strings.ContainsAny(fields["filename"], `/\`),
			"%q: %q: %v", name, header, err)
	})
}
