package logs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

var deviceInState = regexp.MustCompile(`"dev":\d+`)

// remount starts the collector again, after the volume was mounted with another device number than it has now.
func (r *rig) remount() {
	r.t.Helper()
	followed := filepath.Join(r.state, session+".json")
	data := must.Get(os.ReadFile(followed))(r.t)
	other := deviceInState.ReplaceAll(data, []byte(`"dev":12345`))
	must.True(r.t, !bytes.Equal(other, data), "the state has no device: %.200s", data)
	must.OK(r.t, os.WriteFile(followed, other, 0o600))
	idle := followed + ".resting"
	data, err := os.ReadFile(idle)
	if !errors.Is(err, fs.ErrNotExist) {
		must.OK(r.t, err)
		const magicBytes = 8
		data[magicBytes] ^= 1
		must.OK(r.t, os.WriteFile(idle, data, 0o600))
	}
	r.restart()
}

// TestMountedAgain: logs stay those that they are when their volume is mounted again, with another device number.
func TestMountedAgain(t *testing.T) {
	tell(t, map[string]story{
		"growth": {`write x a; write y b; ship; remount; write x more; ship; lost`, `x: a more; y: b`},
		"rotated before": {`write x a; ship; rename x x.1; write x b; ship; remount; write x more; ship; lost`,
			`x: a b more; x.1:`},
		"rotated meanwhile": {`write x a; write y c; ship; write x tail; remount; rename x x.1; write x b; ship; lost`,
			`x: a tail b; x.1:; y: c`},
		"all rotated meanwhile": {`write x a; ship; write x tail; remount; rename x x.1; write x b; ship; lost`,
			`x: a tail b; x.1:`},
		"moved meanwhile": {`write x a; ship; remount; mkdir old; rename x old/x; write old/x more; ship; lost`,
			`x: a more; old/x:`},
		"not stored yet": {`write x a; scan; remount; ship; lost`, `x: a`},
	})
}

// TestMountedAgainWithoutAFolder: likewise if a folder of moved logs is gone meanwhile.
func TestMountedAgainWithoutAFolder(t *testing.T) {
	moved := ""
	for _, name := range "bcdefghi" {
		moved += "write " + string(name) + " a; "
	}
	tell(t, map[string]story{"all rotated": {moved + `ship; move; ship; second; write x a; ship; write x tail
		unmove; remount; rename x x.1; write x b; ship; lost`, `b: a; second/x: a tail b; second/x.1:`}})
}

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
