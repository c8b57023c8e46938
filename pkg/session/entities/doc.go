// Package entities holds the content of events about everything except tasks: actors, nodes, jobs, submissions,
// workers, placement groups and events of the platform. A session of a million tasks has only some thousands of these,
// so they are plain rows.
//
//	events ──► Update ──► Builder (maps, while events come in) ──► Set (slices sorted by ID, events of the platform by time)
//
// Stored events come in any order and may repeat, so the result of merging must not depend on the order. Three rules
// achieve this:
//   - Of several definitions of one entity the one with the latest time counts. If times are equal, the hash of the
//     event's text decides.
//   - An event of the platform has one row for each time at which it was delivered; if times are equal, the hash
//     decides.
//   - Transitions are a set, ordered by time and state, with those that end the row last. A transition that is known
//     already changes nothing (transitions.go).
//
// Definitions (time and hash of each row's definition) are stored with an index. With them Restore continues as if all
// events had just been read again.
package entities
