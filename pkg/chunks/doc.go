// Package chunks reads a stream as one sequence of bytes. A stream is data that grows, such as a log or an hour of
// events, and is stored as immutable chunks.
//
//	stored objects            the Reader gives
//
//	raylet.out                bytes 0 to 7       a chunk of 8 bytes
//	raylet.out.@…0008.zst     bytes 8 to 15      decompressed
//	raylet.out.@…0012         bytes 16 to 19     bytes 12 to 15 are in the chunk before: they are given once
//	raylet.out.@…0030         a Gap error        no chunk holds bytes 20 to 29
//	                          bytes 30 to …      if the caller reads on
//
// A caller that tolerates damage records each Gap and reads on. A caller that does not treats it like any other error.
//
// Chunks are untrusted input. A Reader holds the decompression window of one chunk, at most 8 MiB, and the bytes that
// it prefetches.
package chunks
