package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// run runs the program and returns what it prints.
func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestCommandsAskAServer: each command prints the same of a server as of its store, as a table and as JSON.
func TestCommandsAskAServer(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := recordedJobs(t)
	store := "--local-dir=" + dir
	if _, _, err := run(t, "index", "--all", store); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "note", "jobs255", "--pin", "--text=compare with this", store); err == nil ||
		!strings.Contains(err.Error(), "jobs255/latest") {
		t.Errorf("a note on a cluster: %v", err)
	}
	if _, _, err := run(t, "note", "jobs255/latest", "--pin", "--text=compare with this", store); err != nil {
		t.Fatal(err)
	}
	address := serving(t, dir)
	untilDescribed(t, address)
	server := "--server=" + address
	for _, args := range [][]string{
		{"ls"}, {"ls", "jobs260"}, {"ls", "cases/jobs255", "--outcome=failed"}, {"ls", "--search=jobs260"},
		{"ls", "--outcome=succeeded"},
		{"why", "jobs260"}, {"why", "cases/jobs255/latest"},
		{"why", "cases/jobs260/live"}, {"status", "cases/jobs260/live"},
		{"why", "jobs260", "--job=tokenizer"}, {"why", "jobs260", "--job=08000000"},
		{"show", "jobs260"}, {"status", "jobs260"},
		{"compare", "jobs260", "jobs255"}, {"compare", "cases/jobs260", "jobs255/latest", "--job=tokenizer", "--top=3"},
		{"grep", "no-vocab", "jobs260"}, {"grep", "No-VOCAB.json", "cases/jobs260/latest", "-i", "-C2",
			"--files=job-driver-*"}, {"grep", "Error", "jobs260", "--level=error", "--limit=500"},
		{"grep", "INFO", "cases/jobs260/latest", "--from=1h ago", "--files=dashboard.log"},
		{"grep", "INFO", "cases/jobs260", "--from=1h ago", "--files=dashboard.log"}, // its only session's time
		{"note"}, {"note", "jobs255"}, {"note", "jobs260"},
	} {
		for _, output := range []string{"table", "json"} {
			args := append(args, "-o", output)
			want, _, err := run(t, append(args, store)...)
			if err != nil {
				t.Errorf("%q of the store: %v", args, err)
				continue
			}
			got, _, err := run(t, append(args, server)...)
			if err != nil {
				t.Errorf("%q of the server: %v", args, err)
				continue
			}
			if args[0] == "grep" { // several logs are searched at once
				got, want = sorted(got), sorted(want)
			}
			if got, want := timeless(got), timeless(want); got != want {
				t.Errorf("%q of the server:\n%.3000s\nof the store:\n%.3000s", args, got, want)
			}
			says.True(t, len(want) >= 20 || args[0] == "note" || args[0] == "ls", "%q prints %q", args, want)
		}
	}
	// Nothing is packed yet: only the server knows these sessions otherwise.
	for output, want := range map[string]string{"table": "2 sessions  2 failed", "json": `"failed": 2`,
		"csv": "The worker that ran segv died"} {
		args := []string{"fleet", "--from=2026-11-22", "--to=2026-11-22", "-o", output, server}
		if output == "csv" {
			args = append(args, "--table=causes")
		}
		if out, _, err := run(t, args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %s, %v", args, out, err)
		}
	}
	if out, _, err := run(t, "note", "jobs260/latest", "--text=the other", server); err != nil ||
		!strings.Contains(out, "the other") {
		t.Errorf("a note on the server: %s, %v", out, err)
	}
	if out, _, err := run(t, "note", store); err != nil || !strings.Contains(out, "the other") ||
		!strings.Contains(out, "compare with this") {
		t.Errorf("the notes in the store: %s, %v", out, err)
	}
}

// seconds are how long a search took, and progress how far it was at some moment.
var seconds, progress = regexp.MustCompile(`in \d+\.\d s|"seconds":[0-9.e-]+`),
	regexp.MustCompile(`(?m)^\{"type":"progress".*\n`)

