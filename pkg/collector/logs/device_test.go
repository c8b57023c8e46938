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
)

var deviceInState = regexp.MustCompile(`"dev":\d+`)

// remount starts the collector again, after the volume was mounted with another device number than it has now.
func (r *rig) remount() {
	r.t.Helper()
	followed := filepath.Join(r.state, session+".json")
	data := must.Get(os.ReadFile(followed))(r.t)
	other := deviceInState.ReplaceAll(data, []byte(`"dev":12345`))
	if bytes.Equal(other, data) {
		r.t.Fatalf("the state has no device: %.200s", data)
	}
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
	for name, test := range map[string]struct {
		before, meanwhile string
		want              map[string]string
	}{
		"growth": {`write x a; write y b; ship`, `write x more`,
			map[string]string{"x": text("a", "more"), "y": text("b")}},
		"rotated before": {`write x a; ship; rename x x.1; write x b; ship`, `write x more`,
			map[string]string{"x": text("a", "b", "more"), "x.1": ""}},
		"rotated meanwhile": {`write x a; write y c; ship; write x tail`, `rename x x.1; write x b`,
			map[string]string{"x": text("a", "tail", "b"), "x.1": "", "y": text("c")}},
		"not stored yet": {`write x a; scan`, ``, map[string]string{"x": text("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.play(test.before)
				r.remount()
				r.play(test.meanwhile)
				r.shipAll()
				for log, want := range test.want {
					r.want(log, want)
				}
				if lost := r.tailer.LostBytes(); lost != 0 {
					t.Errorf("%g bytes count as lost", lost)
				}
			})
		})
	}
}
