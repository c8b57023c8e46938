// Package snapshots knows what is stored of a session besides events and logs: answers of the live dashboard
// (snapshots) and hardware figures (series).
//
// A Set holds only names and sizes. Bodies are read on request, within a memory budget, and parsed once for all
// callers.
package snapshots
