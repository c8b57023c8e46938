package sink

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// batch sorts the events of one body by the stream they are stored in. Batches are pooled, with the memory they have
// grown to.
type batch struct {
	body    []byte
	scanner event.Scanner
	events  []foundEvent // in the order of the body

	destinations     []Destination    // of all sessions that events name
	destinationIndex map[string]int32 // by the session's name in the events
	streams          []stream
	streamIndex      map[stream]int32
	counts           []int // events of each stream
	lines            []spool.Lines

	unknown   int // events of a type this version does not know
	withoutAt int // events whose time is missing or absurd
	misplaced misplaced
}

// misplaced counts events that are not stored where their fields say they belong.
type misplaced struct {
	session int // they name no session, or one of another node
	id      int // their nodeId or jobId is not an ID
	crowded int // the batch has too many jobs and hours
}

// foundEvent is an event's bytes in the body and the index of its stream.
type foundEvent struct {
	start, end, stream int32
}

// stream holds the parts of a stream's key.
type stream struct {
	destination int32
	hour        int64 // since 1970, UTC
	job         rayid.Job
	hasJob      bool
}

const (
	// maxEvents and maxStreams bound the memory that a body of tiny events takes beside its own bytes. Ray sends at
	// most 10,000 events in a batch, of few jobs.
	maxEvents  = 1 << 17
	maxStreams = 1 << 12
	// maxSessions is the maximum number of sessions of one batch that are looked up. All events that Ray sends belong
	// to one.
	maxSessions = 16
	// maxAhead is the maximum time by which an event's clock may be ahead of the collector's.
	maxAhead = 48 * time.Hour
	// keepEvents is the largest batch whose memory is kept for the next.
	keepEvents = 1 << 14
)

// earliest is a time before Ray had export events.
var earliest = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

var batches = sync.Pool{New: func() any {
	return &batch{destinationIndex: make(map[string]int32), streamIndex: make(map[stream]int32)}
}}

func newBatch() *batch { return batches.Get().(*batch) }

// recycle empties the batch and returns it to the pool, unless it is so large that its memory is better freed. It must
// not be used any more.
func (b *batch) recycle() {
	if cap(b.events) > keepEvents {
		return
	}
	b.body, b.unknown, b.withoutAt, b.misplaced = nil, 0, 0, misplaced{}
	b.scanner.Reset(nil)
	clear(b.lines)
	clear(b.destinationIndex)
	clear(b.streamIndex)
	b.events, b.destinations, b.streams, b.counts, b.lines = b.events[:0], b.destinations[:0], b.streams[:0],
		b.counts[:0], b.lines[:0]
	batches.Put(b)
}

// scanBody finds all events of the body, and for each the stream that it belongs to. find returns the destination of
// events that name a session. It returns nil, or why the whole body is refused: it is no JSON array, has too many
// events, or events whose destination is not known yet. Events of several lines are put on one, in place.
func (b *batch) scanBody(body []byte, now time.Time, find func(session string) (Destination, error)) *refusal {
	b.body = body
	// Consecutive events mostly belong to one stream, so the last stream is compared before the maps are asked.
	var last stream
	var lastSession []byte // as the last event names it
	lastIndex := int32(-1) // of last in b.streams; -1: there is none to compare with
	foreign := false       // the events of lastSession are stored with another session
	for b.scanner.Reset(body); b.scanner.Next(); {
		e := b.scanner.Event()
		if len(b.events) == maxEvents {
			return b.refuse(http.StatusRequestEntityTooLarge, "too_large",
				fmt.Sprintf("more than %d events in one batch; send smaller batches", maxEvents))
		}
		if lastIndex < 0 || !bytes.Equal(e.Session, lastSession) {
			destination, err := b.findDestination(e.Session, find)
			if err != nil {
				return b.refuseSession(string(e.Session), err)
			}
			last.destination, lastSession, lastIndex, foreign = destination, e.Session, -1,
				b.destinations[destination].Session != string(e.Session)
		}
		if foreign {
			b.misplaced.session++
		}
		if e.Invalid != nil {
			b.misplaced.id++ // without a job, it is stored with the session's events
		}
		if e.Type == event.Unknown {
			b.unknown++
		}
		at := e.Time
		if at.Before(earliest) || at.After(now.Add(maxAhead)) {
			b.withoutAt++
			at = now
		}
		st := stream{destination: last.destination, hour: at.Unix() / 3600, job: e.Job, hasJob: e.HasJob}
		if st != last || lastIndex < 0 {
			last, lastIndex = st, b.indexOfStream(st, now)
		}
		if b.streams[lastIndex] != st { // there are too many streams: it is among the session's events
			b.misplaced.crowded++
		}
		if e.Multiline {
			event.OneLine(e.Raw)
		}
		b.counts[lastIndex]++
		b.events = append(b.events, foundEvent{int32(e.Offset), int32(e.Offset + len(e.Raw)), lastIndex})
	}
	if err := b.scanner.Err(); err != nil {
		return b.refuse(http.StatusBadRequest, "malformed",
			fmt.Sprintf("the body is not a JSON array of events: %v", err))
	}
	return nil
}

