// Package index stores a session's tables as Parquet, so that the session opens without replaying its events, and so that anything that reads
// Parquet can analyse many sessions.
//
// An index is the objects {root}/index/{the session's prefix below the root}/{table}.parquet. Nothing but the server need be allowed to
// write there: tables among the objects that collectors store are never read. The tables for analysis (tasks, task_events, profile, actors,
// nodes, jobs, submissions, workers, placement_groups, platform_events) spell identifiers in hex and times as timestamps; tasks and what belongs to them
// are sorted by job, task and attempt, so that the statistics of row groups lead to the few that hold a job or a task. The tables for the
// server (rows, texts, definitions, profilers) hold the task table column by column as package session has it, in the order Ray lists
// tasks; checkpoint holds what replay needs to add to them. docs/analysis.md describes the columns of the tables for analysis.
//
// Tables that the server reads are read by package tablefile, which trusts nothing in them.
//
// meta is written last and names all other tables with their sizes, and the objects of events they were made of. An index is used only if
// those objects are still stored. If no others are, it answers by itself; if more is stored, replay adds it to the tables.
package index

// formatVersion changes when older readers could not read the tables, or would read them wrongly.
const formatVersion = 4

const application = "rayhistory"
