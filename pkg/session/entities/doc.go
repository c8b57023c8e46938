// Package entities holds the content of events about everything but tasks: actors, nodes, jobs, submissions, workers, placement groups and
// events of the platform. A session of a million tasks has some thousands of these, so they are plain rows.
//
//	events ──► Update ──► Builder (maps, while events come in) ──► Set (slices sorted by ID, events of the platform by time)
//
// Stored events come in any order and may repeat, so merging must not depend on the order. Three rules make it so:
//   - Of several definitions of one entity the one with the latest time counts. Where times are equal the hash of the event's text decides.
//   - An event of the platform is a row for each time at which it was delivered; where the times are equal, the hash decides.
//   - Transitions are a set, ordered by time and state. One that is known already changes nothing.
//
// Definitions (time and hash of each row's definition) are stored with an index. With them Restore continues as if all events had just been
// read again.
package entities
