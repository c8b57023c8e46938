package findings

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// TestInGroup: a task that waits in a placement group which itself waits becomes part of the group's finding. The names
// of the task's resources contain the group's ID.
func TestInGroup(t *testing.T) {
	const id = "5cef340ec3122844cba853e18f1406000000"
	f := &finding{}
	of := func(id string, f *finding) *group {
		g := &group{finding: f}
		g.ID = id
		return g
	}
	d := demands{b: &builder{groups: []*group{of(strings.Repeat("a", 36), &finding{}), of(id, f),
		of(strings.Repeat("b", 36), nil)}}}
	d.inGroup("1 CPU_group_0_"+id+", 0.001 bundle_group_"+id, Entity{Type: "task", ID: "17", Name: "train"})
	if len(f.Entities) != 1 || f.Entities[0].ID != "17" || len(f.Evidence) != 1 ||
		!strings.Contains(f.Evidence[0].Text, "train") || len(d.b.groups[0].finding.Entities) > 0 {
		t.Errorf("%+v", f.Finding)
	}
}

// TestGroupOfTrainRun: a group without a name is called by its job, and by the job's Train run if it has one.
func TestGroupOfTrainRun(t *testing.T) {
	log := &logText{text: "nothing"}
	b := &builder{session: &session.Session{Logs: sessionlogs.New(storetest.New())}, logs: map[moment.LogFile]*logText{{}: log},
		byKey: map[string]*finding{}, demandMatches: map[*regexp.Regexp][]match{}, trainRuns: map[rayid.Job]string{},
		jobs: []job{{id: rayid.Job{1}, Job: moment.Job{SubmissionID: "fit"}}}}
	g := &group{Group: moment.Group{Job: rayid.Job{1}, Strategy: "PACK",
		Bundles: []entities.Bundle{{Resources: map[string]float64{"GPU": 1}}}}}
	g.ID = strings.Repeat("2a73", 9)
	d := demands{b: b, lacked: map[string]string{"1 GPU": "no node has any GPU"}}
	for run, want := range map[string]string{"": "2a732a73… of job fit was", "llama": "2a732a73… of Train run llama in job fit was"} {
		b.trainRuns[rayid.Job{1}], g.finding = run, nil
		clear(b.byKey)
		d.addGroup(g)
		g.finding.job = rayid.Job{1}
		if title := b.plainTitle(g.finding); !strings.HasPrefix(title, "Placement group "+want+" never placed") {
			t.Errorf("run %q: %s", run, title)
		}
	}
}

// TestDemandLines: the autoscaler's log is searched once, however many groups wait. A group's evidence is the last line
// about its strategy and resources.
func TestDemandLines(t *testing.T) {
	file := moment.LogFile{Node: rayid.Node{1}, Path: "monitor.log"}
	key := layout.LogKey("log", layout.Session{}, file.Node, file.Path)
	logs := sessionlogs.New(storetest.New())
	logs.Add(layout.Object{Kind: layout.Log, Node: file.Node, Path: file.Path}, blob.Object{Key: key, Size: 1})
	log := &logText{file: file, text: " {'CPU': 1.0} * 8 (PACK): 1+ pending placement groups\n" +
		" {'CPU': 2.0} * 8 (PACK): 1+ pending placement groups\n" +
		" {'GPU': 1.0} * 8 (PACK): 1+ pending placement groups\n"}
	b := &builder{session: &session.Session{Logs: logs}, logs: map[moment.LogFile]*logText{file: log}, end: math.MaxInt64,
		byKey: map[string]*finding{}, demandMatches: map[*regexp.Regexp][]match{}}
	d := demands{b: b, lacked: map[string]string{"1 CPU": "no node has any CPU"}}
	g := &group{Group: moment.Group{Name: "one", Strategy: "PACK",
		Bundles: []entities.Bundle{{Resources: map[string]float64{"CPU": 1}}}}}
	d.addGroup(g)
	found := b.demandLines(demanded())
	d.addGroup(g)
	if again := b.demandLines(demanded()); len(found) != 3 || &again[0] != &found[0] {
		t.Errorf("%d lines, searched again", len(found))
	}
	if shown := g.finding.Evidence; len(shown) != 1 || !strings.Contains(shown[0].Text, "'CPU': 2.0") {
		t.Errorf("%+v", shown)
	}
}

// TestFit: with a strict strategy, the strategy also decides whether a group could be placed.
func TestFit(t *testing.T) {
	one := entities.Bundle{Resources: map[string]float64{"CPU": 1}}
	zoned := entities.Bundle{Resources: one.Resources, LabelSelector: map[string]string{"zone": "b"}}
	of := func(strategy string, bundles ...entities.Bundle) *group {
		return &group{Group: moment.Group{Strategy: strategy, Bundles: bundles}}
	}
	d := demands{b: &builder{}, lacked: map[string]string{"3 CPU": "the most that one node has is 2 CPU", "1 CPU": "",
		"1 CPU on a node with the labels zone=b": "no node has such labels"}}
	for strategy, want := range map[string]bool{"PACK": true, "SPREAD": true, "STRICT_PACK": false,
		"STRICT_SPREAD": false} {
		if d.fits(of(strategy, one, one, one)) != want {
			t.Errorf("%s: %t", strategy, !want)
		}
	}
	if d.fits(of("", one, zoned)) {
		t.Error("a group fits though no node has the labels of its second bundle")
	}
	if d.fits(of("")) {
		t.Error("a group of which nothing is known fits")
	}
}

