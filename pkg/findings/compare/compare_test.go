package compare_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// cluster unpacks a recorded cluster below dir and gives its only session.
func cluster(t testing.TB, dir, archive string) catalog.Entry {
	t.Helper()
	must.OK(t, recording.Unpack(filepath.Join("..", "testdata", archive+".tar.gz"), dir))
	name := strings.NewReplacer("-", "", ".", "").Replace(archive)
	found, err := filepath.Glob(filepath.Join(dir, "log", name+"_cases", "session_*"))
	must.True(t, err == nil && len(found) == 1, "%s: %d sessions, %v", archive, len(found), err)
	return catalog.Entry{Ref: layout.Session{Namespace: "cases", Cluster: name, Name: filepath.Base(found[0])}}
}

// bench opens the sessions below a folder, as they were at a moment if one is set.
type bench struct {
	dir     string
	at      int64
	indexes bool
	opened  []string
}

func (b *bench) open(ctx context.Context, e catalog.Entry) (*moment.Moment, func(), error) {
	store, err := local.Open(b.dir)
	if err != nil {
		return nil, nil, err
	}
	o := session.Options{Log: silent.Logger()}
	s, err := session.Load(ctx, store, layout.DefaultRoot, e.Ref, o)
	if err == nil && b.indexes {
		opener := &index.Opener{Store: store, Root: layout.DefaultRoot, Log: silent.Logger()}
		if w := (index.Writer{Opener: opener, Put: store.Put}); !slices.Contains(b.opened, e.Ref.Cluster) {
			if err := w.Write(ctx, s, nil); err != nil {
				return nil, nil, err
			}
		}
		o.Index = opener
		if s, err = session.Load(ctx, store, layout.DefaultRoot, e.Ref, o); err == nil && s.Tasks.InMemory() {
			err = errors.New("the session was not loaded from its index")
		}
	}
	if err != nil {
		return nil, nil, err
	}
	b.opened = append(b.opened, e.Ref.Cluster)
	r := &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: s, At: b.at}
	return r, func() {}, nil
}

func (b *bench) run(t *testing.T, q compare.Question, metrics moment.Metrics) *compare.Report {
	t.Helper()
	return must.Get(compare.Comparer{Open: b.open, Findings: findings.Reader{Metrics: metrics}}.Run(t.Context(), q))(t)
}

// attempt is what the stored events say of an attempt of a task.
type attempt struct {
	function           string
	number             int
	running, finished  time.Time
	failed, definition bool
}

// attempts reads the stored events of a session as plain JSON.
func attempts(t *testing.T, dir string, ref layout.Session) map[string]*attempt {
	t.Helper()
	all := map[string]*attempt{}
	type descriptor struct {
		Python struct{ ClassName, FunctionName string } `json:"pythonFunctionDescriptor"`
	}
	type event struct {
		Task struct {
			TaskID  string     `json:"taskId"`
			Attempt int        `json:"taskAttempt"`
			Type    string     `json:"taskType"`
			Func    descriptor `json:"taskFunc"`
		} `json:"taskDefinitionEvent"`
		Actor struct {
			TaskID  string     `json:"taskId"`
			Attempt int        `json:"taskAttempt"`
			Func    descriptor `json:"actorFunc"`
		} `json:"actorTaskDefinitionEvent"`
		Lifecycle struct {
			TaskID  string `json:"taskId"`
			Attempt int    `json:"taskAttempt"`
			States  []struct {
				State string
				Time  time.Time `json:"timestamp"`
			} `json:"stateTransitions"`
		} `json:"taskLifecycleEvent"`
	}
	of := func(id string, number int) *attempt {
		key := id + string(rune('0'+number))
		if all[key] == nil {
			all[key] = &attempt{number: number}
		}
		return all[key]
	}
	define := func(a *attempt, f descriptor) {
		a.function, a.definition = strings.TrimPrefix(f.Python.ClassName+"."+f.Python.FunctionName, "."), true
	}
	folder := filepath.Join(dir, "log", ref.Cluster+"_"+ref.Namespace, ref.Name, "job_events")
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				return err
			}
			if d := e.Task; d.TaskID != "" && d.Type != "DRIVER_TASK" {
				define(of(d.TaskID, d.Attempt), d.Func)
			}
			if d := e.Actor; d.TaskID != "" {
				define(of(d.TaskID, d.Attempt), d.Func)
			}
			for _, s := range e.Lifecycle.States {
				a := of(e.Lifecycle.TaskID, e.Lifecycle.Attempt)
				switch s.State {
				case "RUNNING":
					a.running = s.Time
				case "FINISHED":
					a.finished = s.Time
				case "FAILED":
					a.failed = true
				}
			}
		}
		return lines.Err()
	})
	must.OK(t, err)
	return all
}

