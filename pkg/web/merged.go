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
	Dated          bool        // rows have the date
	Wide           bool        // each log has a column
	Starts, Ends   []int64     // where the shown lines begin and end in each log, in bytes
	Earlier, Later bool        // there are lines before and after those shown
	Offered        []MergedLog // logs that can be added
	Form           url.Values
	Wrong          Wrong
}

// MergedLog is one of the logs.
type MergedLog struct {
	Node    Node
	File    string
	Writer  string // what wrote it; "" if not known
	Undated bool   // none of its lines that are shown has a time
}

// MergedRow is a line of one of the logs.
type MergedRow struct {
	Log  int    // its index in MergedLogs.Logs
	Time string // "" if the line has none
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
func (p MergedLogs) Open(row MergedRow) string {
	l := p.Logs[row.Log]
	return "log?" + url.Values{"node_id": {l.Node.ID}, "file": {l.File},
		"near": {strconv.FormatInt(row.Line.Offset+1, 10)}}.Encode()
}

// Number is the number of a row's log, from 1 on.
func (r MergedRow) Number() int { return r.Log + 1 }

// Without is the address of the page without the log with an index. It begins at the time in this page's address, or
// else at the beginning of the logs.
func (p MergedLogs) Without(i int) string {
	var left []string
	for j, l := range p.Logs {
		if j != i {
			left = append(left, l.ID())
		}
	}
	return p.addressWith("log", left...)
}

// ToggleColumns is the address of the page with one column for all logs if each has one now, else with one for each.
func (p MergedLogs) ToggleColumns() string {
	if p.Wide {
		return p.addressWith("columns")
	}
	return p.addressWith("columns", "1")
}

// Before and After are the addresses of the pages with the lines before and after those shown.
func (p MergedLogs) Before() string { return p.addressAt(p.Starts, "1") }
func (p MergedLogs) After() string  { return p.addressAt(p.Ends, "") }

// addressAt is the address of the page that begins at an offset in each log or, if the parameter before is not "", ends
// there.
func (p MergedLogs) addressAt(places []int64, before string) string {
	texts := make([]string, len(places))
	for i, place := range places {
		texts[i] = strconv.FormatInt(place, 10)
	}
	query := maps.Clone(p.Form)
	query.Del("time")
	query.Del("before")
	query.Set("offset", strings.Join(texts, ","))
	if before != "" {
		query.Set("before", before)
	}
	return "logs?" + query.Encode()
}

// addressWith is the address of the page with other values of a parameter. With other logs it has no offsets, which are
// those of these logs.
func (p MergedLogs) addressWith(name string, values ...string) string {
	query := maps.Clone(p.Form)
	query[name] = values
	if name == "log" {
		query.Del("offset")
		query.Del("before")
	}
	return "logs?" + query.Encode()
}

// Columns is how many columns of lines a wide page has.
func (p MergedLogs) Columns() int { return len(p.Logs) }

// CanAdd says whether another log may be added.
func (p MergedLogs) CanAdd() bool { return len(p.Logs) < MaxMerged }

func (MergedLogs) template() string { return "merged.html" }
