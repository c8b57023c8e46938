// Package logthrottle keeps an error that repeats from filling the log.
package logthrottle

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Gap is the least time between two lines of one Throttle.
const Gap = 30 * time.Second

// Throttle logs warnings of one kind: the first at once, then at most one every Gap. Log must be set. Safe for concurrent use.
type Throttle struct {
	Log logrus.FieldLogger

	mu      sync.Mutex
	last    time.Time
	skipped int // warnings since then
}

// Warn logs the text, with err if that is not nil, or only counts it. The next line says how many were skipped.
func (t *Throttle) Warn(now time.Time, text string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < Gap {
		t.skipped++
		return
	}
	log := t.Log
	if t.skipped > 0 {
		log = log.WithField("skipped since the last line", t.skipped)
	}
	if err != nil {
		log = log.WithError(err)
	}
	log.Warn(text)
	t.last, t.skipped = now, 0
}

// Reset makes the next warning the first again.
func (t *Throttle) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.skipped = time.Time{}, 0
}
