// Package logsearch searches the stored logs of sessions for a text or a regular expression.
//
// Logs are read as streams of blocks, several logs at a time. If every match must contain a literal, whole blocks are
// searched for it, and only lines that contain it are checked. Matches go to a function as they are found.
//
// Patterns and logs are untrusted input. Patterns are RE2 and limited in size. A search takes at most MaxMemory,
// however long lines are, and ends with its context.
package logsearch

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// Bounds of a query. What is 0 is set to the default.
const (
	DefaultLines   = 1000
	maxLines       = 100_000
	defaultTimeout = time.Minute
	MaxTimeout     = 10 * time.Minute
	maxContext     = 20 // lines before or after
)

// Query says what to search for, and where.
type Query struct {
	Pattern    string // "": every line
	Regexp     bool   // Pattern is an RE2 regular expression; else it is a text
	IgnoreCase bool

	Selection
	// Level is this or a more serious one; Unknown: all lines. Lines whose level is not known are counted as
	// unlevelled.
	Level logline.Level
	// From and To are Unix nanoseconds [From, To), of what lines say; 0 has no bound. Lines whose time is not known are
	// counted as undated.
	From, To int64

	Before, After int // lines of context
	// Lines and FileLines bound the lines that are reported, of all files and of each. Further ones are only counted.
	Lines, FileLines int
	// Bytes bounds what is read, uncompressed; 0 has no bound.
	Bytes   int64
	Timeout time.Duration

	pattern *pattern
}

// Covers says whether lines of a session may be of the query's times: one that began and was last written to then, by
// the store's clock, while lines have the times of nodes; last is zero while it runs.
func (q *Query) Covers(began, last time.Time) bool {
	return (q.To == 0 || began.UnixNano()-logline.Slack < q.To) &&
		(q.From == 0 || last.IsZero() || last.UnixNano()+logline.Slack >= q.From)
}

// Prepare checks the query, sets defaults in it and compiles its pattern. The error says what to change.
func (q *Query) Prepare() error {
	q.Lines = cmp.Or(q.Lines, DefaultLines)
	q.Timeout = cmp.Or(q.Timeout, defaultTimeout)
	switch {
	case q.Before < 0 || q.After < 0 || q.Before > maxContext || q.After > maxContext:
		return fmt.Errorf("%d lines before and %d after: want 0 to %d", q.Before, q.After, maxContext)
	case q.Lines < 0 || q.FileLines < 0 || q.Lines > maxLines:
		return fmt.Errorf("limit=%d: want 1 to %d lines", q.Lines, maxLines)
	case q.Timeout < 0 || q.Timeout > MaxTimeout:
		return fmt.Errorf("timeout=%v: want at most %v", q.Timeout, MaxTimeout)
	case q.To != 0 && q.To <= q.From:
		return fmt.Errorf("the time range ends at %s, before it begins", time.Unix(0, q.To).UTC().Format(time.RFC3339))
	}
	err := q.Selection.Prepare()
	if err != nil {
		return err
	}
	q.pattern, err = compile(q.Pattern, q.Regexp, q.IgnoreCase)
	return err
}

func (q *Query) hasTimeRange() bool { return q.From != 0 || q.To != 0 }

// inTimeRange says whether a moment is in the query's range of time.
func (q *Query) inTimeRange(at int64) bool {
	return (q.From == 0 || at >= q.From) && (q.To == 0 || at < q.To)
}
