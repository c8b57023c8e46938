package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const recorded = "default/lab/session_2026-11-20_23-19-45_581717_22125"

// root is a program of the commands alone.
func root() *cobra.Command {
	cmd := &cobra.Command{SilenceUsage: true, SilenceErrors: true}
	AddTo(cmd)
	return cmd
}

// runCommand runs a command and gives its standard output.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runCommand(t, args...)
	must.OK(t, err, "%q", args)
	return out
}

// TestCommonFlags: flags that all commands have are made once, because the server makes all commands too.
func TestCommonFlags(t *testing.T) {
	made := All(pflag.NewFlagSet("server", pflag.ContinueOnError))
	for _, name := range []string{"storage-backend", "local-dir", "quiet", "log-level"} {
		first := made[0].Flags().Lookup(name)
		for _, cmd := range made {
			flag := cmd.Flags().Lookup(name)
			says.True(t, flag != nil && flag == first, "%s has a flag --%s of its own, or none", cmd.Name(), name)
		}
	}
}

// TestOperatorsDay copies a recorded bucket, takes a session home and back, joins, checks and
// removes it.
func TestOperatorsDay(t *testing.T) {
	from, dir := "--local-dir="+recording.Open(t).Bucket("kuberay-1.7"), t.TempDir()
	copied, file, home := filepath.Join(dir, "copied"), filepath.Join(dir, "session.tar.zst"),
		filepath.Join(dir, "home")
	mustRun(t, "copy", "--all", from, "--to=local-dir="+copied)
	mustRun(t, "export", "default/lab/latest", "--local-dir="+copied, "--file="+file)
	mustRun(t, "import", file, "--local-dir="+home)

	var sessions []listed
	must.OK(t, json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", "--local-dir="+home)), &sessions))
	says.True(t, len(sessions) == 1 && sessions[0].Cluster == "lab" && sessions[0].RayVersion == "2.60.0" &&
		sessions[0].Objects != 0, "%+v", sessions)
	for _, args := range [][]string{{"ls"}, {"du"}, {"show", recorded}} {
		says.All(t, mustRun(t, append(args, "--local-dir="+home)...), "session_2026-11-20_23-19-45_581717_22125")
	}
	mustRun(t, "index", "--all", "--quiet=1ns", "--local-dir="+home)
	mustRun(t, "verify", recorded, "--local-dir="+home)
	must.OK(t, json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", "--quiet=1ns", "--local-dir="+home)), &sessions))
	says.True(t, sessions[0].Outcome != "" && !sessions[0].Running, "the list does not tell how the session ended: %+v",
		sessions)
	says.All(t, mustRun(t, "ls", "--quiet=1ns", "--local-dir="+home), sessions[0].Outcome, "CAUSE")
	for filters, want := range map[string]int{
		"--outcome=" + sessions[0].Outcome: 1, "--search=LAB 2.60": 1, "--search=lab nobody": 0, "--from=2026-11-21": 0,
		"--to=2026-11-20": 1, "--ray-version=2.5": 0,
	} {
		var found []listed
		if err := json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", "--quiet=1ns", "--local-dir="+home, filters)),
			&found); err != nil || len(found) != want {
			t.Errorf("ls %s: %v, %+v", filters, err, found)
		}
	}
	mustRun(t, "compact", "--all", "--local-dir="+home)
	mustRun(t, "verify", recorded, "--local-dir="+home)
	mustRun(t, "rm", recorded, "--quiet=1ns", "--dry-run", "--local-dir="+home)
	keepAndLetGo(t, home)
	goOn(t, home)
	says.Error(t, says.Err(runCommand(t, "rm", recorded, "--local-dir="+home)), "running",
		"a session that goes on is removed")
	mustRun(t, "rm", recorded, "--quiet=1ns", "--local-dir="+home)
	out := mustRun(t, "ls", "-o", "json", "--local-dir="+home)
	says.True(t, strings.TrimSpace(out) == "[]", "after all: %s", out)
}

// goOn stores an event of now: the copy of the session, whose end was recorded, runs.
func goOn(t *testing.T, home string) {
	t.Helper()
	store := must.Get(local.Open(home))(t)
	defer func() { _ = store.Close() }()
	ref := layout.Session{Version: layout.V17, Namespace: "default", Cluster: "lab", OwnerKind: "raycluster",
		Name: "session_2026-11-20_23-19-45_581717_22125"}
	key := layout.NodeEventsKey(layout.DefaultRoot, ref, rayid.Node{1}, time.Now())
	must.OK(t, store.Put(t.Context(), key, strings.NewReader("{}\n")))
}

// damageNotes cuts all stored notes.
func damageNotes(t *testing.T, home string) {
	t.Helper()
	damaged := 0
	err := filepath.WalkDir(filepath.Join(home, "log", "notes"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		damaged++
		return os.WriteFile(name, []byte("{"), 0o600)
	})
	must.True(t, err == nil && damaged != 0, "%d notes are damaged, %v", damaged, err)
}

// manyNotes stores more notes, on sessions that are gone, than the server's pages show.
func manyNotes(t *testing.T, home string) {
	t.Helper()
	folder := filepath.Join(home, "log", "notes", "metadir", "other_default")
	if _, err := os.Stat(folder); err == nil {
		return
	}
	must.OK(t, os.MkdirAll(folder, 0o700))
	for i := range 10_001 {
		must.OK(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("session_%d", i)), nil, 0o600))
	}
}

