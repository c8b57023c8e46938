// Package logthrottle limits how often an error that repeats is logged, so that it does not fill the log.
package logthrottle

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Gap is the time within which one Throttle logs at most its burst.
const Gap = 30 * time.Second

// Throttle logs warnings of one kind: the first at once, then at most Burst every Gap. Log must be set. Safe for
// concurrent use.
type Throttle struct {
	Log logrus.FieldLogger
	// Burst is for warnings that each tell of something else, such as one of many files. 0 means 1.
	Burst int

	mu      sync.Mutex
	began   time.Time // when the first line of the current gap came
	lines   int       // since then
	skipped int       // warnings since the last line
}

// Warn logs the text, with err if that is not nil, or only counts it. The next line says how many were skipped.
func (t *Throttle) Warn(now time.Time, text string, err error) {
	log, ok := t.Allow(now)
	if !ok {
		return
	}
	if err != nil {
		log = log.WithError(err)
	}
	log.Warn(text)
}

// Allow says whether a line may be logged now, which the caller then writes to the logger that it returns. ok is false
// if Burst lines were logged within the last Gap: then the line counts as skipped.
func (t *Throttle) Allow(now time.Time) (logrus.FieldLogger, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() || now.Sub(t.began) >= Gap {
		t.began, t.lines = now, 0
	}
	if t.lines >= max(t.Burst, 1) {
		t.skipped++
		return nil, false
	}
	log := t.Log
	if t.skipped > 0 {
		log = log.WithField("skipped since the last line", t.skipped)
	}
	t.lines++
	t.skipped = 0
	return log, true
}

// Reset makes the next warning the first again.
func (t *Throttle) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.skipped = time.Time{}, 0
}
