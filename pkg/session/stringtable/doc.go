// Package stringtable keeps each string that repeats in a session once, and gives it a number: names, IDs in binary,
// JSON.
//
//	Table   hash slots ──► ID ──► span in an Arena ──► the bytes
//	Interned  the same for values of any comparable type, by a Go map
//	List, Arena  grow without moving what they hold
//
// A session of a million tasks has millions of references to strings. As numbers they take 4 bytes instead of 16, can
// be compared without reading the strings, and are ignored by the garbage collector: Arena and List hold no pointers
// except those to their chunks.
//
// Nothing is ever changed or removed. So a View, a copy of the headers of a table's lists, can be read without a lock
// while others add to the table.
package stringtable
