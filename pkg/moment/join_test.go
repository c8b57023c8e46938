package moment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// life is the events of a thing that is there from one time on, and ended at another one (0: never).
type life struct {
	id          string
	began, ends int64
}

// TestJoin: events count where a saved row says something else, unless the row shows an end that they do not know.
// Nothing is there that did not exist yet. taken is when the rows were saved.
func TestJoin(t *testing.T) {
	row := func(id, state string, began int) *pyjson.Object {
		return pyjson.Obj("id", id, "state", state, "began", pyjson.Number(fmt.Sprint(began)))
	}
	rows := []any{row("both", Alive, 1), "not a row", row("ended", Dead, 1), row("saved", Alive, 5),
		row("old", Alive, 1)}
	events := []life{{"both", 1, 0}, {"ended", 1, 0}, {"old", 1, 6}, {"told", 7, 0}}
	k := kind[life, string]{
		events: events,
		id:     func(l *life) string { return l.id },
		find: func(id string) *life {
			for i := range events {
				if events[i].id == id {
					return &events[i]
				}
			}
			return nil
		},
		at: func(l *life, at int64) (string, bool) {
			if l.ends != 0 && (at == 0 || l.ends <= at) {
				return Dead, true
			}
			return Alive, at == 0 || l.began <= at
		},
		savedID: func(row *pyjson.Object) string { return row.String("id") },
		began:   func(row *pyjson.Object) int64 { return row.Int("began") },
		ended:   func(row *pyjson.Object) bool { return row.String("state") == Dead },
		agrees:  func(row *pyjson.Object, s *string) bool { return row.String("state") == *s },
	}
	for _, tt := range []struct {
		at, taken int64
		want      string // "!" follows what the events decide
	}{
		{0, 8, "both ended saved old! told!"},
		{0, 0, "both ended saved old! told!"},
		{8, 8, "both ended saved old! told!"},
		{8, 9, "both ended! saved old! told!"}, // the rows are later than the moment: an end in them does not count
		{8, 0, "both ended! saved old! told!"}, // or may be
		{5, 5, "both ended saved old"},
		{4, 4, "both ended old"},
	} {
		var got []string
		for _, thing := range join(&Moment{At: tt.at}, k, rows, tt.taken) {
			name := thing.ID
			if thing.Newer {
				name += "!"
			}
			got = append(got, name)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("at %d, saved at %d: %s, want %s", tt.at, tt.taken, s, tt.want)
		}
	}
}
