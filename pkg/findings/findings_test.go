package findings_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// cluster unpacks a recorded cluster. It returns the folder of its store, and its only session.
func cluster(t testing.TB, archive string) (dir string, ref layout.Session) {
	t.Helper()
	dir = t.TempDir()
	must.OK(t, recording.Unpack(filepath.Join("testdata", archive+".tar.gz"), dir))
	found, err := filepath.Glob(filepath.Join(dir, "log", "*", "session_*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %d sessions, %v", archive, len(found), err)
	}
	name := strings.TrimSuffix(filepath.Base(filepath.Dir(found[0])), "_cases")
	return dir, layout.Session{Namespace: "cases", Cluster: name, Name: filepath.Base(found[0])}
}

// recorded reads a recorded cluster into memory. It returns its store, and its only session.
func recorded(t testing.TB, archive string) (store *storetest.Store, ref layout.Session) {
	t.Helper()
	store = must.Get(recording.ReadStore(filepath.Join("testdata", archive+".tar.gz")))(t)
	for key := range store.Objects { // log/{cluster}_cases/{session}/…
		parts := strings.Split(key, "/")
		if len(parts) < 4 || parts[0] != "log" || !strings.HasPrefix(parts[2], "session_") {
			continue
		}
		found := layout.Session{Namespace: "cases", Cluster: strings.TrimSuffix(parts[1], "_cases"), Name: parts[2]}
		if ref.Name != "" && found != ref {
			t.Fatalf("%s has %s and %s", archive, ref, found)
		}
		ref = found
	}
	return store, ref
}

// folder opens a store on disk.
func folder(t testing.TB, dir string) *local.Store {
	t.Helper()
	return must.Get(local.Open(dir))(t)
}

func load(t testing.TB, dir string, ref layout.Session, indexes session.Index) *session.Session {
	t.Helper()
	return loadFrom(t, folder(t, dir), ref, indexes)
}

func loadFrom(t testing.TB, store blob.Store, ref layout.Session, indexes session.Index) *session.Session {
	t.Helper()
	s, err := session.Load(t.Context(), store, layout.DefaultRoot, ref,
		session.Options{Log: silent.Logger(), Index: indexes})
	must.OK(t, err)
	return s
}

// indexed writes the index of a session that was loaded from its events, and loads it from there.
func indexed(t testing.TB, store blob.Store, events *session.Session) *session.Session {
	t.Helper()
	opener := &index.Opener{Store: store, Root: layout.DefaultRoot, Log: silent.Logger()}
	w := index.Writer{Opener: opener, Put: store.Put}
	must.OK(t, w.Write(t.Context(), events, nil))
	s := loadFrom(t, store, events.Ref, opener)
	if s.Tasks.InMemory() {
		t.Fatal("the session was not loaded from its index")
	}
	return s
}

// report returns a session's findings, which may be kept.
func report(t testing.TB, s *session.Session) *findings.Report {
	t.Helper()
	found := reportWith(t, s, nil)
	if _, err := findings.Encode(s, found, nil); err != nil {
		t.Errorf("it cannot be kept: %v", err)
	}
	for _, f := range found.Findings {
		for _, e := range f.Entities {
			checkLink(t, e.Link)
		}
		for _, e := range f.Evidence {
			checkLink(t, e.Link)
		}
	}
	return found
}

// dashboardPages are the addresses of pages that Ray's dashboard has; it shows an empty one at others.
var dashboardPages = regexp.MustCompile(`#/(jobs/[^/]+(/tasks/[0-9a-f]{48})?|actors/[^/]+|cluster/nodes/[^/]+|` +
	`serve/applications/[^/]+(/[^/]+)?|logs/viewer\?.+|platform-events)$`)

// checkLink checks that a link into the dashboard leads to one of its pages.
func checkLink(t testing.TB, link string) {
	t.Helper()
	if strings.Contains(link, "#") && !dashboardPages.MatchString(link) {
		t.Errorf("the dashboard has no page at %s", link)
	}
}

// text returns what people read of a finding.
func text(f *findings.Finding) string {
	all := []string{f.Title}
	for _, e := range f.Evidence {
		all = append(all, e.Text)
	}
	return strings.Join(all, "\n")
}

// truth is what is true of a recorded failure, as regular expressions.
type truth struct {
	Outcome string              // of the session; alternatives are separated by |
	Find    []string            // what the first finding says, with its evidence and its causes
	Title   string              // what the first finding's title says
	Names   []string            // what its title says, too: names that people gave
	Not     string              // what the first finding's title does not say
	None    string              // a severity that no finding has
	Jobs    map[string][]string // what the findings of each submission say
	First   map[string]string   // what the title of each submission's first finding says
	Miss    []string            // what is known not to be found yet: a field's name, or first and a submission
}

