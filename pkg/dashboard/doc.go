// Package dashboard answers what a Ray dashboard answers, from a stored session: the same paths, shapes, names, kinds of numbers and
// error texts as ray/dashboard/modules and ray/util/state give them (seen on 2.55 and 2.60).
//
// An answer has two sources. Events (session.Session's tables) say what happened and when; snapshots are answers that the live
// dashboard gave while it lived. They are put together by these rules:
//
//   - A row (actor, node, job, worker, placement group) that has a snapshot starts from it: it is what the live dashboard said,
//     hardware figures and all.
//   - Where the events' state of it, at the moment asked for, is the snapshot's, the snapshot stands: its times are Ray's own, an
//     event's some milliseconds later.
//   - Where the states differ, events win on state and on all that goes with it (times, process, cause of death), because a
//     snapshot is as old as the last time one was taken; but a snapshot that shows a row finished is believed over events that do not
//     know of its end, since events may be lost and nothing finished starts again.
//   - A row without a snapshot comes from events alone, and from what the logs of Ray's own processes tell (ports, processes, runtime
//     environments); what they lack is what Ray gives for an empty field.
//   - What only snapshots tell (Serve, Data, Train, objects) is the last answer saved.
//
// With Request.At the same rules hold for that moment: events after it are left out, rows that were not there yet too, and the last
// snapshot taken before it is used, or the first if there is none.
package dashboard
