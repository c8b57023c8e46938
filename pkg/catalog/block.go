package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// row is one session in a block: 88 bytes without pointers. Times are Unix microseconds; 0: not known.
type row struct {
	start                          int64 // as the list shows it
	end, lastWrite, readAt, marked int64
	bytes                          int64
	took                           uint32 // milliseconds
	objects, nodes                 uint32
	cluster, owner, version        uint32 // numbers in names
	textEnd                        uint32 // in the block's text
	nameLen, causeLen              uint16
	failedJobs                     uint16
	explained                      uint16
	kind, outcome                  uint8 // places in kinds and outcomes
	described                      bool
}

var (
	// In alphabetical order.
	kinds    = slices.Concat([]string{""}, Kinds)
	outcomes = slices.Sorted(slices.Values(slices.Concat([]string{""}, Outcomes)))
)

// failedOutcome and noOutcome are indices of outcomes; the latter is that of "", which is the first.
var (
	failedOutcome = codeOf(outcomes, Failed)
	noOutcome     = codeOf(outcomes, "")
)

// codeOf returns the index of a text in kinds or outcomes. It returns 0, the index of "", if the list does not have it.
func codeOf(all []string, text string) uint8 { return uint8(max(0, slices.Index(all, text))) }

// block is a part of the list: sessions that follow each other in it. It does not change.
type block struct {
	rows    []row
	unended []uint16 // indices of the rows without an end, which may be running
	// text holds, for each row, its cause, its name and the text for searches, each followed by a newline.
	text []byte

	once  sync.Once
	grams *grams // of the names and texts for searches; made by the first search, or before
}

// groupsWith returns the groups of rows in which a word may occur: bit i stands for the rows from i × groupRows on.
func (b *block) groupsWith(word []byte) uint32 {
	b.prepare()
	return b.grams.candidates(word)
}

// prepare makes the grams that searches need, once.
func (b *block) prepare() {
	b.once.Do(func() {
		b.grams = new(grams)
		for i := range b.rows {
			b.grams.add(b.text[b.nameFrom(i):b.rows[i].textEnd], i/groupRows)
		}
	})
}

// Limits of what is kept of a session.
const (
	blockRows = 2048
	groupRows = 64      // the rows of one uint64 of a rowSet
	maxCause  = 1 << 10 // bytes
	maxWords  = 8 << 10 // bytes of the text for searches
	maxOwner  = 300     // bytes
)

// record is a session with all its values, before it becomes a row.
type record struct {
	ref layout.Session
	session
}

// session is what is known about a stored session.
type session struct {
	marked time.Time     // when its marker was written
	took   time.Duration // reading the facts
	// facts are what the session's objects say about it, without findings, jobs, hours and labels; nil until they are
	// read.
	facts *packs.Facts
}

// textFrom returns where a row's text begins.
func (b *block) textFrom(i int) int {
	if i == 0 {
		return 0
	}
	return int(b.rows[i-1].textEnd)
}

// nameFrom returns where the name of a row's session begins; the text for searches follows it.
func (b *block) nameFrom(i int) int { return b.textFrom(i) + int(b.rows[i].causeLen) + 1 }

// sessionName returns the name of a row's session. It shares the block's memory.
func (b *block) sessionName(i int) []byte {
	from := b.nameFrom(i)
	return b.text[from : from+int(b.rows[i].nameLen)]
}

// add appends a session. Texts and numbers are cut to what a row may hold; a session whose details were never read has
// none. Searches find a name with upper case too, because the text for searches has it again in lower case.
func (b *block) add(n *names, r *record) {
	f := r.facts
	if f == nil {
		f = &packs.Facts{}
	}
	e := entryOf(r.ref, r.facts, r.marked)
	name, cause, text := r.ref.Name, cut(e.Cause, maxCause), cut(f.Text, maxWords)
	if lower := strings.ToLower(name); lower != name {
		text += "\n" + lower
	}
	b.text = append(append(b.text, cause...), '\n')
	b.text = append(append(b.text, name...), '\n')
	b.text = append(append(b.text, text...), '\n')
	b.rows = append(b.rows, row{
		start: micros(e.Start), end: micros(f.End), lastWrite: micros(f.LastWrite), readAt: micros(f.Seen),
		marked: micros(r.marked), bytes: f.Bytes,
		took: uint32(min(r.took.Milliseconds(), 1<<30)), objects: uint32(min(f.Objects, 1<<31)),
		nodes:   uint32(min(f.Nodes, 1<<31)),
		cluster: n.numberOfCluster(r.ref), owner: n.numberOfText(cut(e.OwnerName, maxOwner)),
		version: n.numberOfText(cut(f.RayVersion, maxOwner)),
		textEnd: uint32(len(b.text)), nameLen: uint16(len(name)), causeLen: uint16(len(cause)),
		kind: codeOf(kinds, e.OwnerKind), outcome: codeOf(outcomes, f.Outcome), described: r.facts != nil,
		failedJobs: uint16(min(f.FailedJobs, math.MaxUint16)),
		explained:  uint16(min(f.Version, math.MaxUint16)),
	})
	b.noteLastUnended()
}

