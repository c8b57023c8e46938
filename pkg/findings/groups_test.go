package findings

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/findings/output"
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
	in := map[string]float64{"CPU_group_0_" + id: 1, "bundle_group_" + id: 0.001}
	if found := d.addWaiting("train", rayid.Job{}, in, nil, 1, 1, Entity{Type: "task", ID: "17", Name: "train"}); found != nil {
		t.Errorf("a finding of its own: %s", found.Title)
	}
	says.True(t, len(f.Entities) == 1 && f.Entities[0].ID == "17" && len(f.Evidence) == 1 &&
		strings.Contains(f.Evidence[0].Text, "train") && len(d.b.groups[0].finding.Entities) == 0, "%+v", f.Finding)
}

// TestHeldInGroup: what waits in a placement group that has its place waited for who holds the group's resources.
func TestHeldInGroup(t *testing.T) {
	const id, other = "5cef340ec3122844cba853e18f1406000000", "6cef340ec3122844cba853e18f1406000000"
	in := func(gpu bool, group string) map[string]float64 {
		r := map[string]float64{"CPU_group_" + group: 1, "CPU_group_0_" + group: 1, "bundle_group_" + group: 0.001}
		if gpu {
			r["GPU_group_"+group] = 1
		}
		return r
	}
	of := func(id, name string) *group {
		g := &group{Group: moment.Group{Name: name, Placed: true, Job: rayid.Job{1}, Bundles: []entities.Bundle{
			{Resources: map[string]float64{"CPU": 1}}, {Resources: map[string]float64{"CPU": 2, "GPU": 1}}}}}
		g.ID = id
		return g
	}
	for name, c := range map[string]struct {
		asked map[string]float64
		held  []holding
		want  string
	}{
		"its own actor": {in(false, id), []holding{{1, 99, "Loader", in(false, id)}},
			"load waited for 1 CPU in placement group prep: Loader held 1 of 1 CPU"},
		"another bundle": {map[string]float64{"CPU_group_1_" + id: 2, "CPU_group_" + id: 2, "bundle_group_" + id: 0.001},
			[]holding{{1, 99, "Loader", in(false, id)}}, ""},
		"any bundle": {map[string]float64{"CPU_group_" + id: 1, "bundle_group_" + id: 0.001},
			[]holding{{1, 99, "Loader", map[string]float64{"CPU_group_" + id: 3}}, {1, 99, "Watcher", map[string]float64{"bundle_group_" + id: 0.001}}},
			"load waited for 1 CPU in placement group prep: Loader held 3 of 3 CPU"},
		"a GPU": {in(true, id), []holding{{1, 99, "Encoder", map[string]float64{"GPU_group_" + id: 1}}},
			"load waited for 1 CPU, 1 GPU in placement group prep: Encoder held 1 of 1 GPU"},
		"another group":    {in(false, id), []holding{{1, 99, "Loader", in(false, other)}}, ""},
		"an unknown group": {in(false, strings.Repeat("d", 36)), []holding{{1, 99, "Loader", in(false, id)}}, ""},
		"a group without a name": {in(false, other), []holding{{1, 99, "Loader", in(false, other)}},
			"load waited for 1 CPU in placement group 6cef340e… of job fit: Loader held 1 of 1 CPU"},
	} {
		b := &builder{session: &session.Session{End: 200}, end: math.MaxInt64, byKey: map[string]*finding{},
			jobs:   []job{{id: rayid.Job{1}, Job: moment.Job{SubmissionID: "fit", Status: "FAILED", End: 100}}},
			groups: []*group{of(id, "prep"), of(other, "")}}
		h := holdings{total: map[string]float64{"CPU": 8}, all: c.held}
		for _, g := range b.groups {
			h.addBundles(g)
		}
		h.sumAmounts()
		d := demands{b: b, holdings: h, noNodeHas: map[string]string{}}
		got := ""
		if f := d.addWaiting("load", rayid.Job{1}, c.asked, nil, 5, 5, Entity{Type: "task", ID: "17", Name: "load"}); f != nil {
			got = f.Title
		}
		says.Equal(t, got, c.want, "%s", name)
	}
}

