package logs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestStatesAreDocumented: the tables in doc.go are the code's.
func TestStatesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	must.OK(t, err)
	files := table("file", int(fileStates), int(fileEvents), func(e int) fmt.Stringer { return fileEvent(e) },
		func(s int) fmt.Stringer { return fileState(s) }, func(s, e int) fmt.Stringer { return fileTransitions[s][e] })
	streams := table("stream", int(streamStates), int(streamEvents), func(e int) fmt.Stringer { return streamEvent(e) },
		func(s int) fmt.Stringer { return streamState(s) }, func(s, e int) fmt.Stringer { return streamTransitions[s][e] })
	for _, want := range []string{files, streams} {
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
		if got.String() != want {
			t.Errorf("doc.go has\n%s\nthe code has\n%s", got.String(), want)
		}
	}
}

func table(name string, states, events int, event, state func(int) fmt.Stringer, next func(s, e int) fmt.Stringer) string {
	var out strings.Builder
	out.WriteString(name)
	for e := range events {
		fmt.Fprintf(&out, " %s", event(e))
	}
	for s := range states {
		fmt.Fprintf(&out, "\n%s", state(s))
		for e := range events {
			fmt.Fprintf(&out, " %s", next(s, e))
		}
	}
	return out.String() + "\n"
}

// TestFinishedIsFinal: whatever comes late about a file that is finished, it does not come back.
func TestFinishedIsFinal(t *testing.T) {
	for e := range fileEvents {
		if f := (&file{state: finished}); f.on(e) {
			t.Errorf("%s makes it %s", e, f.state)
		}
	}
	for s := range fileStates {
		for e := range fileEvents {
			if fileTransitions[s][e] == fresh {
				t.Errorf("%s leads from %s to fresh", e, s)
			}
		}
	}
}