// wrong returns what a report says otherwise than it is true: by field, as in truth.Miss.
func (want truth) wrong(r *findings.Report) map[string]string {
	wrong := map[string]string{}
	says := func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
	if !slices.Contains(strings.Split(want.Outcome, "|"), r.Outcome) {
		wrong["outcome"] = fmt.Sprintf("%q, want %s: %s", r.Outcome, want.Outcome, r.Summary)
	}
	for _, f := range r.Findings {
		if f.Severity == want.None {
			wrong["none"] = fmt.Sprintf("a finding of severity %s: %s", f.Severity, f.Title)
		}
	}
	for submission, patterns := range want.Jobs {
		fine := len(patterns) == 0
		for _, f := range r.Findings {
			if fine && f.SubmissionID == submission && f.Severity == findings.Error {
				wrong["jobs"] = fmt.Sprintf("%s was fine, and an error says %s", submission, f.Title)
			}
		}
		for _, pattern := range patterns {
			if !slices.ContainsFunc(r.Findings, func(f *findings.Finding) bool {
				return f.SubmissionID == submission &&
					says(pattern, text(f))
			}) {
				wrong["jobs"] = fmt.Sprintf("no finding about %s has %q", submission, pattern)
			}
		}
	}
	for submission, pattern := range want.First {
		id := ""
		for _, j := range r.Jobs {
			if j.SubmissionID == submission && len(j.Findings) > 0 {
				id = j.Findings[0]
			}
		}
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.ID == id })
		if i < 0 {
			wrong["first "+submission] = "no finding"
		} else if !says(pattern, r.Findings[i].Title) {
			wrong["first "+submission] = fmt.Sprintf("lacks %q: %s", pattern, r.Findings[i].Title)
		}
	}
	if len(want.Find) == 0 {
		return wrong
	}
	if len(r.Findings) == 0 {
		wrong["title"] = "no findings"
		return wrong
	}
	first := r.Findings[0]
	for _, pattern := range want.Find {
		if !says(pattern, text(first)) {
			wrong["find"] = fmt.Sprintf("the first finding lacks %q: %s", pattern, text(first))
		}
	}
	for _, pattern := range want.Names {
		if !says(pattern, first.Title) {
			wrong["names"] = fmt.Sprintf("the first finding's title lacks %q: %s", pattern, first.Title)
		}
	}
	if !says(want.Title, first.Title) {
		wrong["title"] = fmt.Sprintf("the first finding's title lacks %q: %s", want.Title, first.Title)
	}
	if want.Not != "" && says(want.Not, first.Title) {
		wrong["not"] = fmt.Sprintf("the first finding's title has %q: %s", want.Not, first.Title)
	}
	if first.Severity != findings.Error {
		wrong["severity"] = "the first finding is a " + first.Severity
	}
	return wrong
}

// readJSON reads a file of testdata.
func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	must.OK(t, json.Unmarshal(data, into))
}

// readTruths returns what is true of the recordings of failures.py, by their names.
func readTruths(t *testing.T) (truths map[string]truth) {
	t.Helper()
	readJSON(t, "truth.json", &truths)
	return truths
}

// TestRecordedFailures: the first finding of each recorded failure says what it was, from events, from an index, and
// without snapshots. test/raylab/failures.py records more of them. What is known to be missed
// is listed, and has to be taken off the list when it is found.
func TestRecordedFailures(t *testing.T) {
	truths := readTruths(t)
	right, asked := 0, 0
	for i, name := range slices.Sorted(maps.Keys(truths)) {
		want := truths[name]
		skips := func(way int) bool { return thinned(i + way) }
		if skips(0) && skips(1) && skips(2) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			missed := map[string]bool{}
			check := func(way int, from string, open func() *session.Session) {
				t.Helper()
				if skips(way) {
					return
				}
				s := open()
				r := report(t, s)
				for field, what := range want.wrong(r) {
					if missed[field] = true; !slices.Contains(want.Miss, field) {
						t.Errorf("%s: %s: %s", from, field, what)
					}
				}
				checkOrder(t, r)
				if slices.ContainsFunc(r.Findings,
					func(f *findings.Finding) bool { return f.Kind == findings.GCSDied }) &&
					!strings.HasSuffix(name, "_gcs") && name != "other_probes" {
					t.Errorf("%s: a finding says that the GCS ended, and it did not before the head", from)
				}
			}
			store, ref := recorded(t, name)
			events := sync.OnceValue(func() *session.Session { return loadFrom(t, store, ref, nil) })
			check(0, "events", events)
			check(1, "index", func() *session.Session { return indexed(t, store, events()) })
			all := len(store.Objects)
			maps.DeleteFunc(store.Objects, func(key string,
				_ []byte) bool {
				return strings.Contains(key, "/fetched_endpoints/")
			})
			if len(store.Objects) == all {
				t.Fatal("the recording has no snapshots")
			}
			check(2, "no snapshots", func() *session.Session { return loadFrom(t, store, ref, nil) })
			for _, field := range want.Miss {
				if !missed[field] && !race.Enabled {
					t.Errorf("%s is right now: take it off the known misses in testdata/truth.json", field)
				}
			}
			if asked += max(1, len(want.First)); len(want.First) == 0 && !missed["title"] && !missed["outcome"] {
				right++
			}
			for submission := range want.First {
				if !missed["first "+submission] {
					right++
				}
			}
		})
	}
	t.Logf("%d of %d are right", right, asked)
}

