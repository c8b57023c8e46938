package logs

import (
	"fmt"
	"time"
)

// waitingSessions are the sessions of a scan whose logs wait because their node is not known. There may be thousands of
// folders.
type waitingSessions struct {
	count, withLogs   int
	first, firstError error // of all of them, and of those that have logs
}

func (w *waitingSessions) add(session string, err error, hasLogs bool) {
	err = fmt.Errorf("%s: %w", session, err)
	w.count++
	if w.first == nil {
		w.first = err
	}
	if !hasLogs {
		return
	}
	w.withLogs++
	if w.firstError == nil {
		w.firstError = err
	}
}

// unread is the error of Tailer.Unread.
func (w *waitingSessions) unread() error {
	switch {
	case w.withLogs == 0:
		return nil
	case w.withLogs == 1:
		return fmt.Errorf("the logs of %w", w.firstError)
	}
	return fmt.Errorf("the logs of %d sessions, such as %w", w.withLogs, w.firstError)
}

// told remembers what a scan found beside logs, and logs a line for each kind, however many folders there are.
func (t *Tailer) told(waiting waitingSessions, notRay map[string]bool) {
	t.mu.Lock()
	stay := 0 // Ray may just be filling a new one
	for session := range notRay {
		if t.notRay[session] {
			stay++
		}
	}
	more := stay > t.toldNotRay
	t.unread, t.notRay = waiting.unread(), notRay
	t.mu.Unlock()
	now := time.Now()
	if waiting.count > 0 {
		if log, ok := t.warnings.waiting.Next(now); ok {
			log.WithError(waiting.first).Infof("the logs of %d sessions wait until the nodes are known", waiting.count)
		}
	}
	if more {
		if log, ok := t.warnings.notRay.Next(now); ok {
			t.toldNotRay = stay
			log.Infof("%d folders in Ray's temporary folder are named like sessions and hold nothing that Ray makes: "+
				"nothing of them is stored", stay)
		}
	}
}
