package logs

import (
	"os"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestStatesAreDocumented: the tables in doc.go are what the code does.
func TestStatesAreDocumented(t *testing.T) {
	doc := must.Get(os.ReadFile("doc.go"))(t)
	files := strings.Fields("fresh restored following moved unreadable finished")
	streams := strings.Fields("unlisted listed inFlight")
	for _, want := range []string{
		table("file", files, strings.Fields("seen due moved failed finished"), func(state, event int) int {
			f := file{state: fileState(state)}
			f.handle(fileEvent(event))
			return int(f.state)
		}),
		table("stream", streams, strings.Fields("listed unusable opened stored"), func(state, event int) int {
			s := stream{state: streamState(state)}
			s.handle(streamEvent(event))
			return int(s.state)
		}),
	} {
		header, _, _ := strings.Cut(want, "\n")
		var got strings.Builder
		for line := range strings.Lines(string(doc)) {
			row := strings.Join(strings.Fields(strings.TrimPrefix(line, "//")), " ")
			if got.Len() > 0 && row == "" {
				break
			}
			if got.Len() > 0 || row == header {
				got.WriteString(row + "\n")
			}
		}
		says.Equal(t, got.String(), want, "the table of doc.go, and the code's")
	}
}

// table is the table of all transitions, as doc.go has it: that a finished file stays finished, and that no file
// becomes fresh again, is in it.
func table(name string, states, events []string, next func(state, event int) int) string {
	rows := []string{name + " " + strings.Join(events, " ")}
	for s, row := range states {
		for e := range events {
			row += " " + states[next(s, e)]
		}
		rows = append(rows, row)
	}
	return strings.Join(rows, "\n") + "\n"
}
