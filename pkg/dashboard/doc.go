// Package dashboard answers the requests of a Ray dashboard from a stored session, with the same paths, JSON structure,
// names and kinds of numbers as ray/dashboard/modules and ray/util/state. The specification is what dashboards of Ray
// 2.55, 2.57 and 2.60 were recorded to answer. Texts of errors are Ray's where a client may read them.
//
// routes.go has all routes, with the function that answers each; request.go is what a request asks for (the moment,
// parameters, secrets), reply.go how answers are written. The other files are named after what they answer about.
// state.go and query.go are Ray's State API: its lists and summaries, and their filters. logs.go sends log files,
// completely or in part; logfind.go finds the one that is meant, and logcut.go where it ended at the moment.
//
// An answer has two sources. Events (session.Session's tables) say what happened and when. Snapshots are answers that
// the live dashboard gave while it ran. Package moment puts them together, and says which counts (join.go there); the
// files here show it:
//
//   - A row (actor, node, job, worker, placement group) that has a snapshot starts from it, because the snapshot is
//     what the live dashboard answered, including hardware figures. What depends on the state is replaced if the state
//     by events counts.
//   - A row without a snapshot comes only from events, and from what the logs of Ray's own processes say (ports,
//     processes, runtime environments). Values that these lack are what Ray answers for an empty field.
//   - Both sources may have several deliveries of an event of the platform; the latest one counts.
//   - A submission comes from its own events, if there are any. What they leave out (its definition, its end) comes
//     from its driver, its supervisor and its logs.
//   - For what only snapshots contain (Serve, Data, Train, objects), the last stored answer counts.
//
// With Request.At the same rules hold for that moment: later events are left out, and so are rows that did not exist
// yet. The last snapshot taken before that moment is used, or the first one if there is none before.
package dashboard
