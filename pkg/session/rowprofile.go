package session

import "bytes"

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

// Profile reads the attempt's profile events, in the order they ended, into out, whose slice is used again. ok is false where there are none.
func (r Row) Profile(out *Profile) (ok bool) {
	by := r.p.profiler[r.i]
	if by == 0 {
		return false
	}
	v := &r.t.texts
	from := r.t.profilers.at(int(by))
	out.Kind, out.ID, out.IP = v.get(from.kind), v.get(from.id), v.get(from.ip)
	out.Events = out.Events[:0]
	for _, e := range r.arenas().profileEvents(nil, v, r.p.profile[r.i]) {
		if e.end <= r.at {
			out.Events = append(out.Events, ProfileEvent{Start: e.start, End: e.end, Name: v.get(e.name), Extra: r.extra(e.extra)})
		}
	}
	return len(out.Events) > 0 || r.at == 1<<63-1
}

// extra puts the task's ID back into extra data.
func (r Row) extra(id textID) []byte {
	if id == 0 {
		return []byte("{}")
	}
	text := r.t.texts.get(id)
	if bytes.IndexByte(text, ownIDMark) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{ownIDMark}, []byte(r.ID().String()))
}
