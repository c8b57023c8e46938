// Package logsearch searches the stored logs of sessions for a text or a regular expression.
//
// Logs are read as streams of blocks, several logs at a time. If every match must contain a literal, whole blocks are
// searched for it, and only lines that contain it are checked. Matches go to a function as they are found.
//
// Patterns and logs are untrusted input. Patterns are RE2 and limited in size. A search takes at most MaxMemory,
// however long lines are, and ends with its context.
package logsearch
