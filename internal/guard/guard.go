// Package guard turns panics into errors where stored objects are read. Stored objects are untrusted input, and a
// damaged one must not end the process. A panic in a goroutine without a guard ends it, so each goroutine that reads
// needs its own CatchPanic.
package guard

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic that was caught.
type Panic struct {
	What  string // was read: an object's key, mostly
	Value any
	Stack []byte
}

func (p *Panic) Error() string {
	return fmt.Sprintf("internal error while reading %s: %v", p.What, p.Value)
}

// CatchPanic calls read and returns its error, or a *Panic if it panics. what names what is read, for that error.
func CatchPanic(what string, read func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return read()
}
