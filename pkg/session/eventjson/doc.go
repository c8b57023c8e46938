// Package eventjson reads Ray's events and hands what they tell to a Sink. It knows no tables.
//
//	bytes ──► cursor (walks over JSON) ──► Decoder ──► TaskUpdate       ──► Sink.MergeTask
//	                                                └► entities.Update  ──► Sink.MergeEntity
//
// It is a scanner of our own. It reads fields where they stand, skips the others without looking closely, finds strings it has met by how
// they are spelled, takes both spellings of field names (camelCase and snake_case), and knows at which byte a damaged event ends. A library
// that fills structs does half of the work, and the rest costs more when strings are Go strings first. On one core of a small cloud machine
// the scanner takes 470 MB/s of events into the tables and allocates what the tables grow by (session's BenchmarkDecode). goccy/go-json
// fills structs with 540 MB/s and 12 allocations per event, encoding/json with 86 MB/s, and nothing is in a table then (test/decoders).
// encoding/json stays the judge of what an event says: session's FuzzEvent.
//
// An Update is filled anew for each event and its slices are reused, so a Sink must copy what it keeps. Where an event is damaged or of
// another session, nothing of it reaches the Sink.
package eventjson
