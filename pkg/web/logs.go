package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/logs/logview"
)

// Search is the page that searches a session's logs. Its script fills in the results.
type Search struct {
	Frame
	Form   url.Values // the query
	Wrong  Wrong      // a parameter that cannot be read; there are no results then
	Nodes  []Node
	Logs   []NodeLogs    // the session's logs; only on a page without a search
	Result *SearchResult // nil: the page's script searches
}

// NodeLogs are a node's logs: those of users' programs (Files) and Ray's own (Own). More is how many are left out.
type NodeLogs struct {
	Node
	Files, Own []NamedLog
	More       int
}

// NamedLog is a log in the page's list. Writer says what wrote it, "" if that is not known. Bytes is its stored size.
type NamedLog struct {
	NodeID, File, Writer string
	Bytes                int64
}

// Link is the address of the log, relative to the page's.
func (l NamedLog) Link() string {
	return lineAddress(l.NodeID, l.File, 0)
}

// Count is how many logs the node has.
func (n NodeLogs) Count() string { return formatCount(len(n.Files) + len(n.Own) + n.More) }

// SearchResult is what a search found, by log.
type SearchResult struct {
	Logs []*FoundLog
	End  *logsearch.End
}

// FoundLog is what was found in a log.
type FoundLog struct {
	*logsearch.File
	Lines []*logsearch.Match
}

// Add adds a record of a search: a match in a log, what the search says of the log after its matches, or the end.
func (s *SearchResult) Add(record logsearch.Record) {
	switch r := record.(type) {
	case *logsearch.Match:
		found := s.log(r.NodeID, r.File)
		found.Lines = append(found.Lines, r)
		found.Rank = r.Rank // the log's own record may never come: the search may be cut short
	case *logsearch.File:
		s.log(r.NodeID, r.File).File = r
	case *logsearch.End:
		s.End = r
	}
}

// log returns the entry of a log in the result, and adds one if there is none.
func (s *SearchResult) log(node, file string) *FoundLog {
	for _, l := range slices.Backward(s.Logs) {
		if l.NodeID == node && l.File.File == file {
			return l
		}
	}
	l := &FoundLog{File: &logsearch.File{NodeID: node, File: file}}
	s.Logs = append(s.Logs, l)
	return l
}

// Summary says in a sentence or some how much was found; "" if the search was cut short.
func (s SearchResult) Summary() string {
	if s.End == nil {
		return ""
	}
	n := int(s.End.Matches)
	text := fmt.Sprintf("%s matching %s, %s shown.", formatCount(n), pluralize(n, "line"),
		formatCount(int(s.End.Reported)))
	if !s.End.Complete {
		text += " Not complete."
	}
	for _, left := range []struct {
		lines int64
		lacks string
	}{{s.End.Undated, "time"}, {s.End.Unlevelled, "level"}} {
		if n := int(left.lines); n == 1 {
			text += " 1 more matching line has no " + left.lacks + "."
		} else if n > 1 {
			text += " " + formatCount(n) + " more matching lines have no " + left.lacks + "."
		}
	}
	return text
}

// Count says how many lines of the log match.
func (l FoundLog) Count() string { return formatCount(max(int(l.Matches), len(l.Lines))) }

// Shown returns a matching line in three parts: what is before the match, the match and what follows it.
func (FoundLog) Shown(m *logsearch.Match) [3]string {
	return [3]string{m.Text[:m.Match[0]], m.Text[m.Match[0]:m.Match[1]], m.Text[m.Match[1]:]}
}

// Label is a name for people of the node with an ID.
func (s Search) Label(id string) string {
	for _, n := range s.Nodes {
		if n.ID == id {
			return n.Label()
		}
	}
	return Node{ID: id}.Label()
}

// Node is a node whose logs are stored.
type Node struct{ ID, Role, IP string }

// Label is a name for people of the node: its role and address, else the beginning of its ID.
func (n Node) Label() string {
	if n.IP == "" {
		return "node " + n.ID[:min(len(n.ID), 12)]
	}
	return n.Role + " " + n.IP
}

func (Search) template() string { return "search.html" }

// Hidden are the parameters of the query that the form has no fields for.
func (s Search) Hidden() []Param {
	return paramsOf(s.Form, []string{"job_id", "before", "after", "limit", "timeout"})
}

// Log is a page of a log.
type Log struct {
	Frame
	Node     Node
	File     string
	Size     int64 // of the log, in bytes
	Page     logview.Page
	Previous int64 // offset of the page before; -1 if there is none
	Numbered bool  // the numbers of the lines are known
	Form     url.Values
	Wrong    Wrong
	// Shown is the index of the line that the page marks and scrolls to, -1 for none. Notice says why that is not the
	// requested line; "" if it is.
	Shown  int
	Notice string
}

func (Log) template() string { return "log.html" }

// First is the number of the page's first line, 0 if the page has no lines or they have no numbers.
func (l Log) First() int64 {
	if len(l.Page.Lines) == 0 {
		return 0
	}
	return l.Page.Lines[0].Number
}

// More says whether the log goes on after the page.
func (l Log) More() bool { return l.Page.End < l.Size }

// link is the address, relative to the page, of the page of the same log that a parameter chooses, with a fragment such
// as "#end" or "".
func (l Log) link(name, value, fragment string) string {
	return "?" + url.Values{"node_id": {l.Node.ID}, "file": {l.File}, name: {value}}.Encode() + fragment
}

// At is the address of the page that begins at an offset in the log.
func (l Log) At(offset int64) string { return l.link("offset", strconv.FormatInt(offset, 10), "") }

// Last is the address of the page with the log's end.
func (l Log) Last() string { return l.link("end", "1", "#end") }

// Show sets which line the page marks, and the notice: the last one if last is set, else the line with a number, or, if
// line is 0, the first one of a requested time. beyond says that the requested line or time is behind the log's end:
// then the notice says so. Nothing is marked on a page without lines, or with a parameter that is wrong.
func (l *Log) Show(line int64, beyond, last bool) {
	lines := l.Page.Lines
	if len(lines) == 0 || l.Wrong.Name != "" {
		return
	}
	end := lines[len(lines)-1].Number
	switch {
	case beyond && line > 0 && l.Numbered:
		l.Notice = fmt.Sprintf("The log has no line %s: its last one is %s.", formatCount(int(line)),
			formatCount(int(end)))
	case beyond && line > 0:
		l.Notice = fmt.Sprintf("The log has no line %s. These are its last ones.", formatCount(int(line)))
	case beyond:
		l.Notice = fmt.Sprintf("No line of the log is from %s or later. These are its last ones.", l.Form.Get("time"))
	}
	switch {
	case last:
		l.Shown = len(lines) - 1
	case line > 0 && l.Numbered:
		l.Shown = int(min(line-lines[0].Number, int64(len(lines)-1)))
	case line == 0 && l.Form.Get("time") != "":
		l.Shown = 0
	}
}

// Download is the address of the whole log, relative to the page.
func (l Log) Download() string {
	return "api/v0/logs/file?" + url.Values{"node_id": {l.Node.ID}, "filename": {l.File}, "lines": {"-1"}}.Encode()
}
