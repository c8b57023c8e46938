package session

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// Profile events are kept as blocks of bytes, one for each different event that brought some: the previous block's reference plus one,
// the length of the rest, then for each profile event four varints: start after the previous one's start, duration, name, extra data.

// profileEvent is ProfileEventEntry of Ray's common.proto.
type profileEvent struct {
	start, end int64 // Unix nanoseconds
	name       textID
	// extra is JSON as Ray's State API answers it; 0 where it is {}. The ID of the task itself is written as ownIDMark.
	extra textID
}

// ownIDMark stands for the hex of the task's own ID in extra data, so that extra data repeats from task to task. JSON never holds it.
const ownIDMark = 0

// maxProfileEvents is how many profile events of an attempt are shown, the last ones (RAY_task_events_max_num_profile_events_per_task).
const maxProfileEvents = 1000

func appendProfile(b []byte, before int64, e profileEvent) []byte {
	b = binary.AppendVarint(b, e.start-before)
	b = binary.AppendVarint(b, e.end-e.start)
	b = binary.AppendUvarint(b, uint64(e.name))
	return binary.AppendUvarint(b, uint64(e.extra))
}

// addProfile stores profile events, unless the same ones were stored before.
func (s *taskShard) addProfile(p *taskPage, i int, events []byte) {
	for at := p.profile[i]; at != 0; {
		next, known := s.block(at)
		if bytes.Equal(known, events) {
			return
		}
		at = next
	}
	p.profile[i] = s.putProfile(p.profile[i], events)
}

// putProfile stores a block before the one that next leads to, and gives what leads to it.
func (a *taskArenas) putProfile(next uint32, events []byte) uint32 {
	head := binary.AppendUvarint(make([]byte, 0, 2*binary.MaxVarintLen64+len(events)), uint64(next))
	head = binary.AppendUvarint(head, uint64(len(events)))
	return uint32(a.bytes.put(append(head, events...))) + 1
}

// block reads the block that at, a reference plus one, leads to.
func (a *taskArenas) block(at uint32) (next uint32, events []byte) {
	b := a.bytes.from(arenaRef(at - 1))
	before, n := binary.Uvarint(b)
	length, m := binary.Uvarint(b[n:])
	return uint32(before), b[n+m:][:length]
}

// profileEvents appends an attempt's profile events to out in the order they ended, each once.
//
// Ray shows them in the order they came, which for each process is the order they ended.
func (a *taskArenas) profileEvents(out []profileEvent, t *textView, head uint32) []profileEvent {
	from := len(out)
	for at := head; at != 0; {
		next, b := a.block(at)
		for before := int64(0); len(b) > 0; {
			var e profileEvent
			b, before = readProfile(b, before, &e)
			out = append(out, e)
		}
		at = next
	}
	all := out[from:]
	compare := func(x, y profileEvent) int {
		return cmp.Or(cmp.Compare(x.end, y.end), cmp.Compare(y.start, x.start), bytes.Compare(t.get(x.name), t.get(y.name)),
			bytes.Compare(t.get(x.extra), t.get(y.extra)))
	}
	if !slices.IsSortedFunc(all, compare) {
		slices.SortFunc(all, compare)
	}
	all = slices.Compact(all)
	if len(all) > maxProfileEvents {
		all = all[len(all)-maxProfileEvents:]
	}
	return append(out[:from], all...)
}

func readProfile(b []byte, before int64, e *profileEvent) (rest []byte, start int64) {
	delta, n := binary.Varint(b)
	b = b[n:]
	e.start = before + delta
	length, n := binary.Varint(b)
	b = b[n:]
	e.end = e.start + length
	name, n := binary.Uvarint(b)
	b = b[n:]
	extra, n := binary.Uvarint(b)
	e.name, e.extra = textID(name), textID(extra)
	return b[n:], e.start
}
