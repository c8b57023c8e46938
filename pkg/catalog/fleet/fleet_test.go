package fleet

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var (
	first = time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC)
	now   = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

// facts are of a session that began so many days after the first and ran two hours on 3 CPUs, 1 GPU and 4 GiB.
func facts(namespace, cluster string, day int) packs.Facts {
	start := first.Add(time.Duration(day) * 24 * time.Hour)
	return packs.Facts{
		Ref: layout.Session{Namespace: namespace, Cluster: cluster,
			Name: "session_" + start.Format("2006-01-02_15-04-05") + "_000000_1"},
		Seen: start.Add(24 * time.Hour), Start: start, End: start.Add(2 * time.Hour),
		LastWrite: start.Add(2 * time.Hour), Findings: []packs.Finding{},
		Summary: packs.Summary{OwnerKind: catalog.RayJob, OwnerName: "nightly", Bytes: 1000, Objects: 3,
			Outcome: "succeeded"},
		Hours: &packs.Hours{Amounts: packs.Amounts{Node: 2, CPU: 6, GPU: 2, Memory: 8},
			Used: &packs.Used{CPU: 3, GPU: 0.5, Memory: 2}},
	}
}

// run is a job that began so many minutes after its session.
func run(f *packs.Facts, name, status string, after, minutes int) packs.Job {
	start := f.Start.Add(time.Duration(after) * time.Minute)
	return packs.Job{Name: name, Submission: "raysubmit_x", Entrypoint: "python x.py", Status: status,
		Start: start.UnixMilli(), End: start.Add(time.Duration(minutes) * time.Minute).UnixMilli()}
}

// sample is a fleet in two namespaces.
func sample() []packs.Facts {
	a, b, c, d := facts("prod", "a", 0), facts("prod", "b", 10), facts("lab", "c", 10), facts("lab", "d", 11)
	a.Jobs = []packs.Job{run(&a, "train", "SUCCEEDED", 0, 30), run(&a, "eval", "SUCCEEDED", 30, 10)}
	a.Jobs[0].User = "ada"
	b.Jobs = []packs.Job{run(&b, "train", "SUCCEEDED", 0, 60)}
	c.Outcome, c.Cause = "failed", "no memory"
	c.Findings = []packs.Finding{
		{Kind: "starved", Severity: "warning", Signature: "starved", Title: "slow"},
		{Kind: "out_of_memory", Severity: "error", Signature: "out_of_memory Task #", Title: "Task 7", Count: 2},
	}
	c.Jobs = []packs.Job{run(&c, "", "FAILED", 0, 5), run(&c, "", "FAILED", 0, 5)}
	c.Jobs[1].Entrypoint = "=HYPERLINK(1)"
	d.Outcome, d.Findings, d.Hours.Used = "failed",
		[]packs.Finding{{Kind: "out_of_memory", Severity: "error", Signature: "out_of_memory Task #", Title: "Task 9",
			Count: 1}}, nil
	d.Hours.GPU = 0
	return []packs.Facts{a, b, c, d}
}

func open(t *testing.T) *Fleet {
	t.Helper()
	return &Fleet{Packs: &packs.Packs{Store: storetest.New(), Root: "log"}}
}

func (f *Fleet) pack(t *testing.T, all ...packs.Facts) {
	t.Helper()
	for _, one := range all {
		must.OK(t, f.Packs.Append(t.Context(), layout.PackDay(one.Ref), nil, []packs.Facts{one}))
	}
}

func ask(t *testing.T, query string) Query {
	t.Helper()
	v := must.Get(url.ParseQuery(query))(t)
	q := must.Get(ParseQuery(v, now))(t)
	return q
}

// listOf is the list of sessions that packs tell of.
func listOf(t testing.TB, all *packs.Packs) (*catalog.Catalog, catalog.Listing) {
	t.Helper()
	c := catalog.New(catalog.Options{Store: all.Store, Root: all.Root, Packs: all, Facts: true, Log: silent.Logger(),
		Registerer: prometheus.NewRegistry()})
	l := must.Get(c.Packed(t.Context(), time.Time{}, now.AddDate(1, 0, 0)))(t)
	return c, l
}

