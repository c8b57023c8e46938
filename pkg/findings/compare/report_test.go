package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestBounds: however much differs, a report is short and says what it leaves out.
func TestBounds(t *testing.T) {
	a, b := &Side{functions: map[string]*Runs{}, nodes: map[nodeType]*counted{}}, &Side{functions: map[string]*Runs{}}
	for i := range 1000 {
		a.functions[fmt.Sprint("f", i)] = &Runs{Total: float64(i)}
		a.nodes[nodeType{name: fmt.Sprint("n", i)}] = &counted{}
		a.findings = append(a.findings, &findings.Finding{Kind: fmt.Sprint("kind", i), Severity: findings.Info})
	}
	r := newReport(a, b, DefaultTop)
	says.True(t, len(r.Functions) == DefaultTop && r.FunctionsLeftOut == 1000-DefaultTop &&
		r.Functions[0].Name == "f999", "%d functions, %d left out, the first is %s", len(r.Functions),
		r.FunctionsLeftOut, r.Functions[0].Name)
	says.True(t, len(r.Findings) == maxRows && r.FindingsLeftOut == 1000-maxRows && len(r.Nodes) == maxRows &&
		r.NodesLeftOut == 1000-maxRows, "%d findings, %d left out; %d types of nodes, %d left out", len(r.Findings),
		r.FindingsLeftOut, len(r.Nodes), r.NodesLeftOut)
}

// TestCausesFirst: what failed is told in the order of the reports, in which causes are before what followed.
func TestCausesFirst(t *testing.T) {
	found := func(titles ...string) *Side {
		s := &Side{functions: map[string]*Runs{}}
		for _, title := range titles {
			s.findings = append(s.findings, &findings.Finding{Kind: "k", Severity: findings.Error, Title: title})
		}
		return s
	}
	var got []string
	for _, f := range newReport(found("z raised", "both", "a followed"), found("y raised", "both", "b followed"), 1).Findings {
		got = append(got, f.In+" "+f.Title)
	}
	want := []string{"session z raised", "session a followed", "with y raised", "with b followed", "both both"}
	says.EqualSlices(t, got, want)
}

// TestRunsOfOneJob: which submissions are runs of one job.
func TestRunsOfOneJob(t *testing.T) {
	for _, tc := range []struct {
		a, b Job
		same bool
	}{
		{Job{SubmissionID: "nightly-20261120"}, Job{SubmissionID: "nightly-20261121"}, true},
		{Job{SubmissionID: "nightly"}, Job{SubmissionID: "nightly_2"}, true},
		{Job{SubmissionID: "train-large"}, Job{SubmissionID: "train-small"}, false},
		{Job{SubmissionID: "nightly-x7k2p", Entrypoint: "python a.py"},
			Job{SubmissionID: "nightly-bq49z", Entrypoint: "python b.py"}, true},
		{Job{SubmissionID: "nightly-x7k2p"}, Job{SubmissionID: "report-x7k2p"}, false},
		{Job{SubmissionID: "raysubmit_abc1"}, Job{SubmissionID: "raysubmit_abc2"}, false},
		{Job{SubmissionID: "raysubmit_abc", Entrypoint: "python x.py"},
			Job{SubmissionID: "raysubmit_def", Entrypoint: "python x.py"}, true},
		{Job{ID: "01000000"}, Job{ID: "02000000"}, false},
		{Job{SubmissionID: "1"}, Job{SubmissionID: "2"}, false},
	} {
		says.Equal(t, tc.a.isRunOfSame(&tc.b), tc.same, "%+v and %+v", tc.a, tc.b)
	}
}

