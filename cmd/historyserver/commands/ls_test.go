package commands

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestListReadsPacks: what packs tell of sessions is listed without a look at these, of which nothing but markers is
// stored here.
func TestListReadsPacks(t *testing.T) {
	dir := t.TempDir()
	store := must.Get(local.Open(dir))(t)
	fleet := fleetgen.Options{Sessions: 20, Days: 3, End: time.Date(2025, 11, 20, 12, 0, 0, 0, time.UTC)}
	must.OK(t, fleet.Write(t.Context(), store, "log"))
	for args, want := range map[string]int{
		"--state=ended": 20, "--outcome=failed": 4, "--search=raysubmit_00000007": 1, "--cluster=rayjob-00001": 3,
		"--owner=training-3": 1, "--namespace=team-0": 4,
		"--namespace=team-99": 0, "--limit=7": 7, "--limit=70": 20, "--from=1h": 0, "--to=1h": 20,
	} {
		var found []listed
		if err := json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", "--local-dir="+dir, args)),
			&found); err != nil || len(found) != want {
			t.Errorf("ls %s: %d sessions, want %d, %v", args, len(found), want, err)
			continue
		}
		for _, e := range found {
			says.True(t, e.Objects == 200 && e.Outcome != "" && e.Nodes == 4, "ls %s: %+v", args, e)
		}
	}
}

// TestListTellsFailedJobs: of a running session ls tells how many jobs have failed.
func TestListTellsFailedJobs(t *testing.T) {
	dir := t.TempDir()
	store := must.Get(local.Open(dir))(t)
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	for key, body := range map[string]string{
		layout.MarkerKey("log", ref): "",
		layout.SnapshotKey("log", ref,
			"/api/jobs/"): `[{"submission_id": "nightly-7", "status": "FAILED"}, {"submission_id": "b", "status": "RUNNING"}]`,
	} {
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
	}
	for _, args := range []string{"--quiet=10m", "--search=nightly-7", "--quiet=1ns"} {
		var found []listed
		out := mustRun(t, "ls", "-o", "json", "--local-dir="+dir, args)
		err := json.Unmarshal([]byte(out), &found)
		must.True(t, err == nil && len(found) == 1, "ls %s: %s, %v", args, out, err)
		table := mustRun(t, "ls", "--local-dir="+dir, args)
		running := args != "--quiet=1ns"
		says.Equal(t, found[0].FailedJobs == 1, running, "ls %s: %s\n%s", args, out, table)
		says.Equal(t, strings.Contains(out, "failedJobs"), running, "ls %s: %s\n%s", args, out, table)
		says.Equal(t, strings.Contains(table, "failed jobs: 1"), running, "ls %s: %s\n%s", args, out, table)
		says.True(t, found[0].NotKnownYet != running && strings.Contains(table, "not known yet") != running,
			"ls %s: %s\n%s", args, out, table)
	}
	says.All(t, mustRun(t, "ls", "--local-dir="+dir, "--quiet=1ns", "--outcome=not-known-yet"), "lab")
}

// TestFormats: the formats of ls name the same sessions.
func TestFormats(t *testing.T) {
	dir := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.7")
	says.Equal(t, mustRun(t, "ls", "-o", "name", dir), recorded+"\n", "names")
	rows, err := csv.NewReader(strings.NewReader(mustRun(t, "ls", "-o", "csv", dir))).ReadAll()
	says.True(t, err == nil && len(rows) == 2 && rows[0][2] == "session" && strings.HasSuffix(recorded, rows[1][2]),
		"CSV: %v, %v", rows, err)
	var fromYAML, fromJSON []listed
	must.OK(t, yaml.Unmarshal([]byte(mustRun(t, "ls", "-o", "yaml", dir)), &fromYAML))
	must.OK(t, json.Unmarshal([]byte(mustRun(t, "ls", "-o", "json", dir)), &fromJSON))
	says.True(t, reflect.DeepEqual(fromYAML, fromJSON) && len(fromJSON) == 1, "YAML is %v, JSON %v", fromYAML, fromJSON)
	table, wide := mustRun(t, "ls", dir), mustRun(t, "ls", "-o", "wide", dir)
	says.True(t, !strings.Contains(table, "OBJECTS") && strings.Contains(wide, "OBJECTS") &&
		strings.Contains(wide, "2.60.0"), "table:\n%swide:\n%s", table, wide)
}

