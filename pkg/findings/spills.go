package findings

import (
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
	for log := range b.logs.ofNodes(pathBegins("io_worker-")) {
		for _, m := range b.logs.matches(log, notRestored()) {
			said, shown := b.logEntry(m)
			raised := output.ExceptionOf(said)
			f := b.findOrAdd(ObjectLost, spilled+log.file.Node.String()+raised.Type)
			f.Title = fmt.Sprintf("Spilled objects on node %s could not be read back: %s",
				b.nodeName(log.file.Node), raised)
			f.add(occurrence{at: m.at, node: log.file.Node, entity: b.nodeEntity(log.file.Node),
				evidence: []Evidence{shown}})
		}
	}
}

// holdsUp reports whether the finding is about spilled objects that could not be read back, and for which a job may
// have waited until its end, or still waits.
func (f *finding) holdsUp(j *job) bool {
	return strings.HasPrefix(f.key, ObjectLost+"\x00"+spilled) && f.last >= j.Start &&
		(j.End == 0 || f.first <= j.End && j.End-f.last <= longBroken)
}