func listing(t *testing.T, f *Fleet) catalog.Listing {
	t.Helper()
	_, l := listOf(t, f.Packs)
	return l
}

// compute makes the report of all that is packed.
func compute(t *testing.T, f *Fleet, query string) *Report {
	t.Helper()
	return computeOf(t, f, query, listing(t, f))
}

func computeOf(t *testing.T, f *Fleet, query string, l catalog.Listing) *Report {
	t.Helper()
	r := must.Get(f.Compute(t.Context(), ask(t, query), l))(t)
	must.Get(json.Marshal(r))(t)
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestReportOfPacks(t *testing.T) {
	f := open(t)
	f.pack(t, sample()...)
	r := compute(t, f, "from=2026-11-10&to=2026-11-22")
	says.True(t, r.From == "2026-11-10" && r.To == "2026-11-22" && r.By == "gpu", "%s to %s by %s", r.From, r.To, r.By)
	want := (Counts{Sessions: 4, Failed: 2, Succeeded: 2})
	says.True(t, r.Total.Counts == want && r.Total.Unpacked == 0 && r.Total.Unmeasured == 0, "total %+v", r.Total)
	h := r.Total.Hours
	if !near(h.Node, 8) || !near(h.CPU.Offered, 24) || !near(h.CPU.Measured, 18) || !near(h.CPU.Used, 9) ||
		!near(*h.CPU.Unused, 0.5) || !near(h.GPU.Offered, 6) || !near(*h.GPU.Unused, 0.75) {
		t.Errorf("hours %+v", h)
	}
	wantDays := []Day{
		{Day: "2026-11-10", Counts: Counts{Sessions: 1, Succeeded: 1}},
		{Day: "2026-11-20", Counts: Counts{Sessions: 2, Failed: 1, Succeeded: 1}},
		{Day: "2026-11-21", Counts: Counts{Sessions: 1, Failed: 1}},
	}
	says.True(t, reflect.DeepEqual(r.Days, wantDays), "days %+v", r.Days)
	says.True(t, len(r.Causes) == 1 && r.Causes[0].Sessions == 2 && r.Causes[0].Title == "Task 9" &&
		r.Causes[0].Latest.Cluster == "d" && r.Causes[0].First.Equal(first.Add(240*time.Hour)), "causes %+v", r.Causes)
	says.True(t, len(r.Namespaces) == 2 && r.Namespaces[0].Namespace == "prod" && r.Namespaces[0].Runs == 2 &&
		near(r.Namespaces[0].Hours.GPU.Offered, 4) && r.Namespaces[1].Failed == 2, "namespaces %+v", r.Namespaces)
	says.True(t, len(r.Owners) == 2 && r.Owners[0].Kind == catalog.RayJob && r.Owners[0].Name == "nightly",
		"owners %+v", r.Owners)
	// Of the first session's 6 CPU hours, training that took 30 of 40 minutes has 4.5.
	jobs := map[string]Usage{}
	for _, j := range r.Jobs {
		jobs[j.Name] = j
	}
	if len(jobs) != 4 || !near(jobs["train"].Hours.CPU.Offered, 10.5) || jobs["train"].Runs != 2 ||
		!near(jobs["eval"].Hours.CPU.Offered, 1.5) ||
		!near(jobs["python x.py"].Hours.CPU.Offered, 3) || jobs["python x.py"].Failed != 1 {
		t.Errorf("jobs %+v", r.Jobs)
	}
	says.True(t, len(r.Slower) == 1 && r.Slower[0].Name == "train" && near(r.Slower[0].Ratio, 2) &&
		r.Slower[0].Before == (Pace{1, 1800}), "slower %+v", r.Slower)
	says.True(t, len(r.Sessions) == 4 && r.Sessions[3].Cluster == "d" && r.Sessions[3].Hours.CPU.Unused == nil &&
		r.Sessions[0].Seconds == 7200, "sessions %+v", r.Sessions)
}

// TestTimeBefore: the totals of as many days before are beside those of the days; too many sessions leave them out, and
// the other tables have nothing of them.
func TestTimeBefore(t *testing.T) {
	f := open(t)
	f.pack(t, sample()...)
	r := compute(t, f, "from=2026-11-20&to=2026-11-29")
	if b := r.Before; b == nil || b.From != "2026-11-10" || b.To != "2026-11-19" || b.Total.Sessions != 1 ||
		!near(b.Total.Hours.CPU.Offered, 6) || !near(*b.Total.Hours.CPU.Unused, 0.5) {
		t.Errorf("before %+v", b)
	}
	says.True(t, r.Total.Sessions == 3 && len(r.Days) == 2 && len(r.Namespaces) == 2 &&
		r.Namespaces[0].Runs+r.Namespaces[1].Runs == 3, "%+v", r)
	f.MaxSessions = 3
	r = compute(t, f, "from=2026-11-20&to=2026-11-29")
	says.True(t, r.Before == nil && r.Total.Sessions == 3, "of too many: %+v", r)
}

func TestOnlyListedSessionsCount(t *testing.T) {
	f := open(t)
	f.pack(t, sample()...)
	unpacked := facts("lab", "new", 12)
	unpacked.Outcome = "failed"
	listed := open(t)
	listed.pack(t, append(sample(), unpacked)...)
	c, l := listOf(t, listed.Packs)
	l = c.WithRunning(l, []catalog.Entry{{Ref: layout.Session{Namespace: "lab", Cluster: "now", Name: catalog.Live},
		Start: now, Running: true, Described: true}})
	all, l := l, l.Within(map[string]bool{"lab": true})
	for range 2 { // at last from what was kept
		r := computeOf(t, f, "from=2026-11-10&to=2026-11-22", l)
		if want := (Counts{Sessions: 4, Failed: 3, Running: 1}); r.Total.Counts != want || r.Total.Unpacked != 1 ||
			r.Total.Unmeasured != 2 {
			t.Errorf("total %+v", r.Total)
		}
		text, err := json.Marshal(r)
		says.True(t, err == nil && !strings.Contains(string(text), "prod") &&
			!strings.Contains(string(text), "train") && near(r.Total.Hours.CPU.Offered, 12), "%v: %s", err, text)
	}
	for query, want := range map[string]int{"q=task+9": 1, "q=no+memory": 1, "namespace=lab": 4, "namespace=prod": 0,
		"cluster=c": 1, "owner=nightly": 3, "from=2026-11-21&to=2026-11-21": 1} {
		if r := computeOf(t, f, query, l); r.Total.Sessions != want {
			t.Errorf("%s: %+v", query, r.Total)
		}
	}
	if r := computeOf(t, f, "", l.Within(map[string]bool{})); r.Total.Sessions != 0 || r.Causes == nil {
		t.Errorf("for somebody who sees nothing: %+v", r)
	}
	if r := computeOf(t, f, "", catalog.Listing{}); r.Total.Sessions != 0 {
		t.Errorf("of an empty list: %+v", r)
	}
	if r := computeOf(t, &Fleet{}, "", l); r.Total.Unpacked != 3 || r.Total.Failed != 3 {
		t.Errorf("without packs: %+v", r.Total)
	}
	f.MaxSessions = 3
	says.Error(t, says.Err(f.Compute(t.Context(), ask(t, ""), l)), "4 sessions", "too many")
	f.MaxSessions = 0
	stopped, stop := context.WithCancel(t.Context())
	stop()
	says.True(t, says.Err(f.Compute(stopped, ask(t, ""), all)) != nil, "went on after its request had ended")
}

// A session that several packs tell of counts once, as Merge says; damaged packs are skipped.
func TestRowsOfASessionAreOne(t *testing.T) {
	f := open(t)
	early := facts("prod", "a", 10)
	late := early
	late.Seen, late.Hours, late.Bytes = early.Seen.Add(time.Hour), nil, 7
	f.pack(t, early)
	f.pack(t, late)
	day := layout.PackDay(early.Ref)
	must.OK(t, f.Packs.Store.(blob.Creator).Create(t.Context(), layout.PackKey("log", day, 9),
		strings.NewReader("PAR1")))
	r := compute(t, f, "")
	says.True(t, r.Total.Sessions == 1 && near(r.Total.Hours.CPU.Offered, 6), "total %+v", r.Total)
	insane := facts("prod", "b", 10)
	insane.Hours.CPU = 1e300
	f.pack(t, insane)
	if r := compute(t, f, ""); r.Total.Sessions != 2 || !near(r.Total.Hours.CPU.Offered, 6) || r.Total.Unmeasured != 1 {
		t.Errorf("with hours that cannot be: %+v", r.Total)
	}
}

func TestWhatWaitsToBePackedCounts(t *testing.T) {
	f := open(t)
	packed, seenAgain, waits := facts("prod", "a", 10), facts("prod", "a", 10), facts("prod", "b", 10)
	f.pack(t, packed, waits)
	_, l := listOf(t, f.Packs)
	f.Packs = &packs.Packs{Store: storetest.New(), Root: "log"}
	f.pack(t, packed)
	r := computeOf(t, f, "", l)
	must.True(t, near(r.Total.Hours.CPU.Offered, 6) && r.Total.Sessions == 2, "total of what is packed: %+v", r.Total)
	seenAgain.Seen, seenAgain.Hours = packed.Seen.Add(time.Hour), nil
	f.Unpacked = func() map[layout.Session]*packs.Facts {
		return map[layout.Session]*packs.Facts{seenAgain.Ref: &seenAgain, waits.Ref: &waits}
	}
	r = computeOf(t, f, "", l)
	says.True(t, near(r.Total.Hours.CPU.Offered, 12) && r.Total.Sessions == 2, "total with what waits: %+v", r.Total)
}

// TestPackedMeanwhile: facts that are packed while a report is made count once.
func TestPackedMeanwhile(t *testing.T) {
	f := open(t)
	one := facts("prod", "a", 10)
	f.pack(t, one)
	_, l := listOf(t, f.Packs)
	f.Packs = &packs.Packs{Store: storetest.New(), Root: "log"}
	f.Unpacked = func() map[layout.Session]*packs.Facts {
		f.pack(t, one)
		return nil
	}
	r := computeOf(t, f, "", l)
	says.True(t, r.Total.Unpacked == 0 && near(r.Total.Hours.CPU.Offered, 6), "total %+v", r.Total)
}

// TestJoinedMeanwhile: packs that are joined after they were listed are read from the pack that has their facts now.
func TestJoinedMeanwhile(t *testing.T) {
	f := open(t)
	a, b := facts("prod", "a", 10), facts("prod", "b", 10)
	f.pack(t, a, b)
	_, l := listOf(t, f.Packs)
	joiner := *f.Packs
	joined := false
	f.Packs.Store = &storetest.Hooked{Store: f.Packs.Store,
		Before: func(ctx context.Context, op storetest.Op, _ string) error {
			if joined || op != storetest.Get {
				return nil
			}
			joined = true
			_, err := joiner.Join(ctx, layout.PackDay(a.Ref), func(layout.Session) bool { return false })
			return err
		}}
	r := computeOf(t, f, "", l)
	says.True(t, r.Total.Unpacked == 0 && near(r.Total.Hours.CPU.Offered, 12), "total %+v", r.Total)
}

func TestTablesAreCut(t *testing.T) {
	f := open(t)
	var all []packs.Facts
	for n := range 100 {
		one := facts("prod", fmt.Sprintf("c%03d", n), 10)
		one.OwnerName, one.Hours.CPU, one.Hours.GPU = one.Ref.Cluster, float64(n), 0
		all = append(all, one)
	}
	must.OK(t, f.Packs.Append(t.Context(), layout.PackDay(all[0].Ref), nil, all))
	r := compute(t, f, "top=3&by=cpu")
	if len(r.Owners) != 3 || r.Owners[0].Name != "c099" || r.LeftOut["owners"] != 97 || len(r.Sessions) != 3 ||
		r.Sessions[2].Cluster != "c097" || r.LeftOut["sessions"] != 97 {
		t.Errorf("%+v", r)
	}
	says.True(t, r.Total.Sessions == 100 && near(r.Total.Hours.CPU.Offered, 4950), "total %+v", r.Total)
}

func TestCSV(t *testing.T) {
	f := open(t)
	f.pack(t, sample()...)
	r := compute(t, f, "from=2026-11-10&to=2026-11-22")
	for _, table := range Tables {
		var b strings.Builder
		must.OK(t, r.WriteCSV(&b, table))
		rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll() // all lines have as many cells
		says.True(t, err == nil && len(rows) >= 2, "%s: %v\n%s", table, err, b.String())
		says.True(t, table != "jobs" || strings.Contains(b.String(), "lab,'=HYPERLINK(1),1,1,"), "a formula: %s",
			b.String())
	}
	says.True(t, r.WriteCSV(&strings.Builder{}, "x") != nil, "wrote a table that there is not")
}

// TestCSVHoldsNoFormulas: whatever text of a cluster is in a table, a spreadsheet computes nothing; numbers stay
// numbers.
func TestCSVHoldsNoFormulas(t *testing.T) {
	for _, first := range []string{"=", "+", "-", "@", "\t", "\r"} {
		text := first + "1"
		place := Place{Namespace: text, Cluster: text, Session: text}
		r := &Report{
			Causes:   []Cause{{Signature: text, Kind: text, Title: text, Latest: place}},
			Sessions: []Session{{Place: place, Owner: text, Seconds: -1.5, Outcome: text}},
		}
		for table, texts := range map[string]int{"causes": 6, "sessions": 5} {
			var b strings.Builder
			must.OK(t, r.WriteCSV(&b, table))
			rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
			must.True(t, err == nil && len(rows) == 2, "%s: %v\n%s", table, err, b.String())
			guarded := 0
			for _, cell := range rows[1] {
				switch {
				case cell == "'"+human.Printable(text):
					guarded++
				case strings.HasPrefix(cell, first) && cell != "-1.5":
					t.Errorf("%s: a formula: %q", table, cell)
				}
			}
			says.Equal(t, guarded, texts, "%s: %d texts of %d are guarded: %q", table, guarded, texts, rows[1])
			says.True(t, table != "sessions" || slices.Contains(rows[1], "-1.5"), "a number is no number: %q", rows[1])
		}
	}
}

func TestParseQuery(t *testing.T) {
	q := ask(t, "")
	says.True(t, q.To.Equal(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)) && q.To.Sub(q.From) == defaultSpan &&
		q.Top == DefaultTop, "%+v", q)
	for _, query := range []string{"by=x", "top=0", "top=x", "top=1000000", "from=x", "from=2026-11-20&to=2026-11-19",
		"longer=x"} {
		v := must.Get(url.ParseQuery(query))(t)
		says.True(t, says.Err(ParseQuery(v, now)) != nil, "%s is taken", query)
	}
}

// TestOutcomesAreCounted: each outcome has a count of its own.
func TestOutcomesAreCounted(t *testing.T) {
	for _, outcome := range append(slices.Clip(catalog.FilterOutcomes), catalog.Running) {
		var c Counts
		c.add(outcome == catalog.Running, outcome)
		counted := 0
		for name, n := range c.Each() {
			if counted += n; n > 0 && name != strings.ReplaceAll(outcome, "-", " ") {
				t.Errorf("%s is counted as %s", outcome, name)
			}
		}
		says.Equal(t, counted, 1, "%s is counted %d times: add it to Counts and byOutcome", outcome, counted)
	}
}