// expected adds up attempts by function, in the simplest way.
func expected(all map[string]*attempt, at time.Time) map[string]*compare.Runs {
	runs, times := map[string]*compare.Runs{}, map[string][]float64{}
	for _, a := range all {
		if !a.definition {
			continue
		}
		if runs[a.function] == nil {
			runs[a.function] = &compare.Runs{}
		}
		r := runs[a.function]
		r.Attempts++
		if a.number > 0 {
			r.Retries++
		}
		if !a.failed && !a.running.IsZero() && !a.finished.IsZero() && (at.IsZero() || !a.finished.After(at)) {
			r.Finished++
			times[a.function] = append(times[a.function], a.finished.Sub(a.running).Seconds())
		}
	}
	for function, r := range runs {
		all := times[function]
		slices.Sort(all)
		for _, s := range all {
			r.Total += s
		}
		if n := len(all); n > 0 {
			r.Median, r.P95, r.Max = all[int(math.Ceil(.5*float64(n)))-1], all[int(math.Ceil(.95*float64(n)))-1],
				all[n-1]
		}
	}
	return runs
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-5 }

// TestSums: what is said of each function is what the stored events add up to, from events, from an index, and at a
// moment.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	session, with := cluster(t, dir, "jobs-2.60"), cluster(t, dir, "more-2.60")
	moment := time.Date(2026, 11, 22, 10, 33, 0, 0, time.UTC) // in the middle of jobs-2.60
	for _, b := range []bench{{dir: dir}, {dir: dir, indexes: true}, {dir: dir, at: moment.UnixNano()},
		{dir: dir, at: moment.UnixNano(), indexes: true}} {
		at := time.Time{}
		q := compare.Question{Session: session, With: &with, Asked: compare.Asked{Top: compare.MaxTop}}
		if b.at != 0 {
			at = moment
		}
		r := b.run(t, q, nil)
		must.True(t, r.FunctionsLeftOut == 0 && (len(r.Functions) >= 5 || b.at != 0), "%d functions, %d left out",
			len(r.Functions), r.FunctionsLeftOut)
		finished := 0
		for side, e := range map[*compare.Side]catalog.Entry{r.Session: session, r.With: with} {
			want := expected(attempts(t, dir, e.Ref), at)
			var total float64
			for _, f := range r.Functions {
				got := f.Session
				if side == r.With {
					got = f.With
				}
				w := want[f.Name]
				if w == nil {
					w = &compare.Runs{}
				}
				if b.at == 0 && (got.Attempts != w.Attempts || got.Retries != w.Retries) || got.Finished != w.Finished {
					t.Errorf("%s: %s: %+v, want %+v", side.Cluster, f.Name, got, *w)
				}
				if !near(got.Total, w.Total) || !near(got.Median, w.Median) || !near(got.P95, w.P95) ||
					!near(got.Max, w.Max) {
					t.Errorf("%s: %s: times %+v, want %+v", side.Cluster, f.Name, got, *w)
				}
				says.True(t, near(f.Difference, f.Session.Total-f.With.Total), "%s: the difference is %v", f.Name,
					f.Difference)
				total += got.Total
				finished += got.Finished
			}
			says.True(t, near(side.Tasks.Total, total), "%s: all tasks took %v, its functions %v", side.Cluster,
				side.Tasks.Total, total)
		}
		says.True(t, finished != 0 || b.at != 0, "nothing finished")
		if !slices.IsSortedFunc(r.Functions,
			func(a, b compare.Function) int { return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)) }) {
			t.Error("the functions that differ most are not first")
		}
	}
}

// used are metrics by which the node of an address uses 2 of everything.
type used struct{ ip string }

