package rayid

import (
	"encoding/json"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

func TestJSON(t *testing.T) {
	type all struct {
		Job    Job
		Actor  Actor
		Group  PlacementGroup
		Task   Task
		Nodes  map[int32]Node
		Worker map[Worker]bool
	}
	in := all{Job: Job{1}, Actor: Actor{2}, Group: PlacementGroup{3}, Task: Task{4}, Nodes: map[int32]Node{1: {5}},
		Worker: map[Worker]bool{{6}: true}}
	text := must.Get(json.Marshal(in))(t)
	var out all
	must.OK(t, json.Unmarshal(text, &out))
	if out.Job != in.Job || out.Actor != in.Actor || out.Group != in.Group || out.Task != in.Task ||
		out.Nodes[1] != in.Nodes[1] || !out.Worker[Worker{6}] {
		t.Errorf("%s became %+v", text, out)
	}
	if err := json.Unmarshal([]byte(`{"Job":"xyz"}`), &out); err == nil {
		t.Error("xyz is no job")
	}
}