// thinned reports whether the n-th recording is left out: with the race detector, under which a report takes ten times
// as long, one of twenty is enough, because a report is made by one goroutine.
func thinned(n int) bool { return race.Enabled && n%20 != 0 }

// told is a finding that a report must have. What is not set may be anything.
type told struct {
	Kind, Severity, Job, Title, First string
	Text                              string // also of its evidence
	Because                           string // the title of its only cause, or none
	Count                             int
}

func (want told) is(f *findings.Finding, r *findings.Report) bool {
	says := func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
	same := func(want, got string) bool { return want == "" || want == got }
	because := []string{"none"}
	if len(f.Because) > 0 {
		because = nil
		for _, id := range f.Because {
			because = append(because, r.Finding(id).Title)
		}
	}
	return same(want.Kind, f.Kind) && same(want.Severity, f.Severity) && same(want.Job, f.SubmissionID) &&
		same(want.First, f.First) && says(want.Title, f.Title) && says(want.Text, text(f)) && len(f.Evidence) > 0 &&
		(want.Count == 0 || want.Count == f.Count) &&
		(want.Because == "" || len(because) == 1 && says(want.Because, because[0]))
}

// toldOf is what is told of recorded clusters.
type toldOf struct {
	Of      []string
	Outcome string
	Told    []told
	Fine    []string // submissions of which no finding is an error
	None    string   // a severity that no finding has
	Lacks   string   // what no title has
}

func readTold(t *testing.T) (all []toldOf) {
	t.Helper()
	readJSON(t, "told.json", &all)
	return all
}

// TestTold: recorded clusters of several versions were made to fail in known ways, which testdata/told.json lists. For
// each failure there is a finding, from events and from an index, and none is an error of a job that was fine.
func TestTold(t *testing.T) {
	for i, want := range readTold(t) {
		if thinned(i) {
			continue
		}
		for _, name := range want.Of {
			t.Run(name, func(t *testing.T) {
				store, ref := recordedAnywhere(t, name)
				events := loadFrom(t, store, ref, nil)
				for from, s := range map[string]*session.Session{"events": events,
					"index": indexed(t, store, events)} {
					r := report(t, s)
					checkOrder(t, r)
					says.Equal(t, r.Outcome, want.Outcome, "%s: the outcome", from)
					for _, told := range want.Told {
						if !slices.ContainsFunc(r.Findings, func(f *findings.Finding) bool { return told.is(f, r) }) {
							t.Errorf("%s: no finding is like %+v", from, told)
						}
					}
					for _, f := range r.Findings {
						if f.Severity == want.None || f.Severity == findings.Error &&
							slices.Contains(want.Fine, f.SubmissionID) || want.Lacks != "" &&
							strings.Contains(f.Title, want.Lacks) {
							t.Errorf("%s: %s is told of %q: %s", from, f.Severity, f.SubmissionID, f.Title)
						}
					}
				}
			})
		}
	}
}

// recordedAnywhere returns the store of a recorded cluster of testdata or of all rooms, and its only session.
func recordedAnywhere(t *testing.T, name string) (blob.Store, layout.Session) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("testdata", name+".tar.gz")); err == nil {
		return recorded(t, name)
	}
	archive := must.Get(recording.Find(name))(t)
	dir := t.TempDir()
	must.OK(t, archive.WriteStore(dir))
	return folder(t, dir), must.Get(archive.Session())(t)
}

// cause is the first of a failed job's causes.
type cause struct{ Kind, Find string }

// readJobs returns the causes of the failed jobs of recordings, by recording and job.
func readJobs(t *testing.T) (jobs map[string]map[string]cause) {
	t.Helper()
	readJSON(t, "jobs.json", &jobs)
	return jobs
}