// refuseSession makes the refusal of a batch with events of a session of which it is not known where they are stored.
// It notes the session, for whose events the operator has to do something, if it has a session's name.
func (b *batch) refuseSession(session string, why error) *refusal {
	r := b.refuse(http.StatusServiceUnavailable, "session", fmt.Sprintf("%v; send the events again", why))
	if layout.CheckSessionName(session) == nil {
		r.session = session
	}
	return r
}

// refuse makes a refusal of the batch with this status. It counts the events, those that were not scanned yet too, as
// far as the body can be read. The scanner is at its end then.
func (b *batch) refuse(status int, reason, text string) *refusal {
	r := &refusal{status: status, reason: reason, text: text, events: len(b.events)}
	if status == http.StatusServiceUnavailable {
		r.retryAfter = retryLater
	}
	if b.scanner.Err() == nil {
		for r.events++; b.scanner.Next(); { // one more: the event at which the scan ended
			r.events++
		}
	}
	return r
}

// findDestination returns the index in b.destinations of where events that name a session are stored. Names that are no
// session's, and those beyond maxSessions, count as none.
func (b *batch) findDestination(name []byte, find func(session string) (Destination, error)) (int32, error) {
	if index, ok := b.destinationIndex[string(name)]; ok {
		return index, nil
	}
	session := string(name)
	if layout.CheckSessionName(session) != nil || len(b.destinationIndex) >= maxSessions {
		session = ""
	}
	d, err := find(session)
	if err != nil {
		return 0, err
	}
	index := int32(slices.Index(b.destinations, d))
	if index < 0 {
		index = int32(len(b.destinations))
		b.destinations = append(b.destinations, d)
	}
	if len(b.destinationIndex) < maxSessions {
		b.destinationIndex[string(name)] = index
	}
	return index, nil
}

// indexOfStream returns the index of a stream in b.streams, to which it is added if it is new. If the batch has too
// many streams, it is that of the session's events without a job, of the present hour.
func (b *batch) indexOfStream(st stream, now time.Time) int32 {
	if index, ok := b.streamIndex[st]; ok {
		return index
	}
	if len(b.streams) >= maxStreams {
		st = stream{destination: st.destination, hour: now.Unix() / 3600}
		if index, ok := b.streamIndex[st]; ok {
			return index
		}
	}
	index := int32(len(b.streams))
	b.streams = append(b.streams, st)
	b.counts = append(b.counts, 0)
	b.streamIndex[st] = index
	return index
}

// linesByStream makes each event a line, in place, and returns the lines sorted by stream. Within a stream they keep
// their order. key returns the key of a stream.
func (b *batch) linesByStream(key func(d Destination, st stream) string) []spool.Lines {
	next := 0
	for i, n := range b.counts {
		b.counts[i] = next // from here on: the index of the stream's next line
		next += n
	}
	keys := make([]string, len(b.streams))
	for i, st := range b.streams {
		keys[i] = key(b.destinations[st.destination], st)
	}
	b.lines = append(b.lines[:0], make([]spool.Lines, next)...)
	for _, e := range b.events {
		// The byte behind an event is a comma, a space or the array's end, which has been read.
		b.body[e.end] = '\n'
		b.lines[b.counts[e.stream]] = spool.Lines{Stream: keys[e.stream], Data: b.body[e.start : e.end+1]}
		b.counts[e.stream]++
	}
	return b.lines
}
