package logs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// TestDumps: a dump that is written again in place is stored once and whole, when it was left alone, or when nothing
// more will be written. If it is written again before any of it is stored, it is stored as it is then.
func TestDumps(t *testing.T) {
	const thrice = `overwrite debug_state.txt a; ship; overwrite debug_state.txt short; ship
		overwrite debug_state.txt a b; ship; nothing; `
	const before, after = `overwrite debug_state.txt a; age debug_state.txt 1h; scan; overwrite debug_state.txt `,
		`; age debug_state.txt 0s; flush; scan; sleep 3m; ship; done`
	tell(t, map[string]story{
		"collector ends":            {thrice + `drain`, `debug_state.txt: a b`},
		"raylet is gone":            {thrice + `age debug_state.txt 1h`, `debug_state.txt: a b`},
		"shorter before the upload": {before + `b` + after, `debug_state.txt: b`},
		"longer before the upload":  {before + `b c` + after, `debug_state.txt: b c`},
	})
}

// A dump that waits while the store refuses everything is stored whole by the next collector, be it at rest then or
// not, and is not removed before.
func TestDumpsOverARestart(t *testing.T) {
	for _, writtenAgain := range []bool{false, true} {
		for _, withSize := range []bool{true, false} { // as collectors wrote the state before they noted a dump's size
			t.Run(fmt.Sprintf("written again %t, size noted %t", writtenAgain, withSize), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					const dump = "NodeManager: the last dump\n"
					old := time.Now().Add(-time.Hour)
					write := func(at time.Time) {
						must.OK(t, errors.Join(os.WriteFile(r.path("debug_state.txt"), []byte(dump), 0o644),
							os.Chtimes(r.path("debug_state.txt"), at, at)))
					}
					write(old)
					r.store.Fault = func(string) storetest.Fault { return storetest.Refuse }
					r.scan()
					if !withSize {
						state := filepath.Join(r.state, session+".json")
						data := must.Get(os.ReadFile(state))(t)
						must.OK(t, os.WriteFile(state, regexp.MustCompile(`,"size":\d+`).ReplaceAll(data, nil), 0o600))
					}
					if writtenAgain {
						write(time.Now())
					}
					r.deleteShipped = true
					r.restart()
					for range 3 {
						r.scan()
						must.OK(t, says.Err(os.Stat(r.path("debug_state.txt"))), "removed before it was stored")
						sessions, _, err := r.tailer.Sessions()
						says.True(t, err == nil && len(sessions) == 1 && !sessions[0].Stored, "sessions %+v, %v",
							sessions, err)
					}
					r.store.Fault = nil
					time.Sleep(3 * time.Minute)
					r.shipAll()
					got := r.joined(nodeID, "debug_state.txt")
					says.True(t, got == dump, "stored is %q in %v", got, r.store.Keys())
				})
			})
		}
	}
}
