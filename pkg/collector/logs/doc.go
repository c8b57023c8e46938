// Package logs follows the log files of every session below Ray's temporary folder, so that they can be shipped while
// they grow.
//
// # Streams and generations
//
// The stream of a path is everything that was ever written to this path. Rotation puts it into several files, its
// generations, which form one stream in their order. Only a scan of the folders decides what was rotated or removed.
// The kernel's notices of changes (fsnotify) name files that are looked at before (look.go), or make the next scan come
// earlier; they can get lost. Files are open only while they are read.
//
// # Identity
//
// A name does not identify a file, since rotation renames files. An inode does not identify it either, since file
// systems give the inode of a removed file to a new one. So a file is identified by its inode and a hash of its first
// bytes. Both are kept in a state file, for a rotation while the collector is restarted. While the collector runs, the
// bytes that it saw last tell, too: programs that write a file anew may begin with the same kilobyte.
//
//   - The file was renamed (raylet.out to raylet.1.out, monitor.log to monitor.log.1): it stays in the stream of
//     raylet.out and is not shipped as raylet.1.out.
//   - It is shorter than before, or begins with other bytes, or has others where its end was: it was truncated, or
//     another file has its inode now. A new generation begins. Those of a log that is overwritten again and again are
//     stored ever more rarely, and the last one at the end.
//   - Its volume was mounted again: it has its inode and another device number, which is taken over.
//   - It was copied and then truncated (logrotate's copytruncate): the copy has the same first bytes, and what was not
//     read before the truncation is read from the copy. A new file that looks like a copy waits, because the truncation
//     may be yet to come.
//   - It is truncated after a chunk of it was opened, while a slow store still reads: the chunk is given up, and the
//     next scan finds where its bytes are now.
//   - It is unknown, for example because the state file was lost: it is shipped under its present name. Its bytes may
//     then be stored twice. None is missing, unless it was truncated or made anew when the state was lost, and has as
//     many bytes again as are stored: then it is taken for the file that they are from.
//
// # The states of a file
//
//	a scan finds a new file       it is in the state file
//	          |                              |
//	          v                              v
//	        fresh                        restored
//	          |                              |
//	          +------------seen--------------+
//	                        |
//	                        v
//	  +------failed---- following ----moved------+
//	  |                 ^       ^                |
//	  v                 |       |                v
//	unreadable ---due---+       +----seen----- moved
//
//	every state ----finished----> finished
//
// All transitions (a test compares this table with the code):
//
//	file        seen        due        moved     failed      finished
//	fresh       following   following  moved     unreadable  finished
//	restored    following   following  moved     unreadable  finished
//	following   following   following  moved     unreadable  finished
//	moved       following   following  moved     unreadable  finished
//	unreadable  unreadable  following  moved     unreadable  finished
//	finished    finished    finished   finished  finished    finished
//
// A file that a scan does not find is finished only when the next scan does not find it either: a scan can miss a file
// that is renamed at that moment. Growth is no state: only the size changes.
//
// # The states of a stream
//
// Only the store's listing says where a stream continues. The state file does not: after a crash it can be out of date.
//
//	unlisted ----listed----> listed ----opened----> inFlight
//	   ^                      | ^                    | |
//	   |                      | +--listed or stored--+ |
//	   +-------unusable-------+---------unusable-------+
//
// All transitions (a test compares this table with the code):
//
//	stream    listed  unusable  opened    stored
//	unlisted  listed  unlisted  unlisted  unlisted
//	listed    listed  unlisted  inFlight  listed
//	inFlight  listed  unlisted  inFlight  listed
//
// A stream reads from one file at a time, its current file. It moves on to another file only in the state listed: while
// a chunk is in flight, it is not known which of its bytes are stored, so the place of the next file's bytes is not
// known either.
package logs
