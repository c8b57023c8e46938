package moment

import (
	"fmt"
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

func TestActorAt(t *testing.T) {
	node1, node2, worker1, worker2 := rayid.Node{1}, rayid.Node{2}, rayid.Worker{1}, rayid.Worker{2}
	a := &entities.Actor{Transitions: []entities.ActorTransition{
		{State: Unready, Time: 1}, {State: "PENDING_CREATION", Time: 2},
		{State: Alive, Time: 3, Node: node1, Worker: worker1, PID: 7},
		{State: Restarting, Time: 4, RestartReason: "NODE_PREEMPTION"},
		{State: Alive, Time: 5, Node: node2, Worker: worker2, PID: 8, ReprName: "A(1)"},
		{State: Dead, Time: 6, DeathCause: []byte(`{"x": 1}`)}, {State: Dead, Time: 7, DeathCause: []byte(`{"x": 2}`)},
		{State: Restarting, Time: 8, RestartReason: "LINEAGE_RECONSTRUCTION"},
		{State: Alive, Time: 9, Node: node1, Worker: rayid.Worker{3}, PID: 9},
	}}
	for at, want := range map[int64]string{
		1: "DEPENDENCIES_UNREADY placed=false pid=0 restarts=0 start=0 end=0 former=0",
		3: "ALIVE placed=true pid=7 restarts=0 start=3 end=0 former=0",
		4: "RESTARTING placed=false pid=7 restarts=1 start=3 end=0 former=0",
		5: "ALIVE placed=true pid=8 restarts=1 start=3 end=0 former=1",
		7: "DEAD placed=true pid=8 restarts=1 start=3 end=6 former=1",
		8: "RESTARTING placed=false pid=8 restarts=2 start=3 end=0 former=1",
		0: "ALIVE placed=true pid=9 restarts=2 start=3 end=0 former=2",
	} {
		s, existed := ActorAt(a, at)
		got := fmt.Sprintf("%s placed=%t pid=%d restarts=%d start=%d end=%d former=%d", s.State, s.Placed, s.PID,
			s.Restarts, s.Started, s.Ended, len(s.FormerProcesses))
		if !existed || got != want {
			t.Errorf("at %d: %t %s, want %s", at, existed, got, want)
		}
	}
	if _, existed := ActorAt(&entities.Actor{Transitions: a.Transitions[2:]}, 2); existed {
		t.Error("an actor was there before its first event")
	}
	if s, _ := ActorAt(a, 0); s.Reconstructed != 1 || s.Preempted != 1 {
		t.Errorf("restarts by reason: %+v", s)
	}
}