// TestListFitsTheTerminal: on a terminal names of sessions are shortened first, then causes, then names are left out.
// How a session ended and the beginning of why are shown on the narrowest, and nothing is lost elsewhere.
func TestListFitsTheTerminal(t *testing.T) {
	const session, cause = "session_2026-11-20_23-19-45_581717_22125", "Node 10.0.0.7 ran out of memory: 12 tasks"
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	entries := []catalog.Entry{{Ref: layout.Session{Namespace: "default", Cluster: "lab", Name: session},
		Start: now.Add(-60 * time.Hour), End: now.Add(-58 * time.Hour), Described: true,
		Summary: catalog.Summary{Outcome: "failed", Cause: cause}}}
	for _, test := range []struct {
		width         int
		output, shown string
		fits          bool
	}{
		{0, "table", session, false},
		{200, "table", session + "  2d ago  2h 0m     failed   " + cause, true},
		{120, "table", "session_2026-11-20_23-19-45_5…  2d ago  2h 0m     failed   " + cause, true},
		{100, "table", "session_20…  2d ago  2h 0m     failed   Node 10.0.0.7 ran out of memory: 12 tas…", true},
		{80, "table", "lab      2d ago  2h 0m     failed   Node 10.0.0.7 ran out of memo…", true},
		{40, "table", "lab      2d ago  2h 0m     failed   Node 10.0.0.7 r…", false},
		{40, "wide", session, false},
		{40, "name", session, false},
	} {
		var out strings.Builder
		o := operator{common: &common{output: test.output}, out: &out, terminal: terminal{width: test.width}}
		must.OK(t, o.printSessions(entries, now))
		longest := 0
		for line := range strings.Lines(out.String()) {
			longest = max(longest, utf8.RuneCountInString(line)-1)
		}
		says.True(t, strings.Contains(out.String(), test.shown) && test.fits == (longest <= test.width),
			"%s on %d columns lacks %q, or has %d columns:\n%s", test.output, test.width, test.shown, longest,
			out.String())
	}
}

// TestLongLines: of a table nothing is cut away, whatever the terminal's width.
func TestLongLines(t *testing.T) {
	const line = "log/metadir/lab_default/session_1/end.json  cut JSON\n"
	var out strings.Builder
	must.OK(t, terminal{width: 20}.writeTable(&out, line))
	says.Equal(t, out.String(), line)
}

// TestPaint: words of a table's cells are coloured, and none within a text.
func TestPaint(t *testing.T) {
	painted := terminal{colour: true}.paint("default  lab  failed  it failed twice\nERROR  x\n")
	says.Equal(t, painted, "default  lab  \x1b[31mfailed\x1b[0m  it failed twice\n\x1b[31mERROR\x1b[0m  x\n")
	text := "failed  x"
	says.True(t, (terminal{}).paint(text) == text, "coloured where there is no terminal")
}

