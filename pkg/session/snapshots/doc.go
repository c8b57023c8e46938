// Package snapshots knows what is stored of a session besides events and logs: answers of the live dashboard (snapshots) and hardware
// figures (series).
//
// A Set holds names and sizes only. Bodies are read when they are asked for, within a memory budget, and parsed once for all who ask.
package snapshots
