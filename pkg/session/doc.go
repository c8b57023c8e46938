// Package session is the state of one stored session: what its events tell, in tables, and which logs and snapshots there are.
//
// Load lists a session's objects once and replays its events in one pass, several files at a time, large files in parts. Tables are filled
// as events are met: nothing is built in between. Tasks, of which there may be millions, are columns without pointers (taskPage); everything
// else is rows (Actor, Node, …). What an event adds does not depend on which others came before or how often it comes, so that events may
// be read in any order and concurrently, and read again.
//
// Decoding is a scanner of our own (cursor): it reads fields where they stand, straight into columns, skips what is not wanted without
// looking closely, finds texts it has met by how they are spelled, takes both spellings of field names, and knows at which byte a damaged
// event ends. A library that fills structs does half of the work, and the rest costs more when texts are Go strings first: on one core of a
// small cloud machine the scanner takes 470 MB/s of events into the tables, allocating what the tables grow by (BenchmarkDecode); goccy/go-json
// fills structs with 540 MB/s and 12 allocations for each event, encoding/json with 86 MB/s, and nothing is in a table then (test/decoders).
// encoding/json stays the judge of what an event says: FuzzEvent.
package session
