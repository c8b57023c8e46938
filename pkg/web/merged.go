package web

import (
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/logs/logview"
)

// MaxMerged is how many logs are shown side by side. Each has a colour and a column in style.css.
const MaxMerged = 4

// MergedLogs is a page of several logs side by side by time.
type MergedLogs struct {
	Frame
	Logs           []MergedLog
	Rows           []MergedRow
	Dated          bool // rows have the date
	Wide           bool // a column for each log
	Starts, Ends   []int64
	Earlier, Later bool        // there are lines before and behind those shown
	Offered        []MergedLog // to add
	Form           url.Values
	Wrong          Wrong
}

// MergedLog is one of the logs.
type MergedLog struct {
	Node    Node
	File    string
	Writer  string // what wrote it; "" if not known
	Undated bool   // its lines that are shown say no time
}

// MergedRow is a line of one of the logs.
type MergedRow struct {
	Log  int    // its number
	Time string // "" if it says none
	Line logview.Line
}

// ID names the log in addresses.
func (l MergedLog) ID() string { return l.Node.ID + "/" + l.File }

// About says what wrote the log, and where.
func (l MergedLog) About() string {
	if l.Writer == "" {
		return l.Node.Label()
	}
	return l.Writer + " · " + l.Node.Label()
}

// Open is the address of a line in the log's own viewer.
func (t MergedLogs) Open(row MergedRow) string {
	l := t.Logs[row.Log]
	return "log?" + url.Values{"node_id": {l.Node.ID}, "file": {l.File},
		"near": {strconv.FormatInt(row.Line.Offset+1, 10)}}.Encode()
}

// Number is the number of a row's log, from 1 on.
func (r MergedRow) Number() int { return r.Log + 1 }

// Without is the address of the page without a log, from the time that the address names, or else from the beginning.
func (t MergedLogs) Without(i int) string {
	var left []string
	for j, l := range t.Logs {
		if j != i {
			left = append(left, l.ID())
		}
	}
	return t.addressWith("log", left...)
}

// Turned is the address of the page with a column for each log, or with one for all.
func (t MergedLogs) Turned() string {
	if t.Wide {
		return t.addressWith("columns")
	}
	return t.addressWith("columns", "1")
}

// Before and After are the addresses of the lines before and behind those shown.
func (t MergedLogs) Before() string { return t.at(t.Starts, "1") }
func (t MergedLogs) After() string  { return t.at(t.Ends, "") }

// at is the address of the part that begins at these offsets of the logs; before is that of its parameter.
func (t MergedLogs) at(places []int64, before string) string {
	texts := make([]string, len(places))
	for i, place := range places {
		texts[i] = strconv.FormatInt(place, 10)
	}
	query := maps.Clone(t.Form)
	query.Del("time")
	query.Del("before")
	query.Set("offset", strings.Join(texts, ","))
	if before != "" {
		query.Set("before", before)
	}
	return "logs?" + query.Encode()
}

// addressWith is the address of the page with other values of a parameter. Offsets are of these logs, so other logs get
// an address without them.
func (t MergedLogs) addressWith(name string, values ...string) string {
	query := maps.Clone(t.Form)
	if query[name] = values; name == "log" {
		query.Del("offset")
		query.Del("before")
	}
	return "logs?" + query.Encode()
}

// Columns is how many columns lines have.
func (t MergedLogs) Columns() int { return len(t.Logs) }

// CanAdd says whether another log may be added.
func (t MergedLogs) CanAdd() bool { return len(t.Logs) < MaxMerged }

func (MergedLogs) template() string { return "merged.html" }
