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
// Runs. If the rows take more memory than a load may hold, SpillIfOverBudget writes them to a temporary file, in order,
// and the builder goes on without them. An attempt may then have a part in several of these runs. At the end they are
// merged by the same rules:
//
//	run 1  ┐
//	run 2  ├─ merge ► File   the Table reads its rows from the file
//	shards ┘
//
// Where rows are. A Table has its rows in groups (GroupRows). All are in memory, or each is read from a RowSource when
// it is needed: an index, or a File. Both store rows in blocks, whose sections are columns that are read together:
//
//	group ► block ► ids | origin | scan | ran | place | rest
//	                └── lineage ─────┘  (filters, summaries: scan; bars over time: scan to place)
//
// Scan columns stay in memory once read. Cells are forgotten again when they take more than 64 MiB. Lineage reads each
// group once, with the few sections it needs, and keeps none.
//
// Continuing. Stored is the table as an index keeps it. Restore merges its rows into a builder, so that only events
// stored since have to be read. Table.Builder does so for a refresh; rows that are in a File are its first run.
package tasktable
