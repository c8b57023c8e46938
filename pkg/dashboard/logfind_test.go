package dashboard

import (
	"context"
	"errors"
	"mime"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/pathglob"
)

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
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", glob, got, err, want)
		}
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
		if got := logCategory(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// TestGlobIsBounded: what is long or has many wildcards is refused, what is left takes time as its length and that of
// the names, and ends when nobody waits for it.
func TestGlobIsBounded(t *testing.T) {
	for _, glob := range []string{strings.Repeat("*", 60_000), strings.Repeat("a*", pathglob.MaxWildcards+1),
		strings.Repeat("a", pathglob.MaxLength+1), strings.Repeat("[a]", 1000), strings.Repeat("**/", 1000)} {
		if _, err := globLogs(t.Context(), nil, glob); !errors.Is(err, pathglob.ErrLong) {
			t.Errorf("%.20s: %v", glob, err)
		}
	}
	// Backtracking would take longer than the universe is old.
	name := strings.Repeat("a", 1000)
	glob := strings.Repeat("a*", pathglob.MaxWildcards) + "b"
	if got, err := globLogs(t.Context(), []string{name, strings.Repeat("a/", 500) + "a"}, glob); err != nil ||
		len(got) != 0 {
		t.Errorf("%d, %v", len(got), err)
	}
	if got, err := globLogs(t.Context(), []string{strings.Repeat("a/", 500) + "a"},
		strings.Repeat("**/a/", pathglob.MaxWildcards/2)+"b"); err != nil || len(got) != 0 {
		t.Errorf("%d, %v", len(got), err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := globLogs(gone, []string{name}, "*"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that nobody waits", err)
	}
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
	if got := Attachment(strings.Repeat("ü", 500) + ".log"); len(got) > 1000 || !strings.HasSuffix(got, ".log") {
		t.Errorf("a long name: %s", got)
	}
}

func FuzzAttachment(f *testing.F) {
	f.Add("raylet.out")
	f.Add("../\"\r\n")
	f.Add("@Ь")
	f.Fuzz(func(t *testing.T, name string) {
		header := Attachment(name)
		if strings.ContainsFunc(header, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			t.Errorf("%q: %q", name, header)
		}
		if _, fields, err := mime.ParseMediaType(header); err != nil || fields["filename"] == "" ||
			strings.ContainsAny(fields["filename"], `/\`) {
			t.Errorf("%q: %q: %v", name, header, err)
		}
	})
}
