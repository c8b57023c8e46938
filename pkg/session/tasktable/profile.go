package tasktable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// Profile is an attempt's profile events and the process that sent them.
type Profile struct {
	Kind   []byte // worker or driver
	ID     []byte // binary
	IP     []byte // of the node
	Events []ProfileEvent
}

// ProfileEvent is one span of time.
type ProfileEvent struct {
	Start, End int64 // Unix nanoseconds
	Name       []byte
	// Extra is a JSON object as Ray's State API answers it.
	Extra []byte
}

// maxExtraBytes is how much extra data is shown of an attempt, in bytes. Of more, that of the last events is; the
// others have none.
const maxExtraBytes = 4 << 20

// Profile reads the attempt's profile events that had ended by the row's moment into out, whose slice it reuses, in the
// order in which they ended. ok is false if no event tells of the process, or if the row's moment is before the
// session's end and none had ended by then.
func (r Row) Profile(out *Profile) (ok bool) {
	by := r.p.profiler[r.i]
	if by == 0 {
		return false
	}
	v := &r.t.strings
	from := r.t.profilers.At(int(by))
	out.Kind, out.ID, out.IP = v.Get(from.Kind), v.Get(from.ID), v.Get(from.IP)
	out.Events = out.Events[:0]
	all := r.arenas().profileEvents(nil, v, r.p.profile[r.i], r.at)
	shown := len(all)
	for left := maxExtraBytes; shown > 0; shown-- {
		extra := v.Get(all[shown-1].Extra)
		left -= len(extra) + bytes.Count(extra, []byte{eventjson.OwnIDMark})*2*rayid.TaskSize
		if left < 0 {
			break
		}
	}
	for i, e := range all {
		if i < shown {
			e.Extra = 0
		}
		out.Events = append(out.Events, ProfileEvent{Start: e.Start, End: e.End, Name: v.Get(e.Name),
			Extra: r.extraWithOwnID(e.Extra)})
	}
	return len(out.Events) > 0 || r.at == math.MaxInt64
}

// extraWithOwnID returns extra data with the task's ID put back in. The decoder replaces it by a mark, so that tasks
// can share the string.
func (r Row) extraWithOwnID(id stringtable.ID) []byte {
	if id == 0 {
		return []byte("{}")
	}
	text := r.t.strings.Get(id)
	if bytes.IndexByte(text, eventjson.OwnIDMark) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{eventjson.OwnIDMark}, []byte(r.ID().String()))
}

// Profile events are kept as blocks of bytes, one for each different event that brought some: the reference to the
// previous block, the length of the rest, then for each profile event four varints: start after the previous one's
// start, duration, name, extra data.

// maxProfileEvents is how many profile events of an attempt are shown, the last ones
// (RAY_task_events_max_num_profile_events_per_task). A table that is stored has no others.
const maxProfileEvents = 1000

// appendProfiles encodes profile events, each time as the difference to the one before.
func appendProfiles(b []byte, events []eventjson.ProfileEvent) []byte {
	var before int64
	for _, e := range events {
		b = binary.AppendVarint(b, e.Start-before)
		b = binary.AppendVarint(b, e.End-e.Start)
		b = binary.AppendUvarint(b, uint64(e.Name))
		b = binary.AppendUvarint(b, uint64(e.Extra))
		before = e.Start
	}
	return b
}

// addProfile stores profile events, unless the same ones were stored shortly before.
func (s *shard) addProfile(p *page, i int, events []eventjson.ProfileEvent) {
	s.encoded = appendProfiles(s.encoded[:0], events)
	s.addProfileBlock(p, i, s.encoded)
}

// addProfileBlock stores profile events that appendProfiles has encoded, for row i of page p, unless the same block was
// stored shortly before.
func (s *shard) addProfileBlock(p *page, i int, events []byte) {
	head := p.profile[i]
	for at, n := head, 0; at != 0 && n < maxSearched; n++ {
		next, known := s.profileBlock(at)
		if bytes.Equal(known, events) {
			return
		}
		at = next
	}
	p.profile[i] = s.putProfile(head, events)
}

// putProfile stores a block in front of the list that begins at next, and returns the new beginning.
func (a *arenas) putProfile(next arenaRef, events []byte) arenaRef {
	var short [256]byte // few blocks are longer
	head := binary.AppendUvarint(short[:0], uint64(next))
	head = binary.AppendUvarint(head, uint64(len(events)))
	return refTo(a.bytes.Put(append(head, events...)))
}

// profileBlock reads the block at a reference, and returns its events, still encoded. next is the block stored before
// it, 0 if it is the last one.
func (a *arenas) profileBlock(at arenaRef) (next arenaRef, events []byte) {
	b := a.bytes.From(stringtable.Ref(at.index()))
	before, n := binary.Uvarint(b)
	length, m := binary.Uvarint(b[n:])
	return arenaRef(before), b[n+m:][:length]
}

// profileEvents appends to out an attempt's profile events that had ended at a moment (Unix nanoseconds), in the order
// in which they ended, each once, the last maxProfileEvents of them. head is the attempt's last block of events.
//
// Ray shows them in the order in which they came, which for each process is the order in which they ended.
func (a *arenas) profileEvents(out []eventjson.ProfileEvent, t *stringtable.View,
	head arenaRef, moment int64) []eventjson.ProfileEvent {
	from := len(out)
	for at := head; at != 0; {
		next, b := a.profileBlock(at)
		for before := int64(0); len(b) > 0; {
			var e eventjson.ProfileEvent
			if b, before, _ = readProfile(b, before, &e); e.End <= moment {
				out = append(out, e)
			}
		}
		at = next
	}
	all := out[from:]
	compare := func(x, y eventjson.ProfileEvent) int {
		return cmp.Or(cmp.Compare(x.End, y.End), cmp.Compare(y.Start, x.Start),
			bytes.Compare(t.Get(x.Name), t.Get(y.Name)),
			bytes.Compare(t.Get(x.Extra), t.Get(y.Extra)))
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

// readProfile reads the first profile event of a block into e. Its start is stored as the difference to before, the
// start of the event that precedes it. rest is the block behind it. If the event is malformed, ok is false and rest is
// nil.
func readProfile(b []byte, before int64, e *eventjson.ProfileEvent) (rest []byte, start int64, ok bool) {
	delta, n1 := binary.Varint(b)
	length, n2 := binary.Varint(b[max(0, n1):])
	if n1 <= 0 || n2 <= 0 {
		return nil, before, false
	}
	b = b[n1+n2:]
	name, n3 := binary.Uvarint(b)
	extra, n4 := binary.Uvarint(b[max(0, n3):])
	if n3 <= 0 || n4 <= 0 || name > math.MaxUint32 || extra > math.MaxUint32 {
		return nil, before, false
	}
	e.Start = before + delta
	e.End = e.Start + length
	e.Name, e.Extra = stringtable.ID(name), stringtable.ID(extra)
	return b[n3+n4:], e.Start, true
}
