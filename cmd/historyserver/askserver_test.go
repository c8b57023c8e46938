package main

import (
	"bytes"

	"regexp"
	"slices"
	"strings"
	"testing"
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
	if _, _, err := run(t, "note", "jobs255", "--pin", "--text=compare with this", store); err == nil || !strings.Contains(err.Error(), "jobs255/latest") {
		t.Errorf("a note on a cluster: %v", err)
	}
	if _, _, err := run(t, "note", "jobs255/latest", "--pin", "--text=compare with this", store); err != nil {
		t.Fatal(err)
	}
	address := serving(t, dir)
	untilDescribed(t, address)
	server := "--server=" + address
	for _, args := range [][]string{
		{"ls"}, {"ls", "jobs260"}, {"ls", "cases/jobs255", "--outcome=failed"}, {"ls", "--search=jobs260"}, {"ls", "--outcome=succeeded"},
		{"why", "jobs260"}, {"why", "cases/jobs255/latest"},
		{"why", "jobs260", "--job=tokenizer"}, {"why", "jobs260", "--job=08000000"},
		{"show", "jobs260"},
		{"compare", "jobs260", "jobs255"}, {"compare", "cases/jobs260", "jobs255/latest", "--job=tokenizer", "--top=3"},
		{"grep", "no-vocab", "jobs260"}, {"grep", "No-VOCAB.json", "cases/jobs260/latest", "-i", "-C2", "--files=job-driver-*"}, {"grep", "Error", "jobs260", "--level=error", "--limit=500"},
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
			if len(want) < 20 && args[0] != "note" && args[0] != "ls" {
				t.Errorf("%q prints %q", args, want)
			}
		}
	}
	if out, _, err := run(t, "note", "jobs260/latest", "--text=the other", server); err != nil || !strings.Contains(out, "the other") {
		t.Errorf("a note on the server: %s, %v", out, err)
	}
	if out, _, err := run(t, "note", store); err != nil || !strings.Contains(out, "the other") || !strings.Contains(out, "compare with this") {
		t.Errorf("the notes in the store: %s, %v", out, err)
	}
}

// seconds are how long a search took, and progress how far it was at some moment.
var seconds, progress = regexp.MustCompile(`in \d+\.\d s|"seconds":[0-9.e-]+`), regexp.MustCompile(`(?m)^\{"type":"progress".*\n`)

func sorted(out string) string {
	lines := strings.SplitAfter(out, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func timeless(out string) string {
	return progress.ReplaceAllString(seconds.ReplaceAllString(out, "T"), "")
}
