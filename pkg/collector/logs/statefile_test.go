package logs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// A state file that says what no collector writes is believed nothing: no key outside of the node's logs, and no crash.
func TestForeignState(t *testing.T) {
	for name, change := range map[string][2]string{
		"path":        {`"path":"raylet.out"`, `"path":"../../index/tasks.parquet"`},
		"print":       {`"n":`, `"n":-`},
		"long print":  {`"n":`, `"n":99999`},
		"read":        {`"dev":`, `"read":-5,"dev":`},
		"limit":       {`"dev":`, `"limit":-5,"dev":`},
		"base":        {`"node":`, `"base":-1,"node":`},
		"current":     {`"node":`, `"cur":-7,"node":`},
		"far current": {`"node":`, `"cur":700,"node":`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.write("raylet.out", first("a"))
				r.scan()
				state := filepath.Join(r.state, session+".json")
				data, err := os.ReadFile(state)
				if err != nil || !bytes.Contains(data, []byte(change[0])) {
					t.Fatalf("the state is %s, %v", data, err)
				}
				must.OK(t, os.WriteFile(state, bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1), 0o600))
				r.restart()
				r.write("raylet.out", "more\n")
				r.shipAll()
				r.want("raylet.out", first("a")+"more\n")
				if keys := r.store.Keys(); len(keys) != 1 {
					t.Errorf("stored %v", keys)
				}
			})
		})
	}
}

// TestNamesThatAreNotText: logs whose names are not UTF-8, which JSON cannot hold, remain those that they are when the
// collector is restarted, and those that were made anew meanwhile are stored whole.
func TestNamesThatAreNotText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		logs := map[string]string{"a\xff.log": "a%FF.log", "a\xfe.log": "a%FE.log", "b.log": "b.log"}
		for name := range logs {
			r.write(name, first(name))
		}
		r.shipAll()
		r.restart()
		for name := range logs {
			r.write(name, "more of "+name+"\n")
		}
		r.shipAll()
		r.restart()
		for name := range logs {
			r.rename(name, "../"+name) // so that its inode is not used again
			r.write(name, "made anew: "+first(name)+first(name))
		}
		r.shipAll()
		for name, stored := range logs {
			r.want(stored, first(name)+"more of "+name+"\nmade anew: "+first(name)+first(name))
		}
	})
}

// TestNamesThatKeysCannotHold: each file is a log of its own, also where the name of one is what the key of another
// would be.
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
		must.Get(r.tailer.Scan(t.Context()))(t)
		must.OK(t, r.shipper.Flush(t.Context()))
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
