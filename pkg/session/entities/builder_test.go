package entities

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestManyTransitions: what it takes to merge an entity's transitions grows with their number, not with its square,
// whether they come in one event or in many, in order or not, once or again.
func TestManyTransitions(t *testing.T) {
	const n = 10_000
	id := rayid.Actor{1}
	var forward, backward []ActorTransition
	for i := range n {
		forward = append(forward, ActorTransition{State: "ALIVE", Time: int64(1 + i)})
	}
	backward = slices.Clone(forward)
	slices.Reverse(backward)
	for name, events := range map[string][][]ActorTransition{
		"one event":            {forward},
		"one event, backwards": {backward},
		"many events":          slices.Collect(slices.Chunk(forward, 1)),
		"many, backwards":      slices.Collect(slices.Chunk(backward, 1)),
		"again":                {forward, backward, forward},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder()
			var set Set
			used := storetest.Allocated(func() {
				for _, transitions := range events {
					b.MergeEntity(&Update{Kind: KindActor, Actor: Actor{ID: id, Transitions: transitions}})
				}
				set, _ = b.Set()
			})
			if got := set.Actor(id).Transitions; !slices.EqualFunc(got, forward,
				func(a, b ActorTransition) bool { return a.Time == b.Time }) {
				t.Errorf("%d transitions, want %d in order", len(got), n)
			}
			says.True(t, used <= 64<<20, "%d bytes were allocated", used)
			held, want := b.MemoryBytes(), set.MemoryBytes()
			says.True(t, held == want, "%d bytes are counted for rows of %d", held, want)
		})
	}
}

// TestEndBeforeBegin: where the head's clock was ahead at first, so that an end has an earlier time than the begin,
// what ended stays ended, in whatever order its events come. Only an actor that was made again lives again, and an ID
// may be submitted again.
func TestEndBeforeBegin(t *testing.T) {
	const before, after, later = 930, 1000, 1010
	made := ActorTransition{State: "RESTARTING", Time: after, RestartReason: "LINEAGE_RECONSTRUCTION"}
	updates := []Update{
		{Kind: KindActor, Actor: Actor{ID: rayid.Actor{1}, Transitions: []ActorTransition{{State: "DEAD", Time: before}}}},
		{Kind: KindActor, Actor: Actor{ID: rayid.Actor{1}, Transitions: []ActorTransition{{State: "ALIVE", Time: after}}}},
		{Kind: KindActor, Actor: Actor{ID: rayid.Actor{2}, Transitions: []ActorTransition{{State: "DEAD", Time: before}}}},
		{Kind: KindActor, Actor: Actor{ID: rayid.Actor{2}, Transitions: []ActorTransition{made,
			{State: "ALIVE", Time: later}}}},
		{Kind: KindNode, Node: Node{Transitions: []NodeTransition{{State: "DEAD", Time: before}}}},
		{Kind: KindNode, Node: Node{Transitions: []NodeTransition{{State: "ALIVE", Time: after}}}},
		{Kind: KindJob, Job: Job{Transitions: []JobTransition{{"FINISHED", before}}}},
		{Kind: KindJob, Job: Job{Transitions: []JobTransition{{"CREATED", after}}}},
		{Kind: KindSubmission, Submission: Submission{Transitions: []SubmissionTransition{{State: "STOPPED", Time: before}}}},
		{Kind: KindSubmission, Submission: Submission{Transitions: []SubmissionTransition{{State: "PENDING", Time: after}}}},
		{Kind: KindWorker, Worker: Worker{Transitions: []WorkerTransition{{State: "DEAD", Time: before}}}},
		{Kind: KindWorker, Worker: Worker{Transitions: []WorkerTransition{{State: "ALIVE", Time: after}}}},
		{Kind: KindPlacementGroup,
			Group: PlacementGroup{Transitions: []PlacementGroupTransition{{State: "REMOVED", Time: before}}}},
		{Kind: KindPlacementGroup,
			Group: PlacementGroup{Transitions: []PlacementGroupTransition{{State: "CREATED", Time: after}}}},
	}
	const want = "DEAD, ALIVE, DEAD, FINISHED, PENDING, DEAD, REMOVED"
	for _, order := range []string{"in the order of their times", "backwards"} {
		b := NewBuilder()
		for i := range updates {
			b.MergeEntity(&updates[i])
			b.Set()
		}
		s, _ := b.Set()
		got := strings.Join([]string{last(s.Actors[0].Transitions).State, last(s.Actors[1].Transitions).State,
			last(s.Nodes[0].Transitions).State, last(s.Jobs[0].Transitions).State,
			last(s.Submissions[0].Transitions).State, last(s.Workers[0].Transitions).State,
			last(s.PlacementGroups[0].Transitions).State}, ", ")
		says.Equal(t, got, want, "%s: at last they", order)
		slices.Reverse(updates)
	}
}

func last[T any](all []T) T { return all[len(all)-1] }

// TestSameNanosecond: of two transitions into one state at one time, the same one stays in whatever order they come.
func TestSameNanosecond(t *testing.T) {
	var updates []Update
	for _, resources := range []map[string]float64{{"CPU": 1, "GPU": 2}, {"CPU": 2}, {"CPU": 1, "GPU": 3}} {
		updates = append(updates, Update{Kind: KindNode,
			Node: Node{Transitions: []NodeTransition{{State: "ALIVE", Time: 7, Resources: resources}}}})
	}
	merged := func() string {
		b := NewBuilder()
		for i := range updates {
			b.MergeEntity(&updates[i])
			b.Set()
		}
		s, _ := b.Set()
		return fmt.Sprint(s.Nodes[0].Transitions)
	}
	forward := merged()
	slices.Reverse(updates)
	says.Equal(t, merged(), forward, "backwards")
}

// TestEarlierSet: a set is not changed by events that come after it was made.
func TestEarlierSet(t *testing.T) {
	b := NewBuilder()
	id := rayid.Job{1}
	var want []string
	var sets []Set
	for i := range 100 {
		at := int64(1000 - 10*i)
		b.MergeEntity(&Update{Kind: KindJob, Job: Job{ID: id,
			Transitions: []JobTransition{{"CREATED", at}, {"FINISHED", at + 5000}}}})
		set, _ := b.Set()
		sets, want = append(sets, set), append(want, fmt.Sprint(set.Jobs))
	}
	for i, set := range sets {
		if got := fmt.Sprint(set.Jobs); got != want[i] {
			t.Fatalf("set %d was %s and became %s", i, want[i], got)
		}
	}
}

// TestMemoryOfNames: names of states and types are counted, for they come from outside too.
func TestMemoryOfNames(t *testing.T) {
	name := strings.Repeat("x", 1<<20)
	for kind, u := range map[string]Update{
		"state": {Kind: KindActor, Actor: Actor{Transitions: []ActorTransition{{State: name}}}},
		"type":  {Kind: KindWorker, Worker: Worker{Type: name}},
		"names": {Kind: KindJob, Job: Job{Metadata: map[string]string{"a": name}}},
		"numbers": {Kind: KindPlacementGroup,
			Group: PlacementGroup{Bundles: []Bundle{{Resources: map[string]float64{name: 1}}}}},
		"bytes": {Kind: KindActor, Actor: Actor{Parent: []byte(name)}},
	} {
		b := NewBuilder()
		b.MergeEntity(&u)
		if set, _ := b.Set(); set.MemoryBytes() < int64(len(name)) || b.MemoryBytes() < int64(len(name)) {
			t.Errorf("%s: %d bytes are counted for a row with a name of %d", kind, b.MemoryBytes(), len(name))
		}
	}
}