// TestUnlikeBundles: of a group's unlike bundles the largest of those is told that fit on no node.
func TestUnlikeBundles(t *testing.T) {
	of := func(r string, n float64) entities.Bundle { return entities.Bundle{Resources: map[string]float64{r: n}} }
	for want, bundles := range map[string][]entities.Bundle{
		"2 bundles of 4 CPU, PACK, and the most is 2 CPU": {of("CPU", 4), of("CPU", 4)},
		"5 bundles, the largest of 4 CPU, PACK, and the most is 2 CPU": {of("CPU", 1), of("CPU", 3), of("CPU", 4),
			of("CPU", 3), of("GPU", 9)},
	} {
		logs := sessionlogs.New(storetest.New())
		b := &builder{session: &session.Session{Logs: logs}, end: math.MaxInt64, byKey: map[string]*finding{},
			demandMatches: map[*regexp.Regexp][]match{}}
		d := demands{b: b, lacked: map[string]string{"1 CPU": "", "9 GPU": "", "3 CPU": "the most is 2 CPU",
			"4 CPU": "the most is 2 CPU"}}
		g := &group{Group: moment.Group{Name: "one", Strategy: "PACK", Bundles: bundles}}
		first := bundles[0]
		if d.addGroup(g); g.finding.Title != "Placement group one was never placed: it asks for "+want {
			t.Errorf("%q, want %q", g.finding.Title, want)
		}
		says.Equal(t, bundles[0].Resources["CPU"], first.Resources["CPU"],
			"the session's own bundles have another order")
	}
}

// TestHolders: who held the resources that something waited for are those that had them when it began to wait.
func TestHolders(t *testing.T) {
	cpus := func(n float64) map[string]float64 { return map[string]float64{"CPU": n} }
	h := holdings{total: cpus(4), all: []holding{{5, 20, "early", cpus(3)}, {7, 9, "late", cpus(1)},
		{12, 15, "last", cpus(1)}}}
	h.sum()
	for since, want := range map[int64]string{4: "", 6: "", 7: "early, late held 4 of 4 CPU",
		8: "early, late held 4 of 4 CPU", 9: "", 12: "early, last held 4 of 4 CPU"} {
		says.Equal(t, h.holders(cpus(1), since), want, "at %d", since)
	}
	replica := func(id string) holding {
		return holding{5, 20, "ServeReplica:search:Embed (SERVE_REPLICA::search#Embed#" + id + ")", cpus(1)}
	}
	h = holdings{total: cpus(2), all: []holding{replica("a1b2c3d4"), replica("e5f6a7b8")}}
	h.sum()
	says.Equal(t, h.holders(cpus(1), 6), "deployment Embed of application search held 2 of 2 CPU", "two replicas")
}

// TestHoldersAtTheEnd: of actors that are made together those hold the resources that began to live after another one
// had begun to wait for them, until shortly before its job ends, or the session.
func TestHoldersAtTheEnd(t *testing.T) {
	const second, ended = int64(1e9), int64(60e9)
	cpus := map[string]float64{"CPU": 1}
	for from, want := range map[int64]string{1: "a held 1 of 1 CPU", 9: "a held 1 of 1 CPU", 59: ""} {
		h := holdings{total: cpus, all: []holding{{from * second, ended - second/10, "a", cpus}}}
		h.sum()
		b := &builder{session: &session.Session{End: 100 * second}, end: math.MaxInt64,
			jobs: []job{{id: rayid.Job{1}, Job: moment.Job{SubmissionID: "nightly", End: ended}}}}
		d := demands{b: b, holdings: h}
		until := b.waitedUntil(rayid.Job{1}, 2*second)
		if got, _ := d.heldOrLost(cpus, 2*second, until); got != want {
			t.Errorf("from %d: %q, want %q", from, got, want)
		}
	}
	for name, c := range map[string]struct {
		jobs        []moment.Job
		since, want int64 // in seconds
	}{
		"a job that did not end":            {[]moment.Job{{SubmissionID: "nightly"}}, 2, 98},
		"a job that began at the end":       {[]moment.Job{{SubmissionID: "nightly"}}, 99, 99},
		"a driver by hand that did not end": {[]moment.Job{{}}, 2, 98},
		"a driver by hand that ended":       {[]moment.Job{{End: ended}}, 2, 2}, // nobody knows how
		"a job of which nothing is known":   {nil, 2, 2},
	} {
		b := &builder{session: &session.Session{End: 100 * second}, end: math.MaxInt64}
		for _, j := range c.jobs {
			b.jobs = append(b.jobs, job{id: rayid.Job{1}, Job: j})
		}
		says.Equal(t, b.waitedUntil(rayid.Job{1}, c.since*second), c.want*second, "%s: until", name)
	}
}

// TestGoOn: what goes on behind a title follows its words, not its full stop.
func TestGoOn(t *testing.T) {
	f := finding{Finding: Finding{Title: "Input X contains NaN."}}
	if f.appendTitle("; before that read failed"); f.Title != "Input X contains NaN; before that read failed" {
		t.Error(f.Title)
	}
}
