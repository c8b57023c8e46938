package bars_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/dashboard/bars"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/index"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// generated is a generated session, loaded from its events or, written first, from its index.
func generated(t testing.TB, tasks int, indexed bool) *moment.Moment {
	t.Helper()
	dir := t.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: tasks, Hours: 1, Ended: true}))(t)
	store := must.Get(local.Open(dir))(t)
	o := session.Options{Log: silent.Logger()}
	s := must.Get(session.Load(t.Context(), store, layout.DefaultRoot, stats.Session, o))(t)
	if indexed {
		opener := &index.Opener{Store: store, Root: layout.DefaultRoot, Log: silent.Logger()}
		w := index.Writer{Opener: opener, Put: store.Put}
		must.OK(t, w.Write(t.Context(), s, nil))
		o.Index = opener
		if s = must.Get(session.Load(t.Context(), store, layout.DefaultRoot, stats.Session, o))(t); s.Tasks.InMemory() {
			t.Fatal("the session was not loaded from its index")
		}
	}
	return &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: s}
}

// TestDraw: each attempt is drawn once, as a bar or in the cells of its worker and its node, and an index gives the
// same drawing as events; a range leaves out what did not run in it.
func TestDraw(t *testing.T) {
	m, indexed := generated(t, 3000, false), generated(t, 3000, true)
	ran := 0
	var busy float64
	must.OK(t, tasktable.Each(m.Session.Tasks, tasktable.Query{ExcludeDriver: true}, func(_ int, r tasktable.PlacedRow) {
		if start, end, ok := r.Span(); ok {
			ran++
			busy += float64(end - start)
		}
	}))
	for _, q := range []bars.Question{{}, {Pixels: 50}, {Pixels: 1e6, Colour: bars.ByOutcome},
		{From: sessiongen.Start.Add(10 * time.Minute).UnixNano(),
			To: sessiongen.Start.Add(11 * time.Minute).UnixNano()}} {
		d := must.Get(bars.Draw(t.Context(), m, q))(t)
		again := must.Get(bars.Draw(t.Context(), indexed, q))(t)
		says.True(t, reflect.DeepEqual(d, again),
			"%+v: the index gives another drawing: %d and %d lanes, %d and %d tasks", q, len(d.Lanes), len(again.Lanes),
			d.Tasks, again.Tasks)
		must.True(t, len(d.Nodes) >= 8 && d.Tasks != 0 && len(d.Groups) != 0 && !d.Folded,
			"%+v: %d nodes, %d tasks, %v", q, len(d.Nodes), d.Tasks, d.Groups)
		checkLongest(t, m, d)
		inNodes, inLanes, inGroups, nowhere := 0, 0, 0, 0
		var ofNodes float64
		for _, n := range d.Nodes {
			for _, c := range n.Cells {
				inNodes += c.Tasks
				if n.ID == "" {
					nowhere += c.Tasks
				}
				ofNodes += c.Busy * float64(c.W) * (d.To - d.From) / float64(d.Pixels) * 1e6
			}
		}
		for _, l := range d.Lanes {
			inLanes += len(l.Bars)
			for _, c := range l.Cells {
				inLanes += c.Tasks
			}
		}
		for _, g := range d.Groups {
			inGroups += g.Tasks
		}
		says.True(t, q.From != 0 || d.Unplaced == nowhere, "%+v: the node of %d attempts is not known, want %d", q,
			d.Unplaced, nowhere)
		says.Equal(t, inGroups, d.Tasks, "%+v: groups", q)
		says.True(t, q.From != 0 || d.Tasks == ran && inNodes == ran && inLanes == ran,
			"%+v: %d tasks, %d on nodes, %d in lanes; want %d", q, d.Tasks, inNodes, inLanes, ran)
		says.True(t, q.From != 0 || q.Pixels == 50 || math.Abs(ofNodes-busy) <= 0.1*busy, "%+v: %v of %v ns are drawn",
			q, ofNodes, busy)
		says.True(t, q.From == 0 || d.Tasks != 0 && d.Tasks <= ran/10, "%+v: %d tasks of %d", q, d.Tasks, ran)
	}
	whole := must.Get(bars.Draw(t.Context(), m, bars.Question{}))(t)
	one := must.Get(bars.Draw(t.Context(), m, bars.Question{Node: whole.Nodes[1].ID}))(t)
	says.True(t, len(one.Nodes) == 1 && one.Nodes[0].ID == whole.Nodes[1].ID && one.Tasks != 0 &&
		one.Tasks < whole.Tasks, "of one node: %d nodes, %d tasks of %d", len(one.Nodes), one.Tasks, whole.Tasks)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits")
	cancel(gone)
	says.ErrorIs(t, says.Err(bars.Draw(ctx, m, bars.Question{})), gone, "nobody waits")
}