func sorted(out string) string {
	lines := strings.SplitAfter(out, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func timeless(out string) string {
	return progress.ReplaceAllString(seconds.ReplaceAllString(out, "T"), "")
}

// TestWhichHistory: a command asks the server that the environment names, unless the command line names a store; both
// on the command line contradict each other; commands that change the store never ask a server.
func TestWhichHistory(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		says.Equal(t, r.Header.Get("Authorization"), "Bearer of-the-environment", "asked")
		w.Header().Set("Warning", `199 - "sessions are missing"`)
		_, _ = io.WriteString(w, "[]")
	}))
	defer server.Close()
	dir := t.TempDir()
	t.Setenv("RAYHISTORY_SERVER", server.URL)
	t.Setenv("RAYHISTORY_TOKEN", "of-the-environment")
	t.Setenv("RAYHISTORY_STORAGE_BACKEND", "local")
	t.Setenv("RAYHISTORY_LOCAL_DIR", dir)
	for _, test := range []struct {
		args []string
		asks int
		err  string
	}{
		{[]string{"ls"}, 1, ""},
		{[]string{"ls", "--local-dir=" + dir}, 0, ""},
		{[]string{"ls", "--quiet=1h"}, 0, ""},
		{[]string{"ls", "--local-dir=" + dir, "--server=" + server.URL}, 0, "--server contradicts --local-dir"},
		{[]string{"ls", "--token-file=x"}, 0, "--token contradicts --token-file"},
		{[]string{"ls", "--server=history.example.com"}, 0, "want an address such as https"},
		{[]string{"du"}, 0, ""},
		{[]string{"rm", "--server=" + server.URL}, 0, "unknown flag: --server"},
		{[]string{"grep", "x", "lab"}, 5, "no such session is stored: lab"},
		{[]string{"lss"}, 0, "did you mean ls?"},
		{[]string{"ls", "--namepsace=a"}, 0, "unknown flag: --namepsace (did you mean --namespace?"},
		{[]string{"frobnicate"}, 0, "`historyserver --help` lists them"},
	} {
		before := asked
		_, said, err := run(t, test.args...)
		if warned := strings.Count(said, "Warning: sessions are missing\n"); warned != min(1, test.asks) {
			t.Errorf("%q: told %d times what the server warns of: %s", test.args, warned, said)
		}
		says.True(t, (err == nil) == (test.err == "") && (err == nil || strings.Contains(err.Error(), test.err)) &&
			asked-before == test.asks, "%q: %v, %d requests", test.args, err, asked-before)
	}
}

// TestNoMatches: as of grep, the exit code says that nothing was found, unless not all was searched. What matches and
// is left out for what nothing says of it is told, also beside JSON.
func TestNoMatches(t *testing.T) {
	store := "--local-dir=" + recordedJobs(t)
	for _, test := range []struct {
		args         []string
		code         int
		out, leftOut string
	}{
		{[]string{"no such text anywhere"}, 1, "# 0 matching lines", ""},
		{[]string{"no such text anywhere", "--search-timeout=1ns"}, 2, "not complete: limited by time", ""},
		{[]string{":task_name:", "--from=2026-11-22T00:00:00Z", "-o", "json"}, 1, `"undated":`,
			"without --from and --to they are"},
		{[]string{":task_name:", "--level=error"}, 1, "# 0 matching lines", "without --level they are"},
	} {
		out, said, err := run(t, slices.Concat([]string{"grep", store}, test.args, []string{"jobs260"})...)
		says.True(t, commands.ExitCode(err) == test.code && errors.Is(err, commands.ErrNoMatches) == (test.code == 1) &&
			strings.Contains(out, test.out) && strings.Contains(said, test.leftOut), "%q: %s, %s, %v", test.args, out,
			said, err)
	}
}