// TestHeldByItself: an actor that began to run shortly before its driver ended did not wait for what it held itself.
func TestHeldByItself(t *testing.T) {
	const second = int64(time.Second)
	actor := func(id byte, began int64) entities.Actor {
		return entities.Actor{ID: rayid.Actor{id}, Class: "Trial", Job: rayid.Job{1}, Resources: map[string]float64{"CPU": 1},
			Transitions: []entities.ActorTransition{{State: "PENDING_CREATION", Time: second}, {State: "ALIVE", Time: began}}}
	}
	for name, c := range map[string]struct {
		actors []entities.Actor
		want   int
	}{
		"itself": {[]entities.Actor{actor(1, 90*second)}, 0}, "another": {[]entities.Actor{actor(1, 99*second), actor(2, 50*second)}, 1},
	} {
		b := &builder{session: &session.Session{End: 200 * second}, end: math.MaxInt64, byKey: map[string]*finding{},
			moment: &moment.Moment{}, jobs: []job{{id: rayid.Job{1}, Job: moment.Job{SubmissionID: "fit", Status: "FAILED", End: 100 * second}}}}
		h := holdings{total: map[string]float64{"CPU": 1}}
		for i := range c.actors {
			h.addActor(&c.actors[i])
		}
		h.sumAmounts()
		d := demands{b: b, holdings: h, noNodeHas: map[string]string{}}
		d.addActor(&c.actors[0], second)
		says.Equal(t, len(b.findings), c.want, "%s", name)
	}
}

// TestNodesHave: a group that was never placed though each bundle fits on a node tells how much the nodes have.
func TestNodesHave(t *testing.T) {
	of := func(resources ...map[string]float64) (nodes []entities.Node) {
		for _, r := range resources {
			nodes = append(nodes, entities.Node{Transitions: []entities.NodeTransition{{State: "ALIVE", Resources: r}}})
		}
		return nodes
	}
	small, large := map[string]float64{"CPU": 2, "memory": 1 << 30}, map[string]float64{"CPU": 8, "GPU": 1, "memory": 1 << 30}
	for want, nodes := range map[string][]entities.Node{
		"0 nodes": nil, "2 nodes with 2 CPU each, 0 GPU each, 1.00 GiB memory each": of(small, small),
		"2 nodes with 2 to 8 CPU, 0 to 1 GPU, 1.00 GiB memory each": of(large, small),
	} {
		b := &builder{session: &session.Session{}, moment: &moment.Moment{}}
		b.session.Nodes = nodes
		says.Equal(t, nodesHave(b.livingNodes(0), map[string]float64{"CPU": 2, "GPU": 1, "memory": 5}), want, "nodes")
	}
}

// TestGroupLacksNode: a group that wants a node for each bundle lacks one that was lost since its job began; it is told
// how many nodes there were when it was given up.
func TestGroupLacksNode(t *testing.T) {
	node := func(transitions ...entities.NodeTransition) entities.Node {
		return entities.Node{Transitions: append([]entities.NodeTransition{{Time: 5, State: "ALIVE",
			Resources: map[string]float64{"CPU": 2}}}, transitions...)}
	}
	b := &builder{session: &session.Session{}, moment: &moment.Moment{}, jobs: []job{{id: rayid.Job{1}}}}
	b.session.Nodes = []entities.Node{node(), node(entities.NodeTransition{Time: 40, State: moment.Dead})}
	b.jobs[0].Start = 20
	d, lost := &demands{b: b}, &finding{first: 40}
	lost.Kind = NodeDied
	of := func(bundles int, ended int64) *group {
		return &group{Group: moment.Group{Job: rayid.Job{1}, Strategy: "STRICT_SPREAD", Bundles: make([]entities.Bundle,
			bundles)}, ended: ended}
	}
	says.True(t, d.lacksNode(of(2, 0), lost), "two nodes, one was lost")
	says.True(t, !d.lacksNode(of(3, 0), lost), "there never were three")
	says.True(t, !d.lacksNode(of(2, 30), lost), "given up before the loss")
	b.jobs[0].Start = 50
	says.True(t, !d.lacksNode(of(2, 0), lost), "lost before the job began")
	says.Equal(t, nodesHave(b.livingNodes(30), map[string]float64{"CPU": 1}), "2 nodes with 2 CPU each")
	b.jobs[0].Start, b.session.Nodes[1].Transitions[0].Time, d.living = 1, 35, nil
	says.True(t, !d.lacksNode(of(2, 30), lost), "given up before the node that was lost came")
}

