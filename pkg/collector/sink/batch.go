package sink

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/event"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/spool"
)

// batch sorts the events of one body by the whole they are stored in. Batches are used again, with what they have grown to.
type batch struct {
	body    []byte
	scanner event.Scanner
	places  []place // of the events, as they stand in the body

	sessions     []string
	sessionIndex map[string]int32
	wholes       []whole
	wholeIndex   map[whole]int32
	counts       []int // events of each whole
	pieces       []spool.Piece

	unknown   int // events of a type this version does not know
	withoutAt int // events whose time is missing or absurd
}

// place is one event's bytes in the body and the index of its whole.
type place struct {
	start, end, whole int32
}

// whole is what a whole's key is made of.
type whole struct {
	session int32
	hour    int64 // since 1970, UTC
	job     rayid.Job
	hasJob  bool
}

const (
	// maxEvents and maxWholes bound what a body of tiny events takes beside its own bytes. Ray sends at most 10,000 events in a batch,
	// of few jobs.
	maxEvents = 1 << 17
	maxWholes = 1 << 12
	// maxAhead is how far an event's clock may be ahead of the collector's.
	maxAhead = 48 * time.Hour
	// keepEvents is the largest batch whose memory is kept for the next.
	keepEvents = 1 << 14
)

// earliest is before Ray had export events.
var earliest = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

var batches = sync.Pool{New: func() any {
	return &batch{sessionIndex: make(map[string]int32), wholeIndex: make(map[whole]int32)}
}}

func newBatch() *batch { return batches.Get().(*batch) }

// free gives the batch back; nothing of it may be used any more.
func (b *batch) free() {
	if cap(b.places) > keepEvents {
		return
	}
	b.body, b.unknown, b.withoutAt = nil, 0, 0
	b.scanner.Reset(nil)
	clear(b.pieces)
	clear(b.sessionIndex)
	clear(b.wholeIndex)
	b.places, b.sessions, b.wholes, b.counts, b.pieces = b.places[:0], b.sessions[:0], b.wholes[:0], b.counts[:0], b.pieces[:0]
	batches.Put(b)
}

// scan checks all events of the body and says why the first bad one is.
func (b *batch) scan(body []byte, now time.Time) *problem {
	b.body = body
	var last whole
	lastSession, lastWhole := "", int32(-1)
	for b.scanner.Reset(body); b.scanner.Next(); {
		e := b.scanner.Event()
		if len(b.places) == maxEvents {
			return b.refuse(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("more than %d events in one batch; send smaller batches", maxEvents))
		}
		if string(e.Session) != lastSession || lastWhole < 0 {
			index, err := b.session(e.Session)
			if err != nil {
				return b.refuse(http.StatusBadRequest, "session", fmt.Sprintf("event %d of the batch: %v", len(b.places), err))
			}
			last.session, lastSession, lastWhole = index, b.sessions[index], -1
		}
		if e.Invalid != nil {
			return b.refuse(http.StatusBadRequest, "id", fmt.Sprintf("event %d of the batch: %v", len(b.places), e.Invalid))
		}
		if e.Type == event.Unknown {
			b.unknown++
		}
		at := e.Time
		if at.Before(earliest) || at.After(now.Add(maxAhead)) {
			b.withoutAt++
			at = now
		}
		w := whole{session: last.session, hour: at.Unix() / 3600, job: e.Job, hasJob: e.HasJob}
		if w != last || lastWhole < 0 {
			index, ok := b.whole(w)
			if !ok {
				return b.refuse(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("events of more than %d jobs and hours in one batch; send smaller batches", maxWholes))
			}
			last, lastWhole = w, index
		}
		if e.Multiline {
			event.OneLine(e.Raw)
		}
		b.counts[lastWhole]++
		b.places = append(b.places, place{int32(e.Offset), int32(e.Offset + len(e.Raw)), lastWhole})
	}
	if err := b.scanner.Err(); err != nil {
		return b.refuse(http.StatusBadRequest, "malformed", fmt.Sprintf("the body is not a JSON array of events: %v", err))
	}
	return nil
}

// refuse counts the events that can still be found.
func (b *batch) refuse(status int, reason, text string) *problem {
	p := &problem{status: status, reason: reason, text: text, events: len(b.places)}
	if b.scanner.Err() == nil {
		for p.events++; b.scanner.Next(); {
			p.events++
		}
	}
	return p
}

func (b *batch) session(name []byte) (int32, error) {
	if index, ok := b.sessionIndex[string(name)]; ok {
		return index, nil
	}
	if len(name) == 0 {
		return 0, errors.New("no sessionName")
	}
	session := string(name)
	if err := layout.CheckSessionName(session); err != nil {
		return 0, err
	}
	index := int32(len(b.sessions))
	b.sessions = append(b.sessions, session)
	b.sessionIndex[session] = index
	return index, nil
}

func (b *batch) whole(w whole) (int32, bool) {
	if index, ok := b.wholeIndex[w]; ok {
		return index, true
	}
	if len(b.wholes) == maxWholes {
		return 0, false
	}
	index := int32(len(b.wholes))
	b.wholes = append(b.wholes, w)
	b.counts = append(b.counts, 0)
	b.wholeIndex[w] = index
	return index, true
}

// lines makes each event a line, where it stands, and gives them sorted by whole. Their order within one is kept.
func (b *batch) lines(key func(session string, w whole) string) []spool.Piece {
	next := 0
	for i, n := range b.counts {
		b.counts[i] = next // from here on, where the whole's next piece goes
		next += n
	}
	keys := make([]string, len(b.wholes))
	for i, w := range b.wholes {
		keys[i] = key(b.sessions[w.session], w)
	}
	b.pieces = append(b.pieces[:0], make([]spool.Piece, next)...)
	for _, p := range b.places {
		// What follows an event, a comma, a space or the array's end, has been read.
		b.body[p.end] = '\n'
		b.pieces[b.counts[p.whole]] = spool.Piece{Whole: keys[p.whole], Data: b.body[p.start : p.end+1]}
		b.counts[p.whole]++
	}
	return b.pieces
}