func (u used) Values(_ context.Context, _ layout.Session, _ bool, _ time.Time, expression string,
	see func(func(string) string, float64)) error {
	value := 2.0
	if strings.Contains(expression, "mem") {
		value = 2 << 30
	}
	see(func(string) string { return u.ip }, value)
	see(func(string) string { return "10.9.9.9" }, 100) // no node of the session
	return nil
}

// TestReport: what failed on one side and on both, nodes, and hours.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	session, with := cluster(t, dir, "fine-2.60"), cluster(t, dir, "fine-2.55")
	b := bench{dir: dir}
	opened, _, err := b.open(t.Context(), session)
	must.OK(t, err)
	node := opened.Session.Nodes[0]
	r := b.run(t, compare.Question{Session: session, Earlier: []catalog.Entry{with}, Asked: compare.Asked{Top: 2}},
		used{node.IP})
	says.True(t, slices.Contains(r.Settings, compare.Setting{Name: "Ray", Session: "2.60.0", With: "2.55.1"}),
		"%q changed, want also Ray's version", r.Settings)
	says.True(t, r.Session.Cluster == "fine260" && r.With.Cluster == "fine255" && r.Session.Outcome == "succeeded" &&
		r.Session.Tasks.Retries == 1 && r.Session.Tasks.Failed == 3, "sides %+v and %+v", r.Session, r.With)
	says.True(t, len(r.Functions) == 2 && r.FunctionsLeftOut == 3 && r.Functions[0].Name == "flaky",
		"%d functions, %d left out: %+v", len(r.Functions), r.FunctionsLeftOut, r.Functions)
	in := map[string][]string{}
	for _, f := range r.Findings {
		in[f.In] = append(in[f.In], f.Title)
		says.Equal(t, f.Session == nil, f.In == compare.InWith, "%s is in %s: %v, %v", f.Title, f.In, f.Session, f.With)
		says.Equal(t, f.With == nil, f.In == compare.InSession, "%s is in %s: %v, %v", f.Title, f.In, f.Session, f.With)
	}
	says.True(t, len(in[compare.InBoth]) == 2 && len(in[compare.InSession]) == 1 && len(in[compare.InWith]) == 1,
		"findings %q", in)
	says.True(t, len(r.Nodes) == 1 && r.Nodes[0].Type == "head" && r.Nodes[0].CPU == 4 &&
		r.Nodes[0].Session.Count == 1 && r.Nodes[0].With.Count == 1, "nodes %+v", r.Nodes)
	_, ended := opened.Life(t.Context()) // no end of it is stored: when its last object was
	hours := float64(ended.UnixNano()-node.Start) / float64(time.Hour)
	if math.Abs(r.Session.Asked.CPU-4*hours) > 4e-3/3600*2 || r.Session.Asked.GPU != 0 || r.Session.Asked.Memory <= 0 {
		t.Errorf("the node had %+v, want CPU %v", r.Session.Asked, 4*hours)
	}
	if u := r.Session.Used; u == nil || !near(u.CPU, r.Session.Asked.CPU/2) || !near(u.Memory, u.CPU) ||
		!near(u.GPU, u.CPU) {
		t.Errorf("used %+v", u)
	}
	of, err := compare.Comparer{Findings: findings.Reader{Metrics: used{node.IP}}}.Used(t.Context(), opened)
	says.True(t, err == nil && of != nil && near(of.CPU, r.Session.Used.CPU), "what its nodes used, by itself: %+v, %v",
		of, err)
}

// TestLostNodes: a node that died unexpectedly is told.
func TestLostNodes(t *testing.T) {
	dir := t.TempDir()
	session, with := cluster(t, dir, "node_death"), cluster(t, dir, "fine-2.60")
	b := bench{dir: dir}
	r := b.run(t, compare.Question{Session: session, With: &with}, nil)
	says.True(t, r.Session.Nodes.Lost != 0 && r.With.Nodes.Lost == 0 && r.Session.Used == nil, "%+v and %+v",
		r.Session.Nodes, r.With.Nodes)
}

// TestSettingsOfJobs: settings are named by their jobs if only one of the two sessions has several.
func TestSettingsOfJobs(t *testing.T) {
	dir := t.TempDir()
	several, one := cluster(t, dir, "jobs-2.60"), cluster(t, dir, "fine-2.60")
	b := bench{dir: dir}
	r := b.run(t, compare.Question{Session: one, With: &several}, nil)
	names := map[string]bool{}
	for _, s := range r.Settings {
		names[s.Name] = true
	}
	says.True(t, names["fine: entrypoint"] && names["segv: entrypoint"] && !names["entrypoint"], "%q", r.Settings)
}