// keepAndLetGo pins the session, so that nothing removes it, and shows what rules would do to it.
func keepAndLetGo(t *testing.T, home string) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	must.OK(t, os.WriteFile(rules, []byte("rules: [{namespaces: [default], keep: 36500d}]"), 0o600))
	says.All(t, mustRun(t, "rm", "--rules="+rules, "--dry-run", "--quiet=1ns", "--local-dir="+home),
		"nothing to remove: none of 1 session has expired")
	if out := mustRun(t, "note", recorded, "--pin", "--text=the best run", "--local-dir="+home); !strings.Contains(out,
		"pinned") || !strings.Contains(out, "the best run") {
		t.Errorf("note tells %s", out)
	}
	says.True(t, says.Err(runCommand(t, "rm", recorded, "--quiet=1ns", "--local-dir="+home)) != nil,
		"a pinned session is removed")
	says.All(t, mustRun(t, "rm", "--older-than=1ns", "--quiet=1ns", "-o", "json", "--local-dir="+home),
		`"removed": false`, `"why": "it is pinned"`)
	says.All(t, mustRun(t, "rm", "--older-than=1ns", "--quiet=1ns", "--dry-run", "--local-dir="+home),
		"0 sessions, 0 B would be removed")
	// A damaged note keeps its session, in a trial as in earnest, and no other session's removal fails for it.
	for _, trial := range []string{"true", "false"} {
		damageNotes(t, home)
		manyNotes(t, home)
		says.All(t, mustRun(t, "rm", "--older-than=1ns", "--quiet=1ns", "--dry-run="+trial, "-o", "json",
			"--local-dir="+home), "its note cannot be read")
	}
	says.All(t, mustRun(t, "note", recorded, "--text=the best run", "--local-dir="+home), "pinned")
	if out := mustRun(t, "note", recorded, "--unpin", "--local-dir="+home); strings.Contains(out,
		recorded+"  pinned") || !strings.Contains(out, "the best run") {
		t.Errorf("note tells %s", out)
	}
	says.All(t, mustRun(t, "rm", "--older-than=1ns", "--dry-run", "--quiet=1ns", "-o", "json", "--local-dir="+home),
		`"pinned": false`, "it ended")
	says.All(t, mustRun(t, "rm", "--older-than=1ns", "--dry-run", "--quiet=1ns", "--local-dir="+home),
		"1 session, ", " would be removed")
}

