package logs

import (
	"path"
	"strings"
	"time"
)

// dumpRest is the time without writes after which a dump counts as the last one. Raylet and GCS write theirs every 10 s
// (debug_dump_period_milliseconds).
const dumpRest = 2 * time.Minute

// isDump says whether a file is a dump of a Ray process's state (debug_state.txt, debug_state_gcs.txt), which is overwritten in place
// repeatedly. It does not grow, and its chunks would come from different dumps. It is stored once, with its content when the process has
// ended or the collector ends, and not read again.
func isDump(logPath string) bool {
	name := path.Base(logPath)
	return strings.HasPrefix(name, "debug_state") && strings.HasSuffix(name, ".txt")
}

// isOverwritten says whether more dumps may follow the one in the file. Then this scan ignores it.
func (t *tree) isOverwritten(now time.Time, s seenFile) bool {
	return !t.draining && now.Sub(time.Unix(0, s.changed)) < dumpRest
}
