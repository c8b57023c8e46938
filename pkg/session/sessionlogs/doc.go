// Package sessionlogs knows a session's stored log files and reads ranges of them, by bytes, lines and time.
//
// A Set holds only names and sizes: which log files each node has, and which chunks each log has. Set.Open gives a
// File, whose bytes are read from the store on request.
package sessionlogs