// TestTopOfTheBucket: a bucket in which everything lies at the top, as newer collectors of KubeRay's have it.
func TestTopOfTheBucket(t *testing.T) {
	top := filepath.Join(recording.Open(t).Bucket("kuberay-1.7"), "log")
	from := []string{"--local-dir=" + top, "--storage-root-dir=/"}
	says.All(t, mustRun(t, append([]string{"ls", "-o", "json"}, from...)...),
		"session_2026-11-20_23-19-45_581717_22125")
	mustRun(t, append([]string{"verify", recorded}, from...)...)
	mustRun(t, append([]string{"index", "--all", "--quiet=1ns"}, from...)...)
	says.OK(t, says.Err(os.Stat(filepath.Join(top, "index"))))
	says.All(t, mustRun(t, append([]string{"why", "default/lab"}, from...)...), "session_2026-11-20")
}

// TestNamedByOwner: the name of the RayJob that made a cluster is only in what is stored of its sessions, and every
// command takes it instead of the cluster's.
func TestNamedByOwner(t *testing.T) {
	home := recording.Open(t).Bucket("kuberay-1.6")
	store := must.Get(local.Open(home))(t)
	defer func() { _ = store.Close() }()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	must.OK(t, store.Put(t.Context(), layout.MetadataKey(layout.DefaultRoot, ref, layout.Start),
		strings.NewReader(`{"ownerKind": "RayJob", "ownerName": "nightly"}`)))
	for _, args := range [][]string{
		{"ls", "nightly"}, {"show", "default/nightly"}, {"status", "nightly"}, {"why", "nightly/latest"},
		{"grep", "Initializing", "nightly"}, {"note", "nightly/latest", "--text=x"}, {"note", "nightly"},
		{"du", "nightly"}, {"verify", "nightly"}, {"compact", "nightly/latest", "--dry-run"},
		{"index", "nightly/latest"}, {"rm", "nightly/latest", "--dry-run", "--quiet=1ns"},
		{"export", "nightly", "--file=" + filepath.Join(t.TempDir(), "session")},
		{"copy", "nightly/latest", "--to=local-dir=" + t.TempDir()},
	} {
		mustRun(t, append(args, "--local-dir="+home)...)
	}
	says.ErrorIs(t, says.Err(runCommand(t, "why", "nobody", "--local-dir="+home)), catalog.ErrNoSession,
		"a name that nothing")
}

func TestCommandsSayWhatToDo(t *testing.T) {
	dir := "--local-dir=" + t.TempDir()
	for want, args := range map[string][]string{
		"--all":           {"compact", dir},
		"--older-than":    {"rm", dir},
		"use one of them": {"rm", dir, "--older-than=1d", "--rules=x"},
		"contradict": {"note", recorded, "--pin", "--unpin",
			"--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")},
		"name the session":         {"note", "--pin", dir},
		"historyserver ls":         {"show", recorded, dir},
		"--to local-dir":           {"copy", "--all", dir},
		"the source itself":        {"copy", "--all", dir, "--to=" + dir[2:] + "/"},
		"storage flag":             {"copy", "--all", dir, "--to=nothing=x"},
		"want table, json or yaml": {"du", "-o", "xml", dir},
		"--longer=\"long\"":        {"ls", "--longer=long", dir},
		"no such file":             {"import", "nowhere.tar.zst", dir},
		"write /nowhere/x": {"export", recorded, "--file=/nowhere/x",
			"--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")},
	} {
		says.Error(t, says.Err(runCommand(t, args...)), want, args)
	}
}

