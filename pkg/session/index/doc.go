// Package index stores a session's tables as Parquet. So the session opens without replaying its events, and all tools
// that read Parquet can analyse many sessions.
//
// An index is the objects {root}/index/{the session's prefix below the root}/{table}.parquet. Only the server needs the
// right to write there: tables among the objects that collectors store are never read. The tables for analysis (tasks,
// task_events, profile, actors, nodes, jobs, submissions, workers, placement_groups, platform_events) have identifiers
// in hex and times as timestamps. tasks, task_events and profile are sorted by job, task and attempt, so that the
// statistics of row groups select the few that hold a job or a task. The tables for the server (rows, texts,
// definitions) hold the task table, rows in the blocks of package tasktable, in the order in which Ray lists
// tasks; checkpoint holds what replay needs to add to them. docs/analysis.md describes the columns of the tables
// for analysis.
//
// Package tablefile reads the tables for the server, and trusts nothing in them.
//
// meta is written last. It names all other tables with their sizes, and the objects of events from which they were
// made. An index is used only if those objects are still stored. If there are no other objects of events, the index
// answers alone; if more is stored, replay adds it to the tables.
package index

// formatVersion changes when older readers could not read the tables, or would read them wrongly.
const formatVersion = 9

const application = "rayhistory"
