// Package session is the state of one stored session: what its events tell, in tables, and which logs and snapshots there are.
//
//	listing ──► index, if there is one ─────────────────────────────┐
//	        └► streams of events ──► work items ──► eventjson ──► tasktable, entities ──► Session
//	        └► logs, snapshots (only listed)
//
// Load lists a session's objects once and replays its events in one pass: several streams at a time, large ones in several work items. The
// result of an event does not depend on which others came before it or how often it comes, so events may be read in any order,
// concurrently, and again. That is what makes the rest simple: Refresh reads what was stored since and merges it, a checkpoint in an index
// lets a later Load do the same, and a session too large for memory is read in several passes (see tasktable).
package session