// TestJobs: each failed job of recorded clusters that ran one after the other is explained by its own cause, of which
// testdata/jobs.json has the kind, and what the title and evidence must contain.
func TestJobs(t *testing.T) {
	jobs := readJobs(t)
	for i, name := range slices.Sorted(maps.Keys(jobs)) {
		if thinned(i) {
			continue
		}
		cases := jobs[name]
		t.Run(name, func(t *testing.T) {
			store, ref := recorded(t, name)
			r := report(t, loadFrom(t, store, ref, nil))
			byID := map[string]*findings.Finding{}
			for _, f := range r.Findings {
				byID[f.ID] = f
			}
			for job, want := range cases {
				i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool {
					return f.SubmissionID == job && slices.ContainsFunc(f.Entities,
						func(e findings.Entity) bool { return e.Type == "job" })
				})
				if i < 0 {
					t.Errorf("nothing is said of job %s", job)
					continue
				}
				root := r.Findings[i]
				for len(root.Because) > 0 {
					root = byID[root.Because[0]]
				}
				if root.Kind != want.Kind || !regexp.MustCompile(want.Find).MatchString(text(root)) {
					t.Errorf("job %s is explained by a finding %s, want %s like %s:\n%s", job, root.Kind, want.Kind,
						want.Find, text(root))
				}
			}
			checkOrder(t, r)
		})
	}
}

// TestNoRecordingIsLeftOut: each recorded cluster is asked about above.
func TestNoRecordingIsLeftOut(t *testing.T) {
	asked := slices.AppendSeq(slices.Collect(maps.Keys(readTruths(t))), maps.Keys(readJobs(t)))
	for _, told := range readTold(t) {
		asked = append(asked, told.Of...)
	}
	archives, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(archives) < 10 {
		t.Fatalf("%d recordings, %v", len(archives), err)
	}
	for _, archive := range archives {
		if name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz"); !slices.Contains(asked, name) {
			t.Errorf("no file of testdata says what is true of %s", name)
		}
	}
}

// TestSpot: of the lines in which Ray's memory monitor names what it killed, a finding shows those of its own time.
func TestSpot(t *testing.T) {
	store, ref := recorded(t, "spot-2.60")
	killed := false
	for _, f := range report(t, loadFrom(t, store, ref, nil)).Findings {
		if f.Kind != findings.OutOfMemory || f.SubmissionID != "oom_forever" {
			continue
		}
		for _, e := range f.Evidence {
			own := strings.Contains(e.Text, "ray::embed")
			killed = killed || own && strings.Contains(e.File, "event_RAYLET.log")
			if !own {
				t.Errorf("evidence of embed: %s of %s", e.Text, e.File)
			}
		}
	}
	if !killed {
		t.Error("the line about the killed task is not shown")
	}
}

// TestConstructorUnderWay: at a moment while the session runs, a constructor that has run for some seconds gets no
// finding, because loading a large model takes time.
func TestConstructorUnderWay(t *testing.T) {
	store, ref := recorded(t, "even-2.60")
	s := loadFrom(t, store, ref, nil)
	at := time.Date(2026, 11, 22, 18, 43, 45, 0, time.UTC).UnixNano()
	r := &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: s, At: at}
	found := must.Get(findings.Reader{}.Read(t.Context(), r))(t)
	for _, f := range found.Findings {
		if f.Kind == findings.ActorStart {
			t.Errorf("%s: %s", f.Severity, f.Title)
		}
	}
}

// checkOrder checks that the causes of each finding are in the report, and come before it.
func checkOrder(t *testing.T, r *findings.Report) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range r.Findings {
		for _, cause := range f.Because {
			if !seen[cause] {
				t.Errorf("%q comes before its cause %s", f.Title, cause)
			}
		}
		if seen[f.ID] {
			t.Errorf("two findings are %s", f.ID)
		}
		seen[f.ID] = true
	}
}

// TestComputedOnce: the findings of a running session are computed once for each state of it, and so are those of a
// moment.
func TestComputedOnce(t *testing.T) {
	store, ref := recorded(t, "fine-2.60")
	s := loadFrom(t, store, ref, nil)
	env := moment.NewEnv(silent.Logger(), nil)
	read := func(s *session.Session, at int64, running bool) *findings.Report {
		t.Helper()
		found, err := findings.Reader{}.Read(t.Context(),
			&moment.Moment{Env: env, Session: s, At: at, Running: func(context.Context) bool { return running }})
		must.OK(t, err)
		return found
	}
	moment := s.Start + (s.End-s.Start)/2
	end, middle := read(s, 0, true), read(s, moment, true)
	if read(s, 0, true) != end || read(s, moment, true) != middle || end == middle {
		t.Error("findings were computed again though nothing had changed")
	}
	if read(s, moment+1, true) == middle || read(s, 0, false) == end {
		t.Error("findings of another moment, or of when it ran, were answered")
	}
	end = read(s, 0, true)
	log := layout.LogKey(layout.DefaultRoot, ref, s.Nodes[0].ID, "more.log")
	must.OK(t, store.Create(t.Context(), log, strings.NewReader("more\n")))
	next := must.Get(s.Refresh(t.Context()))(t)
	if read(next, 0, true) == end {
		t.Error("findings were answered though more is stored")
	}
}
