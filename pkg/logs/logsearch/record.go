package logsearch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Record is a part of a search's result: *Begin, *Match, *File, *Progress or *End.
type Record interface{ record() }

// Begin comes before the records of a session.
type Begin struct {
	Type    string `json:"type"` // "begin"
	Session string `json:"session"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"` // as stored
}

// Match is a line that matches. Of a long line text is what is around the match, of one that overwrites itself what a
// terminal shows then; bytes that are no UTF-8 are replaced.
type Match struct {
	Type    string `json:"type"` // "match"
	Session string `json:"session"`
	NodeID  string `json:"node_id"`
	File    string `json:"file"`
	Rank    int    `json:"rank"` // of the log, see File
	Line    int64  `json:"line"` // counted from 1
	// Time is what the line says, RFC 3339, or the nearest line before it that says a time. Level is what the line
	// says, or the first line of its record: a line that says a time or a level begins one. A traceback in a record
	// below warning is an error.
	Time  string `json:"time,omitempty"`
	Level string `json:"level,omitempty"`
	Text  string `json:"text"`
	// Match is where in Text the first match is: bytes [from, to).
	Match [2]int `json:"match"`
	// Length is the line's length in bytes and Skipped how many of them are before Text; both are left out if Text is
	// the whole line.
	Length  int64    `json:"length,omitempty"`
	Skipped int64    `json:"skipped,omitempty"`
	Before  []string `json:"before,omitempty"`
	After   []string `json:"after,omitempty"`
	Link    string   `json:"link,omitempty"`
}

// File says what was found in a log, after its matches. Logs without matches have one only if something was wrong with
// them.
type File struct {
	Type    string `json:"type"` // "file"
	Session string `json:"session"`
	NodeID  string `json:"node_id"`
	File    string `json:"file"`
	// Rank orders the logs of a result for people: that of RankOf, or LastRank if no line of the log was reported.
	Rank    int   `json:"rank"`
	Matches int64 `json:"matches"` // matching lines, also those that were not reported
	// Writer is what wrote the log, such as "worker of actor Counter", if that is known and was asked for.
	Writer string `json:"writer,omitempty"`
	// Undated counts lines that match but say no time, where the query has a range of time.
	Undated int64 `json:"undated,omitempty"`
	// Unlevelled counts lines that match but say no level, and are in no record that says one, where the query has a
	// level.
	Unlevelled int64 `json:"unlevelled,omitempty"`
	// Problem says why not all of the log was searched.
	Problem string `json:"problem,omitempty"`
}

// Progress comes about twice a second.
type Progress struct {
	Type    string `json:"type"` // "progress"
	Files   int    `json:"files"`
	Of      int    `json:"of"` // in the sessions that were begun
	Bytes   int64  `json:"bytes"`
	Matches int64  `json:"matches"`
}

// End is the last record.
type End struct {
	Type string `json:"type"` // "end"
	// Complete says that all of the selected logs were searched and every match was reported. If not, Why says what
	// ended or cut the search: lines (more matched than were to be reported), bytes, time, others (who waited for their
	// searches), or damage (not all could be read).
	Complete bool     `json:"complete"`
	Why      []string `json:"why,omitempty"`
	Files    int      `json:"files"` // searched to their ends
	Matches  int64    `json:"matches"`
	Reported int64    `json:"reported"`
	// Undated and Unlevelled are the sums of those of the logs: lines that could not be judged.
	Undated    int64   `json:"undated,omitempty"`
	Unlevelled int64   `json:"unlevelled,omitempty"`
	Bytes      int64   `json:"bytes"` // searched, uncompressed
	Seconds    float64 `json:"seconds"`
}

func (*Begin) record()    {}
func (*Match) record()    {}
func (*File) record()     {}
func (*Progress) record() {}
func (*End) record()      {}

// newMatch makes a record of what was found. It copies the text, which is in the scanner's buffer. Length and Skipped
// are only set if the text is a part of a long line.
func newMatch(f *found) *Match {
	text := func(b []byte) string { return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) }
	line := bytes.TrimSuffix(f.text, []byte{'\r'})
	to := min(f.to, len(line))
	from := min(f.from, to)
	before, match, after := text(line[:from]), text(line[from:to]), text(line[to:])
	m := &Match{
		Type: "match", Line: f.line, Level: f.header.Level.String(), Text: before + match + after,
		Match:  [2]int{len(before), len(before) + len(match)},
		Before: f.before, After: f.after,
	}
	if f.header.Dated {
		m.Time = time.Unix(0, f.header.Time).UTC().Format(time.RFC3339Nano)
	}
	if int64(len(f.text)) < f.length {
		m.Length, m.Skipped = f.length, f.skipped
	}
	return m
}

// ParseRecord reads a record that was sent as JSON. It is nil, without an error, if this version does not know its
// type.
func ParseRecord(data []byte) (Record, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("read a record of a search: %w", err)
	}
	var r Record
	switch head.Type {
	case "begin":
		r = new(Begin)
	case "match":
		r = new(Match)
	case "file":
		r = new(File)
	case "progress":
		r = new(Progress)
	case "end":
		r = new(End)
	default:
		return nil, nil
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read a record of a search: %w", err)
	}
	return r, nil
}
