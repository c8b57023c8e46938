// Package tasktable is the table of a session's task attempts, of which there may be millions: built while events come
// in, then queried.
//
//	Builder                                          Table
//	16 shards by the first hex digit of the task ID  rows sorted by task ID, last attempt first
//	┌ shard 0 ┐ ┌ shard 1 ┐ … ┌ shard f ┐  Freeze    ┌ page ┐ ┌ page ┐ …  128 rows each, column by column
//	│ pages   │ │ pages   │   │ pages   │ ─────────► │ scan columns: job, definition, state, …
//	│ hash    │ │ hash    │   │ hash    │            │ cells: IDs, times, node, worker, log offsets, …
//	└ arenas ─┘ └─────────┘   └─────────┘ ◄───────── └ arenas: other transitions, errors, profile events
//	                                       Builder
//
// Memory. A row takes about 210 bytes. Columns hold no pointers: what repeats is a number in a string table, what
// varies in length lies in an arena. What tasks of one kind have in common is a Definition that they share.
//
// Merging does not depend on order. Events come in any order, concurrently, and may repeat. So every rule of merge.go
// is commutative and idempotent: times and numbers take the maximum, strings the greater one byte by byte, errors that
// of the latest failure that has a text, profile events are a set. On what Ray sends this gives what Ray's own
// dashboard shows.
//
// Passes. If the rows take more memory than a load may hold, Fit drops the last shards. The caller puts the finished
// shards into a File, calls Next, and reads the events again for the shards that were dropped:
//
//	pass 1  shards 0…8 kept, 9…f dropped on the way   ► File
//	pass 2  shards 9…f                                ► File   Last: the Table reads its rows from the file
//
// Where rows are. A Table has all rows in pages, or reads groups of them (GroupRows) from a RowSource: an index, or a
// File. Then the scan columns that filters and summaries need stay in memory once read. Cells are forgotten again when
// they take more than 64 MiB. Lineage reads each group once, with the few columns it needs, and keeps none.
//
// Continuing. Stored is the table as an index keeps it. Builder and Restore put its rows back into shards, so that only
// events stored since have to be read.
package tasktable