// TestWatch: a list is written again when it has changed. What cannot be listed at first ends it; later that is said,
// and the list comes again.
func TestWatch(t *testing.T) {
	for name, test := range map[string]struct {
		lists       []string // ! is an error
		width       int
		out, errOut string
		fails       bool
	}{
		"changes":          {lists: []string{"a", "a", "b"}, out: "ab"},
		"nothing at first": {lists: []string{"!refused", "a"}, errOut: "", fails: true},
		"away for a while": {lists: []string{"a", "!refused", "!refused", "!timeout", "a", "!refused", "b"}, out: "ab",
			errOut: "historyserver: refused\nhistoryserver: timeout\nhistoryserver: refused\n"},
		"empty, then away": {lists: []string{"", "!refused", "b"}, out: "b", errOut: "historyserver: refused\n"},
		"away, on a terminal": {lists: []string{"a", "a", "!refused", "a"}, width: 80,
			out: "\x1b[H\x1b[2Ja\x1b[H\x1b[2Ja", errOut: "historyserver: refused\n"},
		"interrupted": {lists: []string{"a", "!context canceled"}, out: "a"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var out, errOut strings.Builder
			o := &operator{out: &out, errOut: &errOut, terminal: terminal{width: test.width}}
			err := o.watch(ctx, func(w io.Writer) error {
				list := test.lists[0]
				if test.lists = test.lists[1:]; len(test.lists) == 0 {
					cancel()
				}
				if why, fails := strings.CutPrefix(list, "!"); fails {
					return errors.New(why)
				}
				_, err := io.WriteString(w, list)
				return err
			})
			cancel()
			says.True(t, (err != nil) == test.fails && out.String() == test.out && errOut.String() == test.errOut,
				"%s: %q, %q, %v", name, out.String(), errOut.String(), err)
		})
	}
}

// TestCompletions: a shell completes clusters, and sessions of a cluster that is typed.
func TestCompletions(t *testing.T) {
	dir := "--local-dir=" + recording.Open(t).Bucket("kuberay-1.7")
	for typed, want := range map[string]string{"": "lab\ndefault/lab\n", "la": "lab\n",
		"default/lab/": "default/lab/latest\n" + recorded + "\n",
		"lab/":         "lab/latest\n" + strings.TrimPrefix(recorded, "default/") + "\n", "lab/l": "lab/latest\n", "x": ""} {
		out := mustRun(t, "__complete", "why", dir, typed)
		got, _, _ := strings.Cut(out, ":4\n")
		says.True(t, got == want, "%q is completed by %q, want %q", typed, got, want)
	}
	if out := mustRun(t, "__complete", "grep", dir, ""); !strings.HasPrefix(out, ":4") {
		t.Errorf("a pattern is completed by %q", out)
	}
	for flag, want := range map[string]string{"--state": "running\nended\n:4", "--outcome": "not-known-yet\n:4",
		"--finding": "\nnode_died\n", "-o": "table\nwide\n"} {
		if out := mustRun(t, "__complete", "ls", dir, flag, ""); !strings.Contains(out, want) {
			t.Errorf("%s is completed by %q", flag, out)
		}
	}
}

// TestFilterFlags: there is a flag for each parameter of the list, and a mistake is told by the flag's name.
func TestFilterFlags(t *testing.T) {
	for _, name := range catalog.FilterParams {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		read := new(operator).addFilter(fs)
		must.OK(t, fs.Set(filterFlag(name), "2026-11-20"))
		f, err := read()
		flag := "--" + filterFlag(name)
		says.True(t, (f.Form().Has(name) || err != nil) && (err == nil || strings.HasPrefix(err.Error(), flag+"=")),
			"%s: %v, %v", flag, f, err)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	read := new(operator).addFilter(fs)
	must.OK(t, fs.Set("search", strings.Repeat("word ", 100)))
	if _, err := read(); err == nil || !strings.HasPrefix(err.Error(), "--search=") {
		t.Errorf("too many words: %v", err)
	}
}

// TestNoSessions: who asks a server may see none of its sessions, although it has some.
func TestNoSessions(t *testing.T) {
	asks, reads := &operator{}, &operator{store: storetest.New()}
	for got, want := range map[string]string{
		asks.noSessions(catalog.Filter{}):                "the server has no sessions that you may see",
		reads.noSessions(catalog.Filter{}):               "no sessions are stored yet",
		asks.noSessions(catalog.Filter{Namespace: "ml"}): "no session matches",
	} {
		says.Equal(t, got, want)
	}
}

// TestOutcomesAreColoured: each outcome that says how jobs ended has a colour on a terminal.
func TestOutcomesAreColoured(t *testing.T) {
	for _, outcome := range catalog.Outcomes {
		says.True(t, colours[outcome] != "" || outcome == catalog.Unknown,
			"%s has no colour: add it to colours in terminal.go", outcome)
	}
}
