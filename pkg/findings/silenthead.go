package findings

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// headLogs are logs of a head that are written again and again while it lives.
var headLogs = []string{"monitor.log", "gcs_server.out", "raylet.out", "dashboard.log"}

// lostGCS matches the lines in which the raylet of another node says that it cannot reach the head's GCS.
var lostGCS = lazyregexp.New(`(?m)^\[[^\n]* [WEFC] [^\n]*(?:GCS|gcs)[^\n]*$`)

// silence is how much longer than the head another node must have written logs (ns).
const silence = int64(5 * time.Second)

// head returns the session's head node; nil if it is not known.
func (b *builder) head() (id rayid.Node) {
	for _, n := range b.nodes.All {
		if n.Head {
			id, _ = rayid.Parse[rayid.Node](n.ID) // nil if it is no ID
			return id
		}
	}
	for _, file := range b.nodeFiles(1, func(path string) bool { return path == "gcs_server.out" }) {
		return file.Node
	}
	return id
}

// lostHead returns the finding about the head's loss; nil if it was not lost.
func (b *builder) lostHead() *finding { return b.lost[b.head()] }

// readSilentHead finds a head that ended without a word: no end of the session is stored, and after the head's last line other nodes say that they
// cannot reach it.
func (b *builder) readSilentHead(ctx context.Context) error {
	head := b.head()
	if b.running || b.r.At != 0 || b.s.EndStored || head.Nil() || b.lost[head] != nil || !b.unendedJobs() {
		return nil
	}
	last, shown := int64(0), Evidence{}
	for _, path := range headLogs {
		log, err := b.read(ctx, moment.LogFile{Node: head, Path: path})
		if err != nil {
			return err
		}
		if at, from, to := b.lastTime(log); at > last {
			last, shown = at, b.evidence(log, from, to)
		}
	}
	if last == 0 {
		return nil
	}
	for _, file := range b.nodeFiles(maxRaylets, func(path string) bool { return path == "raylet.out" }) {
		if file.Node == head {
			continue
		}
		log, err := b.read(ctx, file)
		if err != nil {
			return err
		}
		if end, _, _ := b.lastTime(log); end-last < silence {
			continue
		}
		for _, m := range lostGCS().FindAllStringIndex(log.text, -1) {
			if b.logTime(log.text[m[0]:m[1]]) < last {
				continue
			}
			f := b.nodeLost(head)
			if f.Count == 0 {
				f.happened(last, false)
				f.on(head, last)
				f.Title = fmt.Sprintf("%s ended without notice: its logs stop at %s, and then node %s could not reach it any more",
					b.nodeTitle(head), time.Unix(0, last).UTC().Format(time.TimeOnly), b.nodeName(file.Node))
				f.show(shown)
			}
			f.show(b.evidence(log, m[0], m[1]))
			break
		}
	}
	return nil
}

// unendedJobs reports whether a job had not ended.
func (b *builder) unendedJobs() bool {
	for i := range b.jobs {
		if !moment.Terminal(b.jobs[i].status) {
			return true
		}
	}
	return false
}

// lastTime returns the time of the last line of a log that says one (Unix ns), and where that line is; 0 if none of its last lines does.
func (b *builder) lastTime(log *logText) (at int64, from, to int) {
	const most = 50
	for end, n := len(log.text), 0; end > 0 && n < most; n++ {
		begin := strings.LastIndexByte(log.text[:end-1], '\n') + 1
		if at = b.logTime(log.text[begin:end]); at != 0 {
			return at, begin, end
		}
		end = begin
	}
	return 0, 0, 0
}
