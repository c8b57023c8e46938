// Package ship stores everything that grows, spooled events and log files alike, as immutable chunks.
//
// # The listing is the checkpoint
//
// A stream is one growing sequence of bytes with a key of its own. It is stored as chunks: the first under the stream's key, later ones
// under keys that contain the offset of their first byte (package layout). A chunk is created, never replaced. So a put that is repeated
// after a lost answer does no harm, and the store's listing says where to continue: the next chunk begins where the last one ends. Nothing
// that a shipper remembers has to survive: after any error, and when a key exists already, it lists again.
//
// A listing shows a chunk's stored size, which for a compressed chunk is not its length in the stream. So each compressed chunk is recorded
// in a file before it is put (see lengthLog): offset, length, stored size. A listed chunk that agrees with a record ends where the record
// says. A chunk without a record (the file was lost, another collector stored the chunk, or compaction joined it) may have any length above 0:
// the stream continues at the chunk's offset + 1, or where its source or the last record shows that more was stored. Nothing is lost by this: replay counts
// equal event lines once, and readers of a log skip bytes that earlier chunks hold.
//
// # When a chunk is cut
//
// A stream is due when MaxChunk bytes wait, or when its oldest byte has waited for PushInterval. Flush ships everything at once. The stream
// that waits longest goes first. During Flush the shortest goes first, because then the most streams are stored completely.
//
// # What an error means
//
// Every error has one of four causes (see blame):
//
//	source  The bytes cannot be read. The stream waits, with backoff. Nothing else is affected.
//	store   The store is down, or closed to this collector. After five such errors in a row the circuit breaker opens: one upload
//	        at a time goes out as a probe, ever more rarely, until one succeeds.
//	object  The store refuses this object and may take others, such as for its name or a missing right. The stream waits by itself,
//	        up to 15 min; after three such errors in a row the log and a metric name it.
//	size    The chunk is too large, or too slow for its time. The stream's chunks are halved until one passes, down to LeastChunk.
//	        Twice the size is tried again after an hour; other streams begin with the size that passed.
//
// The error itself often shows which (413, a refused key). Otherwise the time between decides: if another chunk was stored between two
// errors of the same stream, the store works and refuses only this object.
package ship
