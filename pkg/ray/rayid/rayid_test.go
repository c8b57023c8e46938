package rayid

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestParseBothSpellings(t *testing.T) {
	const taskHex, taskBase64 = "ffffffffffffffffd8cdfa13bac815040ffa5a5c02000000", "///////////YzfoTusgVBA/6WlwCAAAA"
	for _, spelling := range []string{taskHex, taskBase64} {
		id, err := Parse[Task](spelling)
		says.True(t, err == nil && id.String() == taskHex, "Parse(%q) = %s, %v", spelling, id, err)
		says.Equal(t, id.Actor().String(), taskHex[16:], "actor")
		says.Equal(t, id.Job().Base64(), "AgAAAA==", "job")
	}
	// A job's hex and base64 have the same length.
	for _, spelling := range []string{"02000000", "AgAAAA=="} {
		if id, err := Parse[Job](spelling); err != nil || id != (Job{2}) {
			t.Errorf("Parse(%q) = %s, %v", spelling, id, err)
		}
	}
	for _, bad := range []string{"", "02", "0200000g", "AgAAAA=", "../../..", taskHex} {
		if id, err := Parse[Job](bad); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", bad, id)
		}
	}
}

func TestNil(t *testing.T) {
	for id, want := range map[Job]bool{{}: true, {0xff, 0xff, 0xff, 0xff}: true, {1}: false,
		{0xff, 0xff, 0xff, 0}: false} {
		says.Equal(t, id.Nil(), want, "%s.Nil() = %t", id, !want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558")
	f.Add("Ed2tolIslzt40hMW5uBY9UUA4p+Aih7jlsblWA==")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Parse[Node](s)
		if err != nil {
			return
		}
		if again, err := Parse[Node](id.String()); err != nil || again != id {
			t.Fatal(again, err)
		}
		h, herr := hex.DecodeString(s)
		b, berr := base64.StdEncoding.DecodeString(s)
		must.True(t, herr == nil && string(h) == string(id[:]) || berr == nil && string(b) == string(id[:]),
			"Parse(%q) = %s, neither its hex nor its base64", s, id)
	})
}

func TestFromProto(t *testing.T) {
	for _, tt := range []struct {
		field string
		value any
		id    string
	}{
		{"actorId", "AAECAwQFBgcICQoLDA0ODw==", "000102030405060708090a0b0c0d0e0f"}, {"job_id", "AQAAAA==", "01000000"},
		{"ownerId", "/////////////////////////////////////w==", strings.Repeat("ff", NodeSize)},
		{"actorId", "000102030405060708090a0b0c0d0e0f", ""}, // hex, which is base64 of as many bytes as a task's ID has
		{"errorMessage", "AQAAAA==", ""}, {"jobId", "AQAAAAA=", ""}, {"jobId", "", ""},
		{"jobId", "no ID", ""}, {"jobId", 1, ""},
	} {
		if id, ok := FromProto(tt.field, tt.value); id != tt.id || ok != (tt.id != "") {
			t.Errorf("%s %v is %q, %v", tt.field, tt.value, id, ok)
		}
	}
}

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
	says.True(t, json.Unmarshal([]byte(`{"Job":"xyz"}`), &out) != nil, "xyz is no job")
}
