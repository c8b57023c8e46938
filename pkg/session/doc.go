// Package session is the state of one stored session: the tables of what its events say, and which logs and snapshots
// it has.
//
//	listing ──► index, if there is one ─────────────────────────────┐
//	        └► streams of events ──► work items ──► eventjson ──► tasktable, entities ──► Session
//	        └► logs, snapshots (only listed)
//
// Load lists a session's objects once and replays its events in one pass: several streams at a time, large ones in
// several work items. The effect of an event does not depend on which events came before it or on how often it comes.
// So events may be read in any order, concurrently, and again. Three other functions rely on this: Refresh reads what
// was stored since and merges it, a checkpoint in an index lets a later Load do the same, and rows too large for memory
// are written to runs (see tasktable).
package session
