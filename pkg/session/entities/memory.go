package entities

import "unsafe"

// The memory of rows. Sessions usually have some thousands of them, but only memory bounds how many there may be.

// rowOf is a pointer to a row of type E.
type rowOf[E any] interface {
	*E
	MemoryBytes() int64
}

// mapEntry estimates the bytes of a map's entry besides its key's and value's own.
const mapEntry = 64

func stringBytes(all ...string) (n int64) {
	for _, s := range all {
		n += int64(len(s))
	}
	return n
}

func stringsBytes(m map[string]string) (n int64) {
	for k, v := range m {
		n += mapEntry + int64(len(k)+len(v))
	}
	return n
}

func numbersBytes(m map[string]float64) (n int64) {
	for k := range m {
		n += mapEntry + int64(len(k))
	}
	return n
}

// MemoryBytes estimates the memory of the row, as do the methods of the other rows.
func (a *Actor) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*a)) + stringBytes(a.Name, a.Namespace, a.Class, a.RuntimeEnv, a.CallSite) +
		numbersBytes(a.Resources) +
		stringsBytes(a.LabelSelector) + int64(len(a.Parent))
	for i := range a.Transitions {
		t := &a.Transitions[i]
		n += int64(unsafe.Sizeof(*t)) + stringBytes(t.State, t.ReprName, t.RestartReason) + int64(len(t.DeathCause))
	}
	return n
}

// MemoryBytes likewise.
func (n *Node) MemoryBytes() int64 {
	bytes := int64(unsafe.Sizeof(*n)) + stringBytes(n.IP, n.Hostname, n.Name, n.InstanceID, n.InstanceType) +
		stringsBytes(n.Labels)
	for i := range n.Transitions {
		t := &n.Transitions[i]
		bytes += int64(unsafe.Sizeof(*t)) + stringBytes(t.State, t.SubState, t.DeathReason, t.DeathMessage) +
			numbersBytes(t.Resources)
	}
	return bytes
}

// MemoryBytes likewise.
func (j *Job) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*j)) + stringBytes(j.Entrypoint, j.RuntimeEnv) + stringsBytes(j.Metadata)
	for i := range j.Transitions {
		t := &j.Transitions[i]
		n += int64(unsafe.Sizeof(*t)) + stringBytes(t.State)
	}
	return n
}

// MemoryBytes likewise.
func (s *Submission) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*s)) + stringBytes(s.ID, s.Entrypoint, s.RuntimeEnv) + stringsBytes(s.Metadata) +
		numbersBytes(s.Resources)
	for i := range s.Transitions {
		t := &s.Transitions[i]
		n += int64(unsafe.Sizeof(*t)) + stringBytes(t.State, t.Message, t.ErrorType, t.AgentAddress)
	}
	return n
}

// MemoryBytes likewise.
func (w *Worker) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*w)) + stringBytes(w.Type)
	for i := range w.Transitions {
		t := &w.Transitions[i]
		n += int64(unsafe.Sizeof(*t)) + stringBytes(t.State, t.ExitType, t.ExitDetail)
	}
	return n
}

// MemoryBytes likewise.
func (g *PlacementGroup) MemoryBytes() int64 {
	n := int64(unsafe.Sizeof(*g)) + stringBytes(g.Name, g.Namespace, g.Strategy)
	for i := range g.Bundles {
		b := &g.Bundles[i]
		n += int64(unsafe.Sizeof(*b)) + numbersBytes(b.Resources) + stringsBytes(b.LabelSelector)
	}
	for i := range g.Transitions {
		t := &g.Transitions[i]
		n += int64(unsafe.Sizeof(*t)) + stringBytes(t.State, t.SchedulingState) + int64(len(t.Placements))*mapEntry
	}
	return n
}

// MemoryBytes likewise.
func (p *PlatformEvent) MemoryBytes() int64 {
	return int64(unsafe.Sizeof(*p)) + stringBytes(p.ID, p.Severity, p.Platform, p.Component, p.ObjectKind, p.ObjectName,
		p.Reason, p.Message) +
		stringsBytes(p.Metadata) + stringsBytes(p.CustomFields) + mapEntry
}

// rowsBytes estimates the memory of all rows of a kind.
func rowsBytes[E any, P rowOf[E]](all []E) (n int64) {
	for i := range all {
		n += P(&all[i]).MemoryBytes()
	}
	return n
}