// TestFindJob: a job has an ID, that of its submission, its entrypoint, its name without the run's number, or the name
// of its RayJob.
func TestFindJob(t *testing.T) {
	jobs := []Job{
		{ID: "01000000", SubmissionID: "nightly-41", Entrypoint: "python train.py"},
		{ID: "02000000", SubmissionID: "nightly-42", Entrypoint: "python train.py"},
		{ID: "03000000", SubmissionID: "report-x7k2p", Entrypoint: "python report.py"},
		{ID: "04000000", Entrypoint: "python hand.py"},
		{SubmissionID: "raysubmit_Zz9"},
	}
	for name, want := range map[string]int{
		"01000000": 0, "nightly-41": 0, "nightly": 1, "python train.py": 1, "report": 2, "report-x7k2p": 2,
		"04000000": 3, "python hand.py": 3, "raysubmit_Zz9": 4,
		"": -1, "night": -1, "raysubmit": -1, "05000000": -1,
	} {
		job, err := FindJob(jobs, name)
		says.True(t, (err == nil) == (want >= 0) && (want < 0 || job == &jobs[want]), "%q: %+v, %v", name, job, err)
		says.True(t, err == nil || strings.Contains(err.Error(), "nightly-41, nightly-42"), err)
	}
	if _, err := FindJob(nil, "x"); err == nil || !strings.Contains(err.Error(), "nothing is stored of any") {
		t.Error(err)
	}
}

// TestNodeSettings: groups that had another number of nodes or other resources are listed, and groups that differ only
// by the memory that Ray found free are not.
func TestNodeSettings(t *testing.T) {
	const gib = 1 << 30
	of := func(nodes map[nodeType]*counted) *Side { return &Side{nodes: nodes} }
	head, gpu, small := nodeType{name: "head", cpu: 8}, nodeType{name: "gpu", cpu: 16, gpu: 2},
		nodeType{name: "w", cpu: 4}
	n := func(count int, memory float64) *counted {
		return &counted{Nodes: Nodes{Count: count}, memory: memory * gib}
	}
	now := of(map[nodeType]*counted{head: n(1, 30), gpu: n(3, 64), small: n(2, 8), {name: "w", cpu: 2}: n(1, 4)})
	before := of(map[nodeType]*counted{head: n(1, 29), gpu: n(2, 128), small: n(2, 8), {name: "gone", cpu: 1}: n(5, 0)})
	want := []Setting{
		{Name: "nodes gone", With: "5 × 1 CPU"},
		{Name: "nodes gpu", Session: "3 × 16 CPU, 2 GPU, 64.0 GiB", With: "2 × 16 CPU, 2 GPU, 128 GiB"},
		{Name: "nodes w", Session: "1 × 2 CPU, 4.00 GiB + 2 × 4 CPU, 8.00 GiB", With: "2 × 4 CPU, 8.00 GiB"},
	}
	says.EqualSlices(t, differences(now, before), want)
}

