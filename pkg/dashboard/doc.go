// Package dashboard answers what a Ray dashboard answers, from a stored session, with the paths, shapes, names and kinds of numbers of
// ray/dashboard/modules and ray/util/state. The specification is what dashboards of Ray 2.55, 2.57 and 2.60 were recorded to answer. Texts of
// errors are Ray's where a client may read them.
//
// routes.go has all routes, with the function that answers each. The packages below are named after what is asked for: actors, cluster,
// events, jobs, libraries (Serve, Data and Train), logs, metrics (Grafana and Prometheus), nodes, tasks, workers, and state for Ray's State
// API. They share
//
//	request   the request: its session and moment, snapshots, parameters, secrets
//	reply     JSON as Ray's dashboard writes it
//	moment    the state of things at one moment, from events
//	logfiles  names, beginnings and ends of log files
//
// An answer has two sources. Events (session.Session's tables) say what happened and when; snapshots are answers that the live
// dashboard gave while it lived. These rules join them:
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
//   - Of an event of the platform both may have several deliveries; the latest one counts.
//   - A submission's own events, if there are any, tell of it; what they leave out (its definition, its end) its driver, its supervisor
//     and its logs do.
//   - For things that only snapshots have (Serve, Data, Train, objects), the last saved answer counts.
//
// With Request.At the same rules hold for that moment: events after it are left out, rows that were not there yet too, and the last
// snapshot taken before it is used, or the first if there is none.
package dashboard
