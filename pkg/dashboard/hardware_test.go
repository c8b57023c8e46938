package dashboard

import (
	"strconv"
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestFiguresOfAMoment: what the only snapshots, of the session's end, say of the use of nodes and processes is not
// shown of a moment before.
func TestFiguresOfAMoment(t *testing.T) {
	a := recorded(t)
	checked := 0
	for _, when := range []string{"", "23:20:28"} {
		a.at = 0
		if when != "" {
			a.at = at(when)
		}
		measured := func(what string, is bool) {
			t.Helper()
			if checked++; is != (when == "") {
				t.Errorf("at %q: %s is shown: %t", when, what, is)
			}
		}
		for _, v := range a.data("/nodes?view=summary").List("summary") {
			row := v.(*pyjson.Object)
			_, mem := row.Lookup("mem")
			measured("memory", mem)
			measured("CPU", figure(row.Get("cpu")) != 0)
			measured("disk", row.Object("disk").Len() > 0)
			measured("object store", row.Object("raylet").Int("objectStoreUsedMemory") != 0)
			detail := a.data("/nodes/" + row.Object("raylet").String("nodeId")).Object("detail")
			_, mem = detail.Lookup("mem")
			measured("memory in the details", mem)
			measured("the agent's memory", figure(detail.Object("agent").Object("memoryInfo").Get("rss")) != 0)
			for _, w := range detail.List("workers") {
				process := w.(*pyjson.Object)
				measured("a worker's memory", figure(process.Object("memoryInfo").Get("rss")) != 0)
			}
		}
		for _, v := range a.data("/logical/actors").Object("actors").All() {
			if stats := v.(*pyjson.Object).Object("processStats"); stats != nil {
				measured("an actor's memory", figure(stats.Object("memoryInfo").Get("rss")) != 0)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d figures were there", checked)
	}
}

// figure is a number as it was encoded.
func figure(v any) float64 {
	text, _ := v.(pyjson.Number)
	f, _ := strconv.ParseFloat(string(text), 64)
	return f
}