// TestCommandsTellWhatTheyDid: nothing done is said as well, nothing is overwritten unasked, and what was there is no
// news.
func TestCommandsTellWhatTheyDid(t *testing.T) {
	dir := t.TempDir()
	from, file, home := "--local-dir="+recording.Open(t).Bucket("kuberay-1.6"), filepath.Join(dir, "session.tar.zst"),
		"--local-dir="+filepath.Join(dir, "home")
	// a century: the session was recorded years ago, some day
	for _, age := range []string{"36500d", "5200w", "5200w12h", "876000h"} {
		says.All(t, mustRun(t, "rm", "--older-than="+age, from), "nothing to remove")
	}
	mustRun(t, "export", recorded, from, "--file="+file)
	says.Error(t, says.Err(runCommand(t, "export", recorded, from, "--file="+file)), "--force", "a file is overwritten")
	mustRun(t, "export", recorded, from, "--force", "--file="+file)
	for i, again := range []bool{false, true} {
		var results []struct {
			Result struct{ Stored, Kept, Bytes int }
		}
		err := json.Unmarshal([]byte(mustRun(t, "import", file, home, "-o", "json")), &results)
		must.True(t, err == nil && len(results) == 1, "%v %v", results, err)
		if r := results[0].Result; (r.Kept > 0) != again || (r.Stored == 0) != again || (r.Bytes == 0) != again {
			t.Errorf("import %d: %+v", i, r)
		}
	}
	typo := filepath.Join(dir, "hmoe")
	for _, args := range [][]string{{"ls"}, {"du"}, {"show", recorded}, {"verify", "--all"}, {"compact", "--all"},
		{"rm", recorded}, {"export", recorded}, {"index", "--all"}} {
		says.Error(t, says.Err(runCommand(t, append(args, "--local-dir="+typo)...)), "--local-dir",
			"%q of a folder that is not there", args)
		must.True(t, says.Err(os.Stat(typo)) != nil, "%q made the folder", args)
	}
}

// TestNoNotes: an empty list says that it is empty, not on the standard output, which programs read.
func TestNoNotes(t *testing.T) {
	cmd, said := root(), new(strings.Builder)
	cmd.SetArgs([]string{"note", "--local-dir=" + recording.Open(t).Bucket("kuberay-1.6")})
	cmd.SetOut(io.Discard)
	cmd.SetErr(said)
	must.OK(t, cmd.ExecuteContext(t.Context()))
	says.All(t, said.String(), "there are no pins and notes")
}

func TestVerifyFails(t *testing.T) {
	dir := recording.Open(t).Bucket("kuberay-1.6")
	store := must.Get(local.Open(dir))(t)
	defer func() { _ = store.Close() }()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	must.OK(t, store.Put(t.Context(), layout.MetadataKey("log", ref, layout.End), strings.NewReader("{")))
	out, err := runCommand(t, "verify", "--all", "--local-dir="+dir)
	says.True(t, err != nil && strings.Contains(out, "end.json"), "damage is told as %q, %v", out, err)
}

// TestGrep: the lines of a session and of a cluster's sessions, for people and for programs.
func TestGrep(t *testing.T) {
	dir := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.7")
	submitted := t.TempDir()
	must.OK(t, recording.Unpack("../../../pkg/findings/testdata/odd-2.60.tar.gz", submitted))
	// the workers of a submission's driver print this
	for submission, want := range map[string]int{"unicode": 2, "sysexit3": 0, "none": 0} {
		out, err := runCommand(t, "grep", ":task_name:lade", "cases/odd260", "--submission="+submission,
			"--local-dir="+submitted)
		if got := strings.Count(out, ":task_name:lade\n"); got != want || errors.Is(err, ErrNoMatches) != (want == 0) {
			t.Errorf("--submission=%s: %d lines, want %d, %v:\n%s", submission, got, want, err, out)
		}
	}
	out := mustRun(t, "grep", "Initializing", recorded, "-C", "1", dir)
	if lines := strings.Split(out, "\n"); !strings.Contains(out, "Initializing") ||
		!strings.HasPrefix(lines[len(lines)-2], "# ") || strings.Contains(out, "not complete") {
		t.Errorf("it prints %.2000s", out)
	}
	out = mustRun(t, "grep", `rayl[e]t`, "default/lab", "--regexp", "--files=raylet*", "--level=info", "--limit=3",
		"-o", "json", dir)
	var last struct {
		Type     string
		Reported int
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "end" ||
		last.Reported != 3 {
		t.Errorf("it ends with %+v, %v", last, err)
	}
	for _, args := range [][]string{{"x", "default/none"}, {"(", "default/lab", "--regexp"},
		{"x", "default/lab", "--from=yesterday"}, {"x", "default/lab", "--level=loud"}} {
		says.True(t, says.Err(runCommand(t, append([]string{"grep", dir}, args...)...)) != nil, "%q is done", args)
	}
}
