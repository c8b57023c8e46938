// Package spool keeps events on local disk from the moment a collector has answered for them until they are in the store.
//
// # What is kept
//
// Append takes a batch: lines of one or more streams. The batch is kept completely or not at all, as one record of a segment file. Within a
// record, the bytes of one stream are a block. A Stream is the part of one stream that the spool holds; the shipper stores it in chunks
// like any growing file. A segment is deleted when everything in it is shipped.
//
// # What a crash leaves
//
// After a crash at any instant:
//
//   - Every batch whose Append returned nil is there, because its bytes and the segment's name in the folder were synced before.
//   - A batch that was being written is cut off when the spool is opened. It was never answered, so Ray sends it again.
//   - What was shipped and is still on disk is not shipped again: the store's listing and the stream's saved position (see position) say
//     which bytes those are. If the two do not agree (another collector wrote into the same stream, objects were deleted, files are
//     damaged), the stream continues after the stored bytes. Then lines may be stored twice, which replay merges, but none is lost.
//
// Positions do not prevent loss. They prevent that the same bytes are stored again after a crash. Segments hold many streams, so one stream
// that the store refuses keeps up to half of the spool's limit on disk, most of it shipped (see compact). Without positions, a collector
// that keeps crashing would store all of that again each time.
//
// # What deleted files leave
//
// Programs that clean /tmp delete files under a running collector. Before a batch is answered for, its segment's name and the lock are looked
// up; if one is gone, the batch fails, and Ray sends it again. The next segment makes the folder and its lock again. What waited in deleted
// segments is lost, counted and logged when it is to be shipped. Deleted positions are written again.
//
// # Files
//
// A folder belongs to one process at a time:
//
//	lock            locked as long as the spool is open
//	anchors         the streams' positions (see positions)
//	{sequence}.seg  segments
//	quarantine/     damaged segments of which everything readable was shipped
package spool
