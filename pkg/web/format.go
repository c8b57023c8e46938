package web

import (
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/session"
)

// formatCount writes a number with thousands separators: 12,345.
func formatCount(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural writes the word for n things.
func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// percent is done of total, from 0 to 100; 0 if the total is not known.
func percent(done, total int64) int64 {
	if total <= 0 {
		return 0
	}
	return min(100, done*100/total)
}

// Unfinished lists what had not ended when a session did: "1 job, 5 actors"; "" if all had.
func Unfinished(u session.Unfinished) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{u.Jobs, "job"}, {u.Actors, "actor"}} {
		if p.n > 0 {
			parts = append(parts, formatCount(p.n)+" "+plural(p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}
