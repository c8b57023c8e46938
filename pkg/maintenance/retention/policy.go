package retention

import (
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Policy says which sessions are removed, and when. A nil *Policy keeps all.
type Policy struct {
	Rules Rules
	// Age is how long sessions are kept for which no rule holds; 0: forever.
	Age time.Duration
	// Note is what people said about a session.
	Note func(layout.Session) notes.Note
}

// Fate is what becomes of a session.
type Fate struct {
	Pinned bool
	// Expires is when the session may be removed; zero: never, or it has not ended.
	Expires time.Time
	// Keep is the time from the session's last write to Expires.
	Keep time.Duration
	// Why is a clause such as "it ended 41 days ago, and rule 2 keeps 30d"; "" if the policy never removes anything.
	Why string
}

// Expired says that the session would be removed now, unless it is pinned.
func (f Fate) Expired(now time.Time) bool { return !f.Expires.IsZero() && f.Expires.Before(now) }

// Due says that the session may be removed now.
func (f Fate) Due(now time.Time) bool { return f.Expired(now) && !f.Pinned }

// Days returns how many whole days are left until a session expires, at least 0; ok is false if it does not expire.
func (f Fate) Days(now time.Time) (days int, ok bool) {
	if f.Expires.IsZero() || f.Pinned {
		return 0, false
	}
	return max(0, int(f.Expires.Sub(now)/(24*time.Hour))), true
}

// MayExpire says whether a session has expired by the shortest of all terms, so that it may have expired by the term
// that is for it. Only then the session's outcome must be known, which may take a request to the store.
func (p *Policy) MayExpire(e catalog.Entry, now time.Time) bool {
	if p == nil {
		return false
	}
	shortest := p.Age
	for _, r := range p.Rules {
		if r.keep != 0 && (shortest == 0 || r.keep < shortest) {
			shortest = r.keep
		}
	}
	return shortest != 0 && Due(e, shortest, now)
}

// Of returns the fate of a session: whether it is pinned, until when the first rule for it keeps it, or else the
// policy's age, and why. A session that has not ended does not expire.
func (p *Policy) Of(e catalog.Entry, now time.Time) Fate {
	pin := checkPin(p.note(e.Ref))
	f := Fate{Pinned: pin != nil}
	if p == nil || len(p.Rules) == 0 && p.Age == 0 {
		return f
	}
	outcome := e.Outcome
	if findings.GivenUp(e.Cause) {
		outcome = "" // that it is unknown was stored because no server could find it out: another rule may be for it
	}
	rest := Term{Keep: p.Age, Why: "no rule is for it, and others are kept forever"}
	if p.Age != 0 {
		rest.Why = fmt.Sprintf("it is kept %s", (*settings.Duration)(&p.Age))
	}
	term := p.Rules.Of(e, outcome, rest)
	// A session that has only its marker has no end: its removal was interrupted, or its collector stored nothing.
	last := e.Latest()
	if e.Running || !e.Described || last.IsZero() {
		f.Why = "it has not ended"
		return f
	}
	f.Why = fmt.Sprintf("it ended %s ago, and %s", daysText(now.Sub(last)), term.Why)
	if pin != nil {
		f.Why = pin.Error()
	}
	if term.Keep != 0 {
		f.Expires, f.Keep = last.Add(term.Keep), term.Keep
	}
	return f
}

// checkPin returns nil if a session with this note may be removed, else an error that is ErrPinned.
func checkPin(n notes.Note) error {
	switch {
	case n.Damaged:
		return fmt.Errorf("%w, or may be: its note cannot be read; write a new note to replace it", ErrPinned)
	case n.Pinned:
		return ErrPinned
	}
	return nil
}

// note returns the note on a session; an empty one without a policy or notes.
func (p *Policy) note(ref layout.Session) notes.Note {
	if p == nil || p.Note == nil {
		return notes.Note{}
	}
	return p.Note(ref)
}

// daysText returns a duration as text: in hours if it is less than two days, otherwise in days.
func daysText(d time.Duration) string {
	if d < 48*time.Hour {
		return human.Count(max(0, int(d/time.Hour)), "hour")
	}
	return human.Count(int(d/(24*time.Hour)), "day")
}
