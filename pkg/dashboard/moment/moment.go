// Package moment computes, from a session's events, the state of a node, actor, worker, driver or placement group at one moment. A moment
// is given in Unix nanoseconds; 0 is the session's end.
package moment

import (
	"time"
)

// States that several kinds of things have.
const (
	Alive = "ALIVE"
	Dead  = "DEAD"
)

// States of actors.
const (
	Restarting = "RESTARTING"
	Unready    = "DEPENDENCIES_UNREADY"
)

// Pending is the state of jobs and placement groups at first.
const Pending = "PENDING"

// MillisPerSecond is the milliseconds in a second.
const MillisPerSecond = int64(time.Second / time.Millisecond)

// Milliseconds returns Unix nanoseconds in whole milliseconds.
func Milliseconds(ns int64) int64 { return ns / int64(time.Millisecond) }

// Seconds returns Unix nanoseconds in seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }
