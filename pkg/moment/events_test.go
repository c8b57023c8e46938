package moment

import (
	"testing"
)

// TestMemoryOfEvents: events that are read take no more memory than they may, however little text they are.
func TestMemoryOfEvents(t *testing.T) {
	const small = `{"event_id": "a", "message": "x\\ny"}` + "\n"
	const large = `{"event_id": "b", "custom_fields": [{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}` +
		"\n"
	all := eventReader{left: 1000, seen: map[string]bool{}}
	if !all.addLines([]byte(small + "no JSON\n[1]\n" + small + `{"event_id": "cut`)) {
		t.Error("small events are too large")
	}
	if all.addLines([]byte(large)) {
		t.Errorf("a large event is not, with %d bytes left", all.left)
	}
	if len(all.events) != 1 || all.events[0].String("message") != "x\ny" {
		t.Errorf("%d events: %q", len(all.events), all.events[0].String("message"))
	}
}