// TestRestartedActor: an actor that was restarted has a bar in each worker that it lived in, for as long as it did.
func TestRestartedActor(t *testing.T) {
	m := generated(t, 300, false)
	whole := must.Get(bars.Draw(t.Context(), m, bars.Question{}))(t)
	at := func(minute int) int64 { return sessiongen.Start.Add(time.Duration(minute) * time.Minute).UnixNano() }
	in := func(lane int) rayid.Worker { return must.Get(rayid.Parse[rayid.Worker](whole.Lanes[lane].Worker))(t) }
	actor := &m.Session.Actors[0]
	actor.Transitions = []entities.ActorTransition{
		{State: moment.Alive, Time: at(1), Worker: in(0)}, {State: moment.Restarting, Time: at(10)},
		{State: moment.Alive, Time: at(11), Worker: in(1)}, {State: moment.Dead, Time: at(20)},
	}
	got := map[string][2]float64{}
	for _, lane := range must.Get(bars.Draw(t.Context(), m, bars.Question{}))(t).Lanes {
		for _, bar := range lane.Actors {
			if bar.ID == actor.ID.String() {
				got[lane.Worker] = [2]float64{bar.Start, bar.End}
			}
		}
	}
	ms := func(minute int) float64 { return float64(at(minute) / int64(time.Millisecond)) }
	want := map[string][2]float64{whole.Lanes[0].Worker: {ms(1), ms(10)}, whole.Lanes[1].Worker: {ms(11), ms(20)}}
	says.True(t, maps.Equal(got, want), "bars by worker: %v, want %v", got, want)
}

// checkLongest: the attempts that are listed are the longest of those that ran in the range.
func checkLongest(t *testing.T, m *moment.Moment, d *bars.Drawing) {
	t.Helper()
	var all []float64
	took := func(start, end float64) float64 { return math.Round((end - start) * 1000) }
	must.OK(t, tasktable.Each(m.Session.Tasks, tasktable.Query{ExcludeDriver: true}, func(_ int, r tasktable.PlacedRow) {
		start, end, ok := r.Span()
		if s, e := float64(start/1000)/1000, float64(end/1000)/1000; ok && end != 0 && e >= d.From && s <= d.To {
			all = append(all, took(s, e))
		}
	}))
	slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(b, a) })
	must.True(t, len(d.Longest) == 10, "%d attempts are listed", len(d.Longest))
	for i, l := range d.Longest {
		says.True(t, took(l.Start, l.End) == all[i] && l.ID != "" && l.Name != "" && l.Worker != "" &&
			d.Nodes[l.Node].ID != "", "number %d: %+v, want %v µs", i, l, all[i])
	}
}

// BenchmarkDraw draws a session of a million tasks from its index: all of it, and a minute.
func BenchmarkDraw(b *testing.B) {
	m := generated(b, 1_000_000, true)
	for name, q := range map[string]bars.Question{"all": {}, "minute": {
		From: sessiongen.Start.Add(10 * time.Minute).UnixNano(),
		To:   sessiongen.Start.Add(11 * time.Minute).UnixNano()}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := bars.Draw(b.Context(), m, q)
				if err != nil || d.Tasks == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}
