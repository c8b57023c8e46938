// Package sessionlogs knows the log files that are stored of a session and reads ranges of them, by bytes, lines and time.
//
// A Set holds names and sizes only: which nodes left which files, and of which chunks each consists. Set.Open gives a File, whose bytes are
// read from the store when they are asked for.
package sessionlogs
