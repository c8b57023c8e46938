package snapshots

import "slices"

// hold keeps a parsed value in memory, and drops the longest unused ones beyond the bound.
func (s *Set) hold(snap *Snapshot, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(snap)
	snap.bytes = bytes
	s.cached = append(s.cached, snap)
	s.cachedBytes += bytes
	for s.cachedBytes > maxCachedBytes && len(s.cached) > 1 {
		s.drop(s.cached[0])
	}
}

// drop frees a snapshot's value; s.mu must be held.
func (s *Set) drop(snap *Snapshot) {
	if s.unlist(snap) {
		snap.parsed.Forget()
	}
}

// unlist takes a snapshot out of those that are held, if it is one; s.mu must be held.
func (s *Set) unlist(snap *Snapshot) bool {
	i := slices.Index(s.cached, snap)
	if i < 0 {
		return false
	}
	s.cached = slices.Delete(s.cached, i, i+1)
	s.cachedBytes -= snap.bytes
	return true
}

// touch says that a snapshot is the one used last; false if it is not held. s.mu must be held.
func (s *Set) touch(snap *Snapshot) bool {
	i := slices.Index(s.cached, snap)
	if i >= 0 {
		s.cached = append(slices.Delete(s.cached, i, i+1), snap)
	}
	return i >= 0
}

// Shrink frees everything that can be read again.
func (s *Set) Shrink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.cached) > 0 {
		s.drop(s.cached[0])
	}
	s.series.forget()
}

// Adopt takes over what a former set of the same session holds in memory of the same objects. It does not change the
// former set.
func (s *Set) Adopt(former *Set) {
	former.mu.Lock()
	cached, refused := slices.Clone(former.cached), slices.Clone(former.refused)
	var malformed []*Snapshot
	for _, versions := range former.byURL {
		for _, old := range versions {
			if p, ok := old.parsed.Loaded(); ok && p.malformed != nil {
				malformed = append(malformed, old)
			}
		}
	}
	former.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = refused
	for _, old := range malformed {
		s.replace(old)
	}
	for _, old := range cached {
		if s.replace(old) {
			s.cached = append(s.cached, old)
			s.cachedBytes += old.bytes
		}
	}
	s.series.adopt(&former.series)
}

// replace puts a former set's snapshot in the place of the same one; false if there is none. s.mu must be held.
func (s *Set) replace(old *Snapshot) bool {
	for i, snap := range s.byURL[old.url] {
		if snap.key == old.key && snap.size == old.size && snap.etag == old.etag {
			s.byURL[old.url][i] = old
			return true
		}
	}
	return false
}

// MemoryBytes estimates the memory the set holds now.
func (s *Set) MemoryBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nameBytes + s.cachedBytes + s.series.memoryBytes()
}

// SeriesContents changes with the chunks of series that there are.
func (s *Set) SeriesContents() uint64 { return s.series.hours.Contents() }