// TestGroupOfTrainRun: a group without a name is called by its job, and by the job's Train run if it has one.
func TestGroupOfTrainRun(t *testing.T) {
	log := &logText{text: "nothing"}
	b := &builder{session: &session.Session{},
		logs:  logReader{stored: sessionlogs.New(storetest.New()), texts: map[moment.LogFile]*logText{{}: log}},
		byKey: map[string]*finding{}, trainRuns: map[rayid.Job]string{},
		jobs: []job{{id: rayid.Job{1}, Job: moment.Job{SubmissionID: "fit"}}}}
	g := &group{Group: moment.Group{Job: rayid.Job{1}, Strategy: "PACK",
		Bundles: []entities.Bundle{{Resources: map[string]float64{"GPU": 1}}}}}
	g.ID = strings.Repeat("2a73", 9)
	d := demands{b: b, noNodeHas: map[string]string{"1 GPU": "no node has any GPU"}}
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
	b := &builder{session: &session.Session{}, end: math.MaxInt64,
		logs:  logReader{stored: logs, texts: map[moment.LogFile]*logText{file: log}, end: math.MaxInt64},
		byKey: map[string]*finding{}}
	d := demands{b: b, noNodeHas: map[string]string{"1 CPU": "no node has any CPU"}}
	g := &group{Group: moment.Group{Name: "one", Strategy: "PACK",
		Bundles: []entities.Bundle{{Resources: map[string]float64{"CPU": 1}}}}}
	d.addGroup(g)
	found := b.logs.inHeads(autoscalerLog, groupDemandLine())
	d.addGroup(g)
	if again := b.logs.inHeads(autoscalerLog, groupDemandLine()); len(found) != 3 || &again[0] != &found[0] {
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
	d := demands{b: &builder{session: &session.Session{}, moment: &moment.Moment{}},
		noNodeHas: map[string]string{"3 CPU": "the most that one node has is 2 CPU", "1 CPU": "",
			"1 CPU on a node with the labels zone=b": "no node has such labels"}}
	for strategy, want := range map[string]bool{"PACK": true, "SPREAD": true, "STRICT_PACK": false,
		"STRICT_SPREAD": false} {
		says.Equal(t, d.fitsIfFree(of(strategy, one, one, one)), want, "%s: %t", strategy, !want)
	}
	says.True(t, !d.fitsIfFree(of("", one, zoned)), "a group fits though no node has the labels of its second bundle")
	says.True(t, !d.fitsIfFree(of("")), "a group of which nothing is known fits")
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
		b := &builder{session: &session.Session{}, end: math.MaxInt64, byKey: map[string]*finding{},
			logs: newLogReader(t.Context(), logs, math.MaxInt64, maxLogBytes)}
		d := demands{b: b, noNodeHas: map[string]string{"1 CPU": "", "9 GPU": "", "3 CPU": "the most is 2 CPU",
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

// TestLostBundle: a group that lost a bundle with its node, and found no place for it, has the loss as its cause; one
// that was never placed has not.
func TestLostBundle(t *testing.T) {
	for state, how := range map[string]string{"RESCHEDULING": "could not be placed again", "PENDING": "was never placed"} {
		lost := &finding{Finding: Finding{Kind: NodeDied}, first: 125 * int64(time.Second)}
		earlier := &finding{Finding: Finding{Kind: NodeDied}, first: 3}
		logs := sessionlogs.New(storetest.New())
		b := &builder{session: &session.Session{}, end: math.MaxInt64, byKey: map[string]*finding{},
			logs: newLogReader(t.Context(), logs, math.MaxInt64, maxLogBytes), findings: []*finding{earlier, lost}}
		bundles := []entities.Bundle{{Resources: map[string]float64{"CPU": 4}}}
		g := &group{Group: moment.Group{Name: "gang", State: state, Strategy: "PACK", Bundles: bundles, Requested: 5 * int64(time.Second)}}
		g.addState()
		d := demands{b: b, noNodeHas: map[string]string{"4 CPU": "the most is 2 CPU"}}
		d.addGroup(g)
		says.True(t, strings.HasPrefix(g.finding.Title, "Placement group gang "+how+": it asks for "), "%s", g.finding.Title)
		says.Equal(t, len(g.finding.because) == 1 && g.finding.because[0] == lost && !g.finding.endedBefore(lost),
			state == "RESCHEDULING", "%s: %+v", state, g.finding.because)
	}
}

// TestHolders: who held the resources that something waited for are those that had them when it began to wait.
func TestHolders(t *testing.T) {
	cpus := func(n float64) map[string]float64 { return map[string]float64{"CPU": n} }
	h := holdings{total: cpus(4), all: []holding{{5, 20, "early", cpus(3)}, {7, 9, "late", cpus(1)},
		{12, 15, "last", cpus(1)}}}
	h.sumAmounts()
	for since, want := range map[int64]string{4: "", 6: "", 7: "early, late held 4 of 4 CPU",
		8: "early, late held 4 of 4 CPU", 9: "", 12: "early, last held 4 of 4 CPU"} {
		says.Equal(t, h.holders(cpus(1), since), want, "at %d", since)
	}
	replica := func(id string) holding {
		return holding{5, 20, "ServeReplica:search:Embed (SERVE_REPLICA::search#Embed#" + id + ")", cpus(1)}
	}
	h = holdings{total: cpus(2), all: []holding{replica("a1b2c3d4"), replica("e5f6a7b8")}}
	h.sumAmounts()
	says.Equal(t, h.holders(cpus(1), 6), "deployment Embed of application search held 2 of 2 CPU", "two replicas")
}

// TestHoldersAtTheEnd: of actors that are made together those hold the resources that began to live after another one
// had begun to wait for them, until shortly before its job ends, or the session.
func TestHoldersAtTheEnd(t *testing.T) {
	const second, ended = int64(1e9), int64(60e9)
	cpus := map[string]float64{"CPU": 1}
	for from, want := range map[int64]string{1: "a held 1 of 1 CPU", 9: "a held 1 of 1 CPU", 59: ""} {
		h := holdings{total: cpus, all: []holding{{from * second, ended - second/10, "a", cpus}}}
		h.sumAmounts()
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

// TestLostState: a restarted actor has lost what its own later call lacks, or a check or a count of the driver.
func TestLostState(t *testing.T) {
	died := &finding{recovered: 1, names: []string{"Sessions (session-table)"}}
	died.Kind = ActorDied
	of := func(name, raised, message string, ended *job) *finding {
		return &finding{names: []string{name}, raised: output.Exception{Type: raised, Message: message}, ended: ended}
	}
	says.True(t, died.lostState(of("Sessions.age", "KeyError", "'sess-41'", nil)), "its own call")
	says.True(t, !died.lostState(of("Prices.age", "KeyError", "'sess-41'", nil)), "another actor's call")
	says.True(t, died.lostState(of("", "AssertionError", "no rows", &job{})), "a check of the driver")
	says.True(t, !died.lostState(of("", "ValueError", "no rows", &job{})), "another exception of the driver")
	says.True(t, !died.lostState(of("Sessions.age", "OverflowError", "age is too large", nil)), "it lacks nothing")
	called := of("Sessions.age", "KeyError", "'sess-41'", nil)
	for id, lost := range map[string]bool{"0a": true, "0b": false} {
		died.Entities, called.Entities = []Entity{{Type: "actor", ID: "0a"}}, []Entity{{Type: "task", ID: "77" + id}}
		says.Equal(t, died.lostState(called), lost, "a call of the actor %s of a pool", id)
	}
	died.Entities = slices.Repeat(died.Entities, maxEntities)
	says.True(t, died.lostState(called), "a pool of more actors than the finding names")
	died.recovered = 0
	says.True(t, !died.lostState(of("Sessions.age", "KeyError", "'sess-41'", nil)), "not restarted")
}
