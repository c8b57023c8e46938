package metrics

import (
	"math"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Series is one series of a session, in blocks that are in memory.
type Series struct {
	labels labels.Labels
	parts  []part // in order of time
}

// part is what a block has of a series: times of the reads, and at which of these there was a new value.
type part struct {
	times  []int64
	at     []uint16
	values []float64
	// ended: the series was exposed in the block before, and is no more at the first of these reads.
	ended bool
}

// Labels returns its labels.
func (s *Series) Labels() labels.Labels { return s.labels }

// Reads returns how many reads its parts have.
func (s *Series) Reads() (n int) {
	for i := range s.parts {
		n += len(s.parts[i].times)
	}
	return n
}

// Values calls see with each new value, until it returns false.
func (s *Series) Values(see func(v float64) bool) {
	for i := range s.parts {
		for _, v := range s.parts[i].values {
			if !see(v) {
				return
			}
		}
	}
}

// AddStaleMarker ends the series at a time (Unix milliseconds), or right after its last read if that is later. It
// changes s, and returns how many bytes of memory the marker takes.
func (s *Series) AddStaleMarker(at int64) (bytes int64) {
	last := s.parts[len(s.parts)-1].times
	s.parts = append(s.parts, part{times: []int64{max(at, last[len(last)-1]+1)}, ended: true})
	return foundPartBytes + timeBytes
}

// minTime is the earliest time from which an Iterator may begin: it looks at the time before.
const minTime = math.MinInt64 + 1

// Iterator returns its samples from mint to maxt (Unix milliseconds, inclusive). Where it ends there is a stale marker.
func (s *Series) Iterator(mint, maxt int64) chunkenc.Iterator {
	return &iterator[int64]{Iterator: chunkenc.NewNopIterator(), parts: s.parts, last: mint - 1, maxt: maxt}
}

// iterator implements chunkenc.Iterator; what Ray's exporters do not have, native histograms and start times, is as in
// one without samples. Its type parameter is int64 always: go vet takes a Seek(int64) for a misspelt io.Seeker.
type iterator[millis int64] struct {
	chunkenc.Iterator
	parts []part
	part  int   // index of the part
	read  int   // index of the part's next read
	next  int   // index of the part's next change
	last  int64 // only samples after this time are returned
	maxt  int64 // only samples up to this time are returned
	time  int64 // of the last read
	value float64
}

// Next implements chunkenc.Iterator: it goes to the next sample up to maxt, read after read and part after part. Behind
// maxt it ends: no part is left.
func (i *iterator[millis]) Next() chunkenc.ValueType {
	for i.part < len(i.parts) {
		p := &i.parts[i.part]
		for i.read < len(p.times) {
			if i.stepPart(p) {
				if i.time > i.maxt {
					i.part = len(i.parts)
					return chunkenc.ValNone
				}
				i.last = i.time
				return chunkenc.ValFloat
			}
		}
		i.part, i.read, i.next = i.part+1, 0, 0
	}
	return chunkenc.ValNone
}

// stepPart goes to the next read of a part, or over all at which the series is not exposed. It reports whether there is
// a sample to return, in i.time and i.value: not if the series is not exposed, or if a part before had one as late. A
// read without a change has the value before. At the first read of a part that has ended the series, that is a stale
// marker.
func (i *iterator[millis]) stepPart(p *part) bool {
	changed := i.next < len(p.at) && int(p.at[i.next]) == i.read
	switch {
	case changed:
		i.value = p.values[i.next]
		i.next++
	case i.next == 0 && i.read == 0 && p.ended:
		i.value = staleMarker
	case i.next == 0 || value.IsStaleNaN(i.value):
		// It is not exposed until the next change.
		if i.next == len(p.at) {
			i.read = len(p.times)
		} else {
			i.read = int(p.at[i.next])
		}
		return false
	}
	i.time = p.times[i.read]
	i.read++
	return i.time > i.last
}

// Seek implements chunkenc.Iterator: it goes to the first sample at or after t (Unix milliseconds), and stays where it
// is if that is one already.
func (i *iterator[millis]) Seek(t millis) chunkenc.ValueType {
	if i.time >= int64(t) && i.time == i.last {
		return chunkenc.ValFloat // it is there
	}
	for ; i.part < len(i.parts); i.part, i.read, i.next = i.part+1, 0, 0 {
		p := &i.parts[i.part]
		if len(p.times) == 0 || p.times[len(p.times)-1] < int64(t) {
			continue
		}
		// The value at that read is that of the last change before it.
		i.read = max(i.read, sort.Search(len(p.times), func(n int) bool { return p.times[n] >= int64(t) }))
		i.next = sort.Search(len(p.at), func(n int) bool { return int(p.at[n]) >= i.read })
		if i.next > 0 {
			i.value = p.values[i.next-1]
		}
		break
	}
	return i.Next()
}

// At implements chunkenc.Iterator.
func (i *iterator[millis]) At() (int64, float64) { return i.time, i.value }

// AtT implements chunkenc.Iterator.
func (i *iterator[millis]) AtT() int64 { return i.time }
