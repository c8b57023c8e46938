package logs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
				must.True(t, err == nil && bytes.Contains(data, []byte(change[0])), "the state is %s, %v", data, err)
				must.OK(t, os.WriteFile(state, bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1), 0o600))
				r.restart()
				r.write("raylet.out", "more\n")
				r.shipAll()
				r.want("raylet.out", first("a")+"more\n")
				keys := r.store.Keys()
				says.True(t, len(keys) == 1, "stored %v", keys)
			})
		})
	}
}