// noteLastUnended adds the last row to unended, if it has no end. It is called after each new row. Rows beyond
// blockRows are not noted: such a block is split at once, into blocks that note their own.
func (b *block) noteLastUnended() {
	if last := len(b.rows) - 1; b.rows[last].end == 0 && last < blockRows {
		b.unended = append(b.unended, uint16(last))
	}
}

func (b *block) copyRow(from *block, i int) {
	b.text = append(b.text, from.text[from.textFrom(i):from.rows[i].textEnd]...)
	r := from.rows[i]
	r.textEnd = uint32(len(b.text))
	b.rows = append(b.rows, r)
	b.noteLastUnended()
}

// facts returns what is known of a row's session, except the text for searches.
func (b *block) facts(n *names, i int) packs.Facts {
	r := &b.rows[i]
	from := b.textFrom(i)
	return packs.Facts{
		Ref: n.ref(r.cluster, string(b.sessionName(i))), Summary: Summary{
			OwnerKind: kinds[r.kind], OwnerName: n.texts[r.owner], RayVersion: n.texts[r.version],
			Nodes: int(r.nodes), Objects: int(r.objects), Bytes: r.bytes,
			Outcome: outcomes[r.outcome], Cause: string(b.text[from : from+int(r.causeLen)]),
			FailedJobs: int(r.failedJobs),
		},
		Seen: timeOfMicros(r.readAt), LastWrite: timeOfMicros(r.lastWrite), Start: timeOfMicros(r.start),
		End: timeOfMicros(r.end), Version: int(r.explained),
	}
}

// session returns the session from which a row was made, up to what add cut off.
func (b *block) session(n *names, i int) session {
	r := &b.rows[i]
	s := session{marked: timeOfMicros(r.marked), took: time.Duration(r.took) * time.Millisecond}
	if r.described {
		f := b.facts(n, i)
		f.Text = b.searchText(i)
		s.facts = &f
	}
	return s
}

// searchText returns a row's text for searches.
func (b *block) searchText(i int) string {
	return string(b.text[b.nameFrom(i)+int(b.rows[i].nameLen)+1 : b.rows[i].textEnd-1])
}

// entry returns a row as the list shows it at the time now (Unix µs), without the text for searches. It shares no
// memory with the block.
func (b *block) entry(n *names, i int, now int64, quiet time.Duration) Entry {
	s, f := session{marked: timeOfMicros(b.rows[i].marked)}, b.facts(n, i)
	if b.rows[i].described {
		s.facts = &f
	}
	return s.entry(f.Ref, timeOfMicros(now), quiet)
}

// lastWritten returns when the last object was stored or, if the session has no objects yet, its marker.
func (r *row) lastWritten() int64 { return cmp.Or(r.lastWrite, r.marked) }

// running says whether the session is running at the time now (Unix µs).
func (r *row) running(now int64, quiet time.Duration) bool {
	return lifetime.Runs(r.end, r.lastWritten(), now, quiet.Microseconds())
}

// duration is Entry.Duration in microseconds; 0 if not known. A running session lasts until now. One that has ended
// without an end marker ended with its last write; if only its marker is stored, its duration is not known.
func (r *row) duration(now int64, quiet time.Duration) int64 {
	end := r.end
	switch {
	case r.running(now, quiet):
		end = now
	case end == 0 && r.objects > 0:
		end = r.lastWritten()
	}
	if end == 0 {
		return 0
	}
	return max(0, end-r.start)
}

// micros returns a time as a row has it, Unix microseconds; the zero time becomes 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeOfMicros returns a row's time, Unix microseconds; 0 becomes the zero time.
func timeOfMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// cut shortens a text to a number of bytes.
func cut(text string, limit int) string { return text[:min(len(text), limit)] }
