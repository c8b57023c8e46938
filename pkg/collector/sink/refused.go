package sink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Refused remembers batches that were refused and, as far as one can tell, not accepted later. Each of Ray's agents
// sends a batch again until it is accepted, and only then the next; so once a session's events are accepted, those that
// were refused before have been accepted too. It is safe for concurrent use.
type Refused struct {
	mu       sync.Mutex
	sessions map[string]refusals // by session; "" is of batches whose session played no part
}

// refusals are those of one session since its events were accepted last.
type refusals struct {
	batches     int
	since, last time.Time
	why         string // of the last
}

// maxRefusedSessions bounds the sessions that are told apart: events can name any.
const maxRefusedSessions = 64

// Add notes that a batch was refused at the time now, and why. session is the one that the batch was refused for, "" if
// the refusal is about no session.
func (r *Refused) Add(session, why string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = make(map[string]refusals)
	}
	if _, ok := r.sessions[session]; !ok && len(r.sessions) >= maxRefusedSessions {
		session = ""
	}
	refused := r.sessions[session]
	if refused.batches == 0 {
		refused.since = now
	}
	refused.batches, refused.last, refused.why = refused.batches+1, now, why
	r.sessions[session] = refused
}

// forgetAccepted forgets the refusals of the sessions whose events a batch had, and those that no session caused: the
// agents have sent these batches again before this one.
func (r *Refused) forgetAccepted(sessions map[string]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sessions) == 0 {
		return
	}
	delete(r.sessions, "")
	for session := range sessions {
		delete(r.sessions, session)
	}
}

// lasting is how long a session's batches must be refused, and still be refused, before that counts as lasting.
const lasting = time.Minute

// Lasting is why batches are refused that have been refused for the time lasting, up to now; of several sessions it is
// about the one that has been refused longest. It is "" if there are none. With unplaced only those count that are
// refused for want of their session: batches without one are refused for another reason.
func (r *Refused) Lasting(now time.Time, unplaced bool) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first time.Time
	for session, refusal := range r.sessions {
		if now.Sub(refusal.since) < lasting || now.Sub(refusal.last) > lasting || (unplaced && session == "") {
			continue
		}
		if first.IsZero() || refusal.since.Before(first) {
			first, why = refusal.since, refusal.why
		}
	}
	return why
}

// Err returns an error if batches were refused and not accepted later, with up to three of the reasons.
func (r *Refused) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	batches, why := 0, make(map[string]bool)
	for _, refusal := range r.sessions {
		batches += refusal.batches
		why[refusal.why] = true
	}
	if batches == 0 {
		return nil
	}
	reasons := slices.Sorted(maps.Keys(why))
	if len(reasons) > 3 {
		reasons = append(reasons[:3], "…")
	}
	if batches == 1 {
		return errors.New("1 batch of events was refused and not accepted later: " + strings.Join(reasons, "; "))
	}
	return fmt.Errorf("%d batches of events were refused and not accepted later: %s", batches,
		strings.Join(reasons, "; "))
}
