// Package stringtable keeps the strings that repeat through a session once, and gives each a number: names, IDs in binary, JSON.
//
//	Table   hash slots ──► ID ──► span in an Arena ──► the bytes
//	Interned  the same for values of any comparable type, by a Go map
//	List, Arena  grow without moving what they hold
//
// A session of a million tasks has millions of references to strings. As numbers they take 4 bytes instead of 16, compare without being
// read, and are nothing that the garbage collector has to look at: Arena and List hold no pointers but those to their chunks.
//
// Nothing is ever changed or removed. So a View, a copy of the headers of a table's lists, can be read without a lock while others go on
// adding to the table.
package stringtable
