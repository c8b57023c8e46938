package output

import "github.com/rayhistory/historyserver/internal/lazyregexp"

// varying matches what differs between occurrences of one failure: addresses in memory, IDs of at least 16 hexadecimal
// digits, UUIDs, and numbers with their dots, as those of versions and hosts.
var varying = lazyregexp.New(`0x[0-9a-fA-F]+|\b[0-9a-fA-F]{16,}\b|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\d+(?:\.\d+)*`)

// Normalised returns a message with "#" for all that differs between occurrences of one failure: numbers, addresses and
// IDs. Of a long message only the first MaxTitle bytes are used.
func Normalised(message string) string {
	return varying().ReplaceAllString(Clip(message, MaxTitle), "#")
}
