// Package eventjson reads Ray's events and passes their content to a Sink. It does not know the tables.
//
//	bytes ──► cursor (walks over JSON) ──► Decoder ──► TaskUpdate       ──► Sink.MergeTask
//	                                                └► entities.Update  ──► Sink.MergeEntity
//
// It is a scanner of our own. It reads the fields that it needs, skips the others without decoding them, finds known
// strings by their encoded form, accepts both spellings of field names (camelCase and snake_case), and knows at which
// byte a damaged event ends. A library that fills structs does only half of the work, and the other half costs more
// when strings are Go strings first. On one core of a small cloud machine the scanner puts 470 MB/s of events into the
// tables and allocates only what the tables grow by (session's BenchmarkDecode). goccy/go-json fills structs with 540
// MB/s and 12 allocations per event, encoding/json with 86 MB/s, and then nothing is in a table yet (test/decoders).
// encoding/json is the reference for what an event says: see session's FuzzEvent.
//
// Tasks, of which there are millions, have readers of their own (task.go). All other events fill the structs of package
// entities, whose tags name the events' fields (entity.go).
//
// An Update is filled again for each event and its slices are reused, so a Sink must copy what it keeps. If an event is
// damaged or belongs to another session, no part of it reaches the Sink.
package eventjson
