package logs_test

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestNamesThatKeysCannotHold: each file is a log of its own, also where the name of one is what the key of another would be.
func TestNamesThatKeysCannotHold(t *testing.T) {
	r := newRig(t)
	logs := []struct{ name, key, text string }{
		{"a\n.log", "a%0A.log", "one\n"},
		{"a%0A.log", "a%250A.log", "a second\n"},
		{"a%250A.log", "a%25250A.log", "and a third one\n"},
		{"a\xff.log", "a%FF.log", "four\n"},
		{"a%FF.log", "a%25FF.log", "and five\n"},
		{"a%2F%ff%zz%.log", "a%2F%ff%zz%.log", "as it is\n"},
	}
	for _, l := range logs {
		r.write(l.name, l.text)
	}
	for range 2 {
		if _, err := r.tailer.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.shipper.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range logs {
		stored, err := r.store.Joined(key(session, nodeID, l.key), func(k string) (string, int64) {
			whole, offset, _, _ := layout.ParseChunk(k)
			return whole, offset
		})
		if err != nil || string(stored) != l.text {
			t.Errorf("of %q is stored %q as %s, %v", l.name, stored, l.key, err)
		}
	}
}
