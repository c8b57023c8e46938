// Package logsearch searches the stored logs of sessions for a text or a regular expression.
//
// Logs are read as streams of blocks, several at a time. A literal that every match must contain is looked for in whole blocks; only lines
// that have it are looked at. What is found goes to a function as it is found.
//
// Patterns and logs are outside input: patterns are RE2 and bounded, a search takes at most MaxMemory however long lines are, and ends with its
// context.
package logsearch
