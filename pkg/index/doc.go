// Package index stores a session's tables as Parquet, so that the session opens without its events being replayed, and so that whole fleets
// are analysed by anything that reads Parquet.
//
// An index is the objects index/{table}.parquet below the session's prefix. Those for analysis (tasks, task_events, profile, actors,
// nodes, jobs, submissions, workers, placement_groups) spell identifiers in hex and times as timestamps; tasks and what belongs to them
// are sorted by job, task and attempt, so that the statistics of row groups lead to the few that hold a job or a task. Those for the
// server (rows, texts, definitions, profilers) hold the task table column by column as package session has it, in the order Ray lists
// tasks; checkpoint holds what it needs to add to them. docs/analysis.md describes the columns of the former.
//
// meta is written last and names all others with their sizes, and the events they were made of. An index counts only if those are stored
// now. If they are all, it answers by itself; if more is stored, its tables are added to.
package index

// formatVersion changes whenever older readers could not read the tables, or would read them wrongly.
const formatVersion = 2

const application = "rayhistory"
