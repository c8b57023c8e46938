package findings

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// notRestored matches what a process for spilled objects logs of an object that it could not read back (_raylet.pyx of
// Ray). Whoever needs the object waits: Ray tries it again and again and tells nobody.
var notRestored = lazyregexp.New(
	`(?m)^[^\n]* -- An unexpected internal error occurred while the IO worker was restoring spilled objects\.`)

const spilled = "spilled " // begins the keys of findings about objects that could not be read back

// readSpills finds spilled objects that could not be read back.
func (b *builder) readSpills() {
	told := func(path string) bool {
		return strings.HasPrefix(path, "io_worker-") && strings.HasSuffix(path, ".err")
	}
	for log := range b.logs.ofNodes(told) {
		for _, m := range b.logs.matches(log, notRestored()) {
			said, shown := b.logEntry(m)
			raised := output.ExceptionOf(said)
			f := b.findOrAdd(ObjectLost, spilled+log.file.Node.String()+raised.Type)
			f.Title = fmt.Sprintf("Spilled objects on node %s could not be read back%s", b.nodeName(log.file.Node),
				encloseIfAny(": ", raised.String(), ""))
			f.add(occurrence{at: m.at, node: log.file.Node, entity: b.nodeEntity(log.file.Node),
				evidence: []Evidence{shown}})
		}
	}
}

// holdsUp reports whether the finding is about spilled objects that could not be read back, and for which a job may
// have waited at a time (Unix ns). Ray doubles the time between two tries, so the last one may be as long ago as all of
// them took (pull_manager.cc of Ray).
func (f *finding) holdsUp(j *job, until int64) bool {
	return strings.HasPrefix(f.key, ObjectLost+"\x00"+spilled) && f.last >= j.Start && f.first <= until &&
		until-f.last <= longBroken+2*(f.last-f.first)
}

// heldUp is holdsUp at a job's end.
func (b *builder) heldUp(f *finding, j *job) bool { return f.holdsUp(j, cmp.Or(j.End, b.sessionEnd())) }