// TestSettings: what was set differently is listed by its path, the versions first, and what is the same is not. Of
// environment variables that are hidden only the name is told, and that they differ.
func TestSettings(t *testing.T) {
	side := func(ray, env string, metadata map[string]string, hide bool) *Side {
		s := &Side{settings: settings{}}
		s.settings.addPlain(key{name: "Ray"}, ray)
		s.settings.addPlain(key{name: "Python"}, "3.11.9")
		s.settings.addJob("nightly", &moment.Job{Entrypoint: "python x.py", RuntimeEnv: env, Metadata: metadata}, hide)
		return s
	}
	long := strings.Repeat("l", maxName)
	for hide, shown := range map[bool][2]string{false: {"3", "2"}, true: {"<redacted>", "<redacted>"}} {
		before := side("2.55.1", `{"env_vars": {"A": "1", "B": "2"}, "pip": ["numpy==1"]}`,
			map[string]string{"team": "a"}, hide)
		now := side("2.60.0", `{"env_vars": {"A": "1", "B": "3", "`+long+`": {"C": 3}}, "pip": ["numpy==2"],
			"x": {"y": null}}`, nil, hide)
		want := func(prefix string) []Setting {
			return []Setting{
				{"Ray", "2.60.0", "2.55.1"},
				{prefix + "metadata.team", "", "a"},
				{prefix + "runtime_env.env_vars.B", shown[0], shown[1]},
				{human.FirstBytes(prefix+"runtime_env.env_vars."+long, maxName), shown[0], ""},
				{prefix + "runtime_env.pip", `["numpy==2"]`, `["numpy==1"]`},
			}
		}
		says.EqualSlices(t, newReport(now, before, 1).Settings, want(""), "hidden %t", hide)
		// with another job on one side, which side does not matter
		path := strings.Repeat("/a", maxName)
		now.settings.addJob(path, &moment.Job{Entrypoint: "python y.py"}, hide)
		ends := path[:maxName/4] + "…" + path[len(path)-maxName/4:]
		more := append([]Setting{{"Ray", "2.60.0", "2.55.1"}, {ends + ": entrypoint", "python y.py", ""}},
			want("nightly: ")[1:]...)
		says.EqualSlices(t, newReport(now, before, 1).Settings, more, "hidden %t, of two jobs", hide)
		for i, s := range more {
			more[i] = Setting{s.Name, s.With, s.Session}
		}
		says.EqualSlices(t, newReport(before, now, 1).Settings, more, "hidden %t, of two jobs before", hide)
	}
	few := &Side{settings: settings{{"x", "entrypoint"}: {text: "a"}}, settingsCut: true}
	more := &Side{settings: settings{{"x", "entrypoint"}: {text: "b"}, {"y", "entrypoint"}: {text: "c"}}}
	if got := newReport(few, more, 1).Settings; len(got) != 1 || got[0] != (Setting{"x: entrypoint", "a", "b"}) {
		t.Errorf("what may be set of a job that is left out is told as gone: %q", got)
	}
	many := &Side{settings: settings{}}
	for i := range 3 * maxSettings {
		many.settings.addPlain(key{name: fmt.Sprint("s", i)}, strings.Repeat("x", 3*maxName))
	}
	if r := newReport(many, &Side{}, 1); len(many.settings) != maxSettings || len(r.Settings) != maxRows ||
		r.SettingsLeftOut < maxSettings-maxRows || len(r.Settings[5].Session) > maxName {
		t.Errorf("%d settings, of which %d differ, and %d more", len(many.settings), len(r.Settings), r.SettingsLeftOut)
	}
}

// TestNamesOfJobs: settings of jobs whose long names differ at their ends have names of their own, cut between letters.
// Where they differ only in between, they are in the same order each time.
func TestNamesOfJobs(t *testing.T) {
	long := strings.Repeat("ä", maxName)
	s := &Side{settings: settings{}}
	for i, job := range []string{"python" + long + "1", "python" + long + "2", long + "1" + long, long + "2" + long} {
		s.settings.addPlain(key{job, "entrypoint"}, fmt.Sprint(i))
	}
	names := map[string]bool{}
	order := ""
	for _, one := range differences(s, &Side{}) {
		names[one.Name] = true
		order += one.Session
		says.True(t, utf8.ValidString(one.Name) && len(one.Name) <= maxName &&
			strings.HasSuffix(one.Name, ": entrypoint"), "%q is cut within a letter, or too long", one.Name)
	}
	says.Equal(t, len(names), 3, "%v", names)
	for range 20 {
		again := ""
		for _, one := range differences(s, &Side{}) {
			again += one.Session
		}
		must.True(t, again == "0123" && again == order, "the order is %s, then %s", order, again)
	}
}

// TestAskedForm: what is asked is the same after it was sent, and has no parameters that a server refuses.
func TestAskedForm(t *testing.T) {
	for _, a := range []Asked{{Top: 1}, {"a b", "c&d", MaxTop}, {}} {
		form := a.Form()
		for name := range form {
			says.True(t, slices.Contains(Params, name), "%+v has the parameter %s", a, name)
		}
		want := a
		if want.Top == 0 {
			want.Top = DefaultTop
		}
		says.Equal(t, must.Get(ParseAsked(form))(t), want, "%+v is read as", a)
	}
}
