package blobtest

import (
	"cmp"
	"fmt"
	"sync"
	"testing"
)

// subject is a subtest that remembers its first complaint, for the table at the end of a long run.
type subject struct {
	*testing.T
	complaint *complaint
}

type complaint struct {
	mu   sync.Mutex
	text string
}

func (c *complaint) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = cmp.Or(c.text, text)
}

// sub runs a test below this one; its complaints are this one's.
func (s subject) sub(name string, run func(subject)) {
	s.T.Run(name, func(t *testing.T) { run(subject{t, s.complaint}) })
}

// Error implements testing.TB.
func (s subject) Error(args ...any) {
	s.Helper()
	s.complaint.add(fmt.Sprint(args...))
	s.T.Error(args...)
}

// Errorf implements testing.TB.
func (s subject) Errorf(format string, args ...any) {
	s.Helper()
	s.complaint.add(fmt.Sprintf(format, args...))
	s.T.Errorf(format, args...)
}

// Fatal implements testing.TB.
func (s subject) Fatal(args ...any) {
	s.Helper()
	s.complaint.add(fmt.Sprint(args...))
	s.T.Fatal(args...)
}

// Fatalf implements testing.TB.
func (s subject) Fatalf(format string, args ...any) {
	s.Helper()
	s.complaint.add(fmt.Sprintf(format, args...))
	s.T.Fatalf(format, args...)
}
