package logs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
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