// TestRunsOfJobs: a job is compared with its run before, in the same session or an earlier one, or with the one that is
// named.
func TestRunsOfJobs(t *testing.T) {
	dir := t.TempDir()
	session, earlier, fine := cluster(t, dir, "jobs-2.60"), cluster(t, dir, "jobs-2.55"), cluster(t, dir, "fine-2.60")
	asked := func(job, withJob string) compare.Asked { return compare.Asked{Job: job, WithJob: withJob} }
	for _, tc := range []struct {
		name               string
		q                  compare.Question
		job, with, nothing string
		opened             []string
	}{
		{name: "the run before", q: compare.Question{Session: session, Earlier: []catalog.Entry{fine, earlier},
			Asked: asked("tokenizer", "")}, job: "jobs260 tokenizer", with: "jobs255 tokenizer",
			opened: []string{"jobs260", "fine260", "jobs255"}},
		{name: "named", q: compare.Question{Session: session, With: &earlier, Asked: asked("tokenizer", "segv")},
			job: "jobs260 tokenizer", with: "jobs255 segv", opened: []string{"jobs260", "jobs255"}},
		{name: "of the same session", q: compare.Question{Session: session, Asked: asked("tokenizer", "segv")},
			job: "jobs260 tokenizer", with: "jobs260 segv", opened: []string{"jobs260"}},
		{name: "of the same session, named", q: compare.Question{Session: session, With: &session,
			Asked: asked("tokenizer", "segv")}, job: "jobs260 tokenizer", with: "jobs260 segv", opened: []string{"jobs260"}},
		{name: "no run before", q: compare.Question{Session: session, Earlier: []catalog.Entry{fine},
			Asked: asked("tokenizer", "")},
			nothing: "No earlier run of job tokenizer was found in this session or in 1 session before it"},
		{name: "no run in that session", q: compare.Question{Session: session, With: &fine, Asked: asked("tokenizer", "")},
			nothing: "No earlier run of job tokenizer was found in that session"},
		{name: "no other job before", q: compare.Question{Session: session, Earlier: []catalog.Entry{fine},
			Asked: asked("segv", "none")}, nothing: `has no job "none"`},
		{name: "no such job", q: compare.Question{Session: session, With: &earlier, Asked: asked("none", "")},
			nothing: `has no job "none"`},
		{name: "no such other job", q: compare.Question{Session: session, With: &earlier, Asked: asked("segv", "none")},
			nothing: `has no job "none"`},
		{name: "one job twice", q: compare.Question{Session: session, Asked: asked("segv", "segv")},
			nothing: "same job twice"},
		{name: "one session twice", q: compare.Question{Session: session, With: &session},
			nothing: "same session twice"},
		{name: "nothing earlier", q: compare.Question{Session: session}, nothing: "Nothing earlier"},
		{name: "half a question", q: compare.Question{Session: session, Asked: asked("", "segv")},
			nothing: "the session's own is not"},
	} {
		b := bench{dir: dir}
		r, err := compare.Comparer{Open: b.open}.Run(t.Context(), tc.q)
		if tc.nothing != "" {
			var nothing *compare.NothingError
			says.True(t, errors.As(err, &nothing) && strings.Contains(nothing.Detail, tc.nothing) &&
				nothing.Advice != "", "%s: %v, want %q", tc.name, err, tc.nothing)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		says.Equal(t, r.Session.Cluster+" "+r.Session.Job.Name(), tc.job, tc.name)
		says.Equal(t, r.With.Cluster+" "+r.With.Job.Name(), tc.with, tc.name)
		says.EqualSlices(t, b.opened, tc.opened, "%s: opened", tc.name)
		says.True(t, r.Session.Tasks.Attempts == 2 && r.Session.Seconds <= 20 && r.Session.Outcome == "failed",
			"%s: %+v", tc.name, r.Session)
		for _, f := range r.Findings {
			says.True(t, f.Session == nil || !strings.Contains(f.Title, "segv"), "%s: another job's finding: %s",
				tc.name, f.Title)
		}
	}
}
